// A call that one op has begun and another op ends. TensorFlow takes it to be over when it has begun, so that its end,
// well or not, is that of the call of the second op, the taker.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

#include "tensorflow/call.hpp"

namespace paceline::tensorflow {

class Started final : public Call {
 public:
  using Call::Call;

  // Returns a number for `take` to find it by; its memory stays for as long as nobody takes it.
  std::int64_t wait_for_taker();
  // Lets go of the tensors, so that the taker can reuse their memory, and ends the taker if there is one.
  void end(int code, const char* message) override;
  // Ends `taker` with the outcome of the call of this number, now or when it is there.
  static void take(std::int64_t number, AwaitedCall* taker);

 private:
  void take(AwaitedCall* taker);
  void conclude();

  std::mutex mutex_;
  AwaitedCall* taker_ = nullptr;
  bool over_ = false;
  int code_ = 0;
  std::string message_;
};

}  // namespace paceline::tensorflow
