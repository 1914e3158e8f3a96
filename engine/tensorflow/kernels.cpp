// The kernels of all ops. They hand each call to the hooks, which are Python's, and never wait: the call ends when
// Python says so, from any thread.
#include "tensorflow/kernels.hpp"

#include <memory>

#include "tensorflow/call.hpp"

#define PACELINE_EXPORT extern "C" __attribute__((visibility("default")))

namespace paceline::tensorflow {

namespace {

constexpr int kFailedPrecondition = 9;  // TF_FAILED_PRECONDITION

// `create` returns the kernel's number for the NodeDef, as serialised; a negative one refuses it. `compute` gets
// `Call::description`, and owes the call its end.
struct Hooks {
  std::int64_t (*create)(const void* node, std::size_t bytes) = nullptr;
  void (*compute)(std::int64_t kernel, Call* call, const std::int64_t* description, std::size_t count) = nullptr;
  void (*destroy)(std::int64_t kernel) = nullptr;
} hooks;

struct Kernel {
  std::int64_t number;
  bool in_place;
};

template <bool in_place>
void* create(Construction* construction) {
  const ScopedStatus status;
  Buffer* node = api().OpKernelConstruction_GetNodeDef(construction, status);
  std::int64_t number = -1;
  if (status.ok()) {
    number = hooks.create(node->data, node->length);
    api().DeleteBuffer(node);
    if (number < 0) api().SetStatus(status, kFailedPrecondition, "paceline cannot read this op's attributes");
  }
  if (number < 0) api().OpKernelConstruction_Failure(construction, status);
  return std::make_unique<Kernel>(Kernel{number, in_place}).release();
}

void compute(void* kernel, ContextPointer* context, Done* done) {
  const auto& self = *static_cast<Kernel*>(kernel);
  auto* call = std::make_unique<Call>(context, *done).release();
  const ScopedStatus status;
  const int inputs = api().NumInputs(context);
  if (!(self.in_place ? call->take_inputs_as_outputs(inputs, status) : call->take_inputs(status)))
    call->finish(api().GetCode(status), api().Message(status));
  else
    hooks.compute(self.number, call, call->description().data(), call->description().size());
}

void destroy(void* kernel) {
  const std::unique_ptr<Kernel> self(static_cast<Kernel*>(kernel));
  if (self->number >= 0) hooks.destroy(self->number);
}

}  // namespace

void register_kernel(const char* op, bool in_place) {
  const ScopedStatus status;
  KernelBuilder* builder =
      api().NewAsyncKernelBuilder(op, "CPU", in_place ? &create<true> : &create<false>, &compute, &destroy);
  api().RegisterKernelBuilder(op, builder, status);
}

}  // namespace paceline::tensorflow

using paceline::tensorflow::Call;

// The name of the function that this TensorFlow lacks; null if it has all.
PACELINE_EXPORT const char* paceline_tensorflow_missing() { return paceline::tensorflow::api().missing; }

PACELINE_EXPORT void paceline_tensorflow_connect(decltype(paceline::tensorflow::hooks.create) create,
                                                 decltype(paceline::tensorflow::hooks.compute) compute,
                                                 decltype(paceline::tensorflow::hooks.destroy) destroy) {
  paceline::tensorflow::hooks = {create, compute, destroy};
}

// Memory for an output of a call; null if TensorFlow has none.
PACELINE_EXPORT void* paceline_tensorflow_allocate(Call* call, int output, int dtype, const std::int64_t* shape,
                                                   int rank, std::size_t bytes) {
  const paceline::tensorflow::ScopedStatus status;
  return call->allocate(output, dtype, shape, rank, bytes, status);
}

// Ends a call whose tensors are needed further; `paceline_tensorflow_release` gives them back.
PACELINE_EXPORT void paceline_tensorflow_go_on(Call* call) { call->go_on(); }

PACELINE_EXPORT void paceline_tensorflow_release(Call* call) { const std::unique_ptr<Call> released(call); }

// Ends a call whose outputs are its first inputs.
PACELINE_EXPORT void paceline_tensorflow_finish_with_inputs(Call* call) { call->finish_with_inputs(); }

// Ends a call. Code 0 is success, others are of TF_Code and come with a message.
PACELINE_EXPORT void paceline_tensorflow_finish(Call* call, int code, const char* message) {
  call->finish(code, message);
}
