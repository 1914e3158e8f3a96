#include "tests/device/double/wishes.hpp"

#include "tests/device/double/double.hpp"

namespace paceline::device::fake {
namespace {

struct Wish {
  Result result;
  std::uint64_t at;  // the number of the call
};

std::mutex mutex;
std::map<std::string, std::uint64_t> counts;
std::multimap<std::string, Wish> wishes;
std::mutex held_mutex;
std::condition_variable released;
bool held = false;
bool kernels_held = false;
int kernels_waiting = 0;

}  // namespace

Result called(const char* function) {
  const std::lock_guard lock(mutex);
  const std::uint64_t number = counts[function]++;
  const auto [first, last] = wishes.equal_range(function);
  for (auto wish = first; wish != last; ++wish) {
    if (wish->second.at != number) continue;
    const Result result = wish->second.result;
    wishes.erase(wish);
    return result;
  }
  return Result::success;
}

void kernel_begins() {
  std::unique_lock lock(held_mutex);
  ++kernels_waiting;
  released.wait(lock, [] { return !kernels_held; });
  --kernels_waiting;
}

Result make(std::size_t bytes, Kind kind, Address* address);

std::atomic<unsigned char>& own_number() {
  static std::atomic<unsigned char> number{1};
  return number;
}

std::atomic<bool>& reaches_others() {
  static std::atomic<bool> reaches{true};
  return reaches;
}

}  // namespace paceline::device::fake

using namespace paceline::device;
using namespace paceline::device::fake;

extern "C" {

void double_fail(const char* function, int result, unsigned after) {
  const std::lock_guard lock(mutex);
  wishes.insert({function, {static_cast<Result>(result), counts[function] + after}});
}

std::uint64_t double_calls(const char* function) {
  const std::lock_guard lock(mutex);
  return counts[function];
}

std::uint64_t double_allocate(std::size_t bytes, int kind) {
  Address address = 0;
  return make(bytes, static_cast<Kind>(kind), &address) == Result::success ? address : 0;
}

int double_held() {
  State& all = state();
  const std::lock_guard lock(all.mutex);
  return static_cast<int>(all.allocations.size() + all.opened.size()) + all.events + all.streams;
}

void double_be(unsigned char number) { own_number() = number; }
void double_reach(bool others) { reaches_others() = others; }

void double_hold(void* stream) {
  {
    const std::lock_guard lock(held_mutex);
    held = true;
  }
  stream_of(static_cast<StreamHandle>(stream)).add([] {
    std::unique_lock lock(held_mutex);
    released.wait(lock, [] { return !held; });
  });
}

void double_release() {
  const std::lock_guard lock(held_mutex);
  held = false;
  kernels_held = false;
  released.notify_all();
}

void double_hold_kernels() {
  const std::lock_guard lock(held_mutex);
  kernels_held = true;
}

int double_kernels_held() {
  const std::lock_guard lock(held_mutex);
  return kernels_held ? kernels_waiting : 0;
}

void double_capture(void* stream) { stream_of(static_cast<StreamHandle>(stream)).captures = true; }

}  // extern "C"
