// One execution of an op: its tensors, and its end.
#pragma once

#include <cstdint>
#include <vector>

#include "tensorflow/api.hpp"

namespace paceline::tensorflow {

class Kernel;

class Call {
 public:
  Call(Kernel& kernel, ContextPointer* context) : kernel_(kernel), context_(context) {}
  virtual ~Call() { let_go(); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Ends the call, once and from any thread, and deletes it. Code 0 is success, others are of TF_Code.
  virtual void end(int code, const char* message) = 0;

  // Takes all inputs. Returns false, and sets `status`, if TensorFlow refuses.
  bool take_inputs(Status* status);
  // Takes an output for each of the first `count` inputs, with its shape, dtype and contents; where nobody else uses an
  // input it is the same memory.
  bool take_inputs_as_outputs(int count, Status* status);
  // Memory for an output; null, with `status` set, if there is none.
  void* allocate(int output, int dtype, const std::int64_t* shape, int rank, std::size_t bytes, Status* status);

  Kernel& kernel() const { return kernel_; }
  // The tensors that were taken: their number, then for each its address, bytes, dtype, rank and dimensions.
  const std::vector<std::int64_t>& description() const { return description_; }

 protected:
  ContextPointer* context() const { return context_; }
  void let_go();

 private:
  void describe(Tensor* tensor);

  Kernel& kernel_;
  ContextPointer* const context_;
  std::vector<Tensor*> tensors_;
  std::vector<std::int64_t> description_;
};

// A call that TensorFlow waits for.
class AwaitedCall final : public Call {
 public:
  AwaitedCall(Kernel& kernel, ContextPointer* context, Done done) : Call(kernel, context), done_(std::move(done)) {}

  void end(int code, const char* message) override;
  // Ends the call well, after it has made outputs of the first inputs, as `take_inputs_as_outputs` does.
  void end_with_inputs();

 private:
  Done done_;
};

}  // namespace paceline::tensorflow
