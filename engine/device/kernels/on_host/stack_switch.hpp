// What sanitizers must be told when a thread goes on on another stack. Without a sanitizer all of it is empty.
#pragma once

#include <cstddef>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace paceline::device {

#if defined(__SANITIZE_ADDRESS__)
class SanitizerFiber {
 public:
  void create(const void* stack, std::size_t bytes) { stack_ = stack, bytes_ = bytes; }
  void destroy() {}
  void adopt() { host_ = true; }
  void leave_for(SanitizerFiber& next, bool for_good = false) {
    next.from_ = this;
    __sanitizer_start_switch_fiber(for_good ? nullptr : &fake_stack_, next.stack_, next.bytes_);
  }
  // The stack of the host's thread is learned from whoever leaves it.
  void arrive() {
    const void* stack = nullptr;
    std::size_t bytes = 0;
    __sanitizer_finish_switch_fiber(fake_stack_, &stack, &bytes);
    fake_stack_ = nullptr;
    if (from_->host_) from_->stack_ = stack, from_->bytes_ = bytes;
  }

 private:
  const void* stack_ = nullptr;
  std::size_t bytes_ = 0;
  void* fake_stack_ = nullptr;
  SanitizerFiber* from_ = nullptr;
  bool host_ = false;
};
#elif defined(__SANITIZE_THREAD__)
class SanitizerFiber {
 public:
  void create(const void*, std::size_t) { fiber_ = __tsan_create_fiber(0); }
  void destroy() { __tsan_destroy_fiber(fiber_); }
  void adopt() { fiber_ = __tsan_get_current_fiber(); }
  void leave_for(SanitizerFiber& next, bool = false) { __tsan_switch_to_fiber(next.fiber_, 0); }
  void arrive() {}

 private:
  void* fiber_ = nullptr;
};
#else
class SanitizerFiber {
 public:
  void create(const void*, std::size_t) {}
  void destroy() {}
  void adopt() {}
  void leave_for(SanitizerFiber&, bool = false) {}
  void arrive() {}
};
#endif

}  // namespace paceline::device
