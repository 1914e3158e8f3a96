// A function that can be left in its midst and gone on with later, in one thread.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <utility>

namespace paceline::test {

class Fiber {
 public:
  Fiber() = default;
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  bool running() const { return running_; }

  // Runs `body` until it is left or over. Throws what it throws.
  void start(std::function<void()> body) {
    body_ = std::move(body);
    running_ = true;
    if (!stack_) stack_ = std::make_unique_for_overwrite<std::byte[]>(kStack);
    getcontext(&inside_);
    inside_.uc_stack.ss_sp = stack_.get();
    inside_.uc_stack.ss_size = kStack;
    inside_.uc_link = &outside_;
    const auto self = reinterpret_cast<std::uintptr_t>(this);
    makecontext(&inside_, reinterpret_cast<void (*)()>(&Fiber::enter), 2, static_cast<unsigned>(self),
                static_cast<unsigned>(self >> 32));
    resume();
  }
  void resume() {
    swapcontext(&outside_, &inside_);
    if (const auto thrown = std::exchange(thrown_, nullptr)) std::rethrow_exception(thrown);
  }
  // From inside.
  void leave() { swapcontext(&inside_, &outside_); }

 private:
  static constexpr std::size_t kStack = std::size_t{256} << 10;

  static void enter(unsigned low, unsigned high) {
    auto* self = reinterpret_cast<Fiber*>(std::uintptr_t{low} | std::uintptr_t{high} << 32);
    try {
      self->body_();
    } catch (...) {
      self->thrown_ = std::current_exception();
    }
    self->running_ = false;
  }

  std::unique_ptr<std::byte[]> stack_;
  std::function<void()> body_;
  std::exception_ptr thrown_;
  ucontext_t inside_{};
  ucontext_t outside_{};
  bool running_ = false;
};

}  // namespace paceline::test
