#include "tensorflow/call.hpp"

#include <cstring>
#include <utility>

namespace paceline::tensorflow {

bool Call::take_inputs(Status* status) {
  const int count = api().NumInputs(context_);
  description_.push_back(count);
  for (int input = 0; input < count; ++input) {
    Tensor* tensor = nullptr;
    api().GetInput(context_, input, &tensor, status);
    if (api().GetCode(status) != 0) return false;
    describe(tensor);
  }
  return true;
}

bool Call::take_inputs_as_outputs(int count, Status* status) {
  description_.push_back(count);
  std::vector<std::int64_t> shape;
  for (int input = 0; input < count; ++input) {
    Tensor* source = nullptr;
    api().GetInput(context_, input, &source, status);
    if (api().GetCode(status) != 0) return false;
    shape.clear();
    for (int axis = 0; axis < api().NumDims(source); ++axis) shape.push_back(api().Dim(source, axis));
    const void* data = api().TensorData(source);
    const std::size_t bytes = api().TensorByteSize(source);
    api().DeleteTensor(source);  // or the input would count as used by somebody else; the context still holds it
    int forwarded = -1;
    Tensor* output = api().ForwardInputOrAllocateOutput(context_, &input, 1, input, shape.data(),
                                                        static_cast<int>(shape.size()), &forwarded, status);
    if (api().GetCode(status) != 0) return false;
    if (forwarded < 0 && bytes > 0) std::memcpy(api().TensorData(output), data, bytes);
    describe(output);
  }
  return true;
}

void* Call::allocate(int output, int dtype, const std::int64_t* shape, int rank, std::size_t bytes, Status* status) {
  Tensor* tensor = api().AllocateOutput(context_, output, dtype, shape, rank, bytes, status);
  if (api().GetCode(status) != 0) return nullptr;
  tensors_.push_back(tensor);
  return api().TensorData(tensor);
}

void Call::let_go() {
  for (Tensor* tensor : tensors_) api().DeleteTensor(tensor);
  tensors_.clear();
}

void Call::describe(Tensor* tensor) {
  tensors_.push_back(tensor);
  const int rank = api().NumDims(tensor);
  description_.push_back(static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(api().TensorData(tensor))));
  description_.push_back(static_cast<std::int64_t>(api().TensorByteSize(tensor)));
  description_.push_back(api().TensorType(tensor));
  description_.push_back(rank);
  for (int axis = 0; axis < rank; ++axis) description_.push_back(api().Dim(tensor, axis));
}

void AwaitedCall::end(int code, const char* message) {
  if (code != 0) {
    const ScopedStatus status;
    api().SetStatus(status, code, message);
    api().OpKernelContext_Failure(context(), status);
  }
  const Done done = std::move(done_);
  delete this;  // releases the tensors first: the op that follows may then reuse their memory
  done();
}

void AwaitedCall::end_with_inputs() {
  const ScopedStatus status;
  take_inputs_as_outputs(api().NumOutputs(context()), status);
  end(api().GetCode(status), api().Message(status));
}

}  // namespace paceline::tensorflow
