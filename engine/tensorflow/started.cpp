#include "tensorflow/started.hpp"

#include <memory>
#include <unordered_map>

namespace paceline::tensorflow {

namespace {

constexpr int kInternal = 13;  // TF_INTERNAL

// The calls that nobody has taken yet.
class Waiting {
 public:
  std::int64_t add(Started* started) {
    const std::lock_guard lock(mutex_);
    calls_.emplace(++last_, started);
    return last_;
  }

  // Returns null for a number that is unknown, or was removed before.
  Started* remove(std::int64_t number) {
    const std::lock_guard lock(mutex_);
    const auto node = calls_.extract(number);
    return node ? node.mapped() : nullptr;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::int64_t, Started*> calls_;
  std::int64_t last_ = 0;
} waiting;

}  // namespace

std::int64_t Started::wait_for_taker() { return waiting.add(this); }

void Started::end(int code, const char* message) {
  let_go();
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
    code_ = code;
    if (code != 0) message_ = message;
    if (taker_ == nullptr) return;
  }
  conclude();
}

void Started::take(std::int64_t number, AwaitedCall* taker) {
  if (Started* const started = waiting.remove(number))
    started->take(taker);
  else
    taker->end(kInternal, "the number of a collective that no op has started, or whose result was taken before");
}

void Started::take(AwaitedCall* taker) {
  {
    const std::lock_guard lock(mutex_);
    taker_ = taker;
    if (!over_) return;
  }
  conclude();
}

// Whoever comes second calls this.
void Started::conclude() {
  const std::unique_ptr<Started> own(this);
  if (code_ == 0)
    taker_->end_with_inputs();
  else
    taker_->end(code_, message_.c_str());
}

}  // namespace paceline::tensorflow
