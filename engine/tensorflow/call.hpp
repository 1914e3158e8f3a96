// One execution of an op: its tensors, and the end that TensorFlow waits for.
#pragma once

#include <cstdint>
#include <vector>

#include "tensorflow/api.hpp"

namespace paceline::tensorflow {

class Call {
 public:
  Call(ContextPointer* context, Done done) : context_(context), done_(std::move(done)) {}
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Takes all inputs. Returns false, and sets `status`, if TensorFlow refuses.
  bool take_inputs(Status* status);
  // Takes an output for each of the first `count` inputs, with its shape, dtype and contents; where nobody else uses an
  // input it is the same memory.
  bool take_inputs_as_outputs(int count, Status* status);
  // Memory for an output; null, with `status` set, if there is none.
  void* allocate(int output, int dtype, const std::int64_t* shape, int rank, std::size_t bytes, Status* status);
  // Tells TensorFlow that the call is over, and deletes it. Code 0 is success, others are of TF_Code.
  void finish(int code, const char* message);
  // Tells TensorFlow that the call is over, but keeps what was taken until this object is deleted.
  void go_on();
  // As `finish`, after it has made outputs of the first inputs, as `take_inputs_as_outputs` does.
  void finish_with_inputs();

  // The tensors that were taken: their number, then for each its address, bytes, dtype, rank and dimensions.
  const std::vector<std::int64_t>& description() const { return description_; }

 private:
  void describe(Tensor* tensor);
  void let_go();

  ContextPointer* context_;
  Done done_;
  std::vector<Tensor*> tensors_;
  std::vector<std::int64_t> description_;
};

}  // namespace paceline::tensorflow
