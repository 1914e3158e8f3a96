#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tensorflow/call.hpp"
#include "tensorflow/prepared.hpp"

namespace paceline::tensorflow {

// How the calls of an op go.
enum class Calls : std::uint8_t {
  plain,     // TensorFlow waits for the end of each
  in_place,  // the same, and the first outputs are the inputs, of which each is changed
  starting,  // as in_place, but TensorFlow waits only until the call has begun; the last output is its number
  taking,    // the last input is the number of a call that was begun; TensorFlow waits for the end of that call
};

// Registers the kernel of an op on the CPU.
void register_kernel(const char* op, Calls calls);

// The kernel of an op.
class Kernel {
 public:
  // number: Python's for the op.
  explicit Kernel(std::int64_t number) : number_(number) {}

  std::int64_t number() const { return number_; }
  // From now on calls whose tensors are like those of `call` go by what Python has prepared for them.
  void prepare(const Call& call, std::shared_ptr<Prepared> prepared);
  // Returns what was prepared for such a call; null if Python has to be asked.
  std::shared_ptr<Prepared> prepared_for(const Call& call);

 private:
  const std::int64_t number_;
  std::mutex mutex_;  // calls of one op may run at the same time
  std::shared_ptr<Prepared> prepared_;
  std::vector<std::int64_t> description_;  // of a call that it was prepared for
};

}  // namespace paceline::tensorflow
