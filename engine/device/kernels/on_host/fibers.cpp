#include "device/kernels/on_host/fibers.hpp"

#include <ucontext.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <iterator>

#include "device/kernels/on_host/stack_switch.hpp"
#include "device/kernels/on_host/thread.hpp"

namespace paceline::device {

namespace {

constexpr std::size_t kStack = std::size_t{64} << 10;  // bytes
thread_local Fibers* running = nullptr;

}  // namespace

struct Fibers::Fiber {
  ucontext_t context{};
  std::unique_ptr<std::byte[]> stack;
  SanitizerFiber sanitizer;
  Waits waits = Waits::ended;
  unsigned thread = 0;
};

Fibers::Fibers(unsigned threads) : fibers_(threads), host_(std::make_unique<Fiber>()) {
  host_->sanitizer.adopt();
  for (unsigned thread = 0; thread < threads; ++thread) {
    Fiber& fiber = fibers_[thread];
    fiber.thread = thread;
    fiber.stack = std::make_unique_for_overwrite<std::byte[]>(kStack);
    fiber.sanitizer.create(fiber.stack.get(), kStack);
    prepare(fiber);
  }
}

// It is a function of its own because compilers take getcontext for a place that one comes back to.
void Fibers::prepare(Fiber& fiber) {
  getcontext(&fiber.context);
  fiber.context.uc_stack = {.ss_sp = fiber.stack.get(), .ss_flags = 0, .ss_size = kStack};
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, enter, 0);
}

Fibers::~Fibers() {
  stopping_ = true;
  running = this;
  for (Fiber& fiber : fibers_) resume(fiber);
  for (Fiber& fiber : fibers_) fiber.sanitizer.destroy();
}

unsigned Fibers::threads() const { return static_cast<unsigned>(fibers_.size()); }

void Fibers::run(void (*body)(void*), void* argument) {
  body_ = body;
  argument_ = argument;
  running = this;
  for (Fiber& fiber : fibers_) fiber.waits = Waits::no;
  // Forwards and backwards by turns: what is right in one order only, for want of a barrier, does not pass.
  for (bool forwards = true;; forwards = !forwards) {
    for (std::size_t i = 0; i < fibers_.size(); ++i) {
      Fiber& fiber = fibers_[forwards ? i : fibers_.size() - 1 - i];
      if (fiber.waits == Waits::no) resume(fiber);
    }
    bool released = false;
    for (std::size_t first = 0; first < fibers_.size(); first += kHostWarp)
      released |= release(first, std::min(first + kHostWarp, fibers_.size()), Waits::for_warp);
    released |= release(0, fibers_.size(), Waits::for_block);
    if (released) continue;
    if (std::ranges::all_of(fibers_, [](const Fiber& each) { return each.waits == Waits::ended; })) return;
    std::fputs("threads of a block wait at different barriers\n", stderr);
    std::abort();
  }
}

// Lets the threads of a warp or a block go on if all of them wait.
bool Fibers::release(std::size_t first, std::size_t last, Waits waits) {
  const auto begin = fibers_.begin() + static_cast<std::ptrdiff_t>(first);
  const auto end = fibers_.begin() + static_cast<std::ptrdiff_t>(last);
  if (!std::all_of(begin, end, [&](const Fiber& each) { return each.waits == waits; })) return false;
  std::for_each(begin, end, [](Fiber& each) { each.waits = Waits::no; });
  return true;
}

void Fibers::resume(Fiber& fiber) {
  current_ = &fiber;
  host_thread.thread = fiber.thread;
  host_->sanitizer.leave_for(fiber.sanitizer);
  swapcontext(&host_->context, &fiber.context);
  host_->sanitizer.arrive();
}

void Fibers::wait(Waits waits) {
  current_->waits = waits;
  leave(*current_, false);
}

// Goes back to the host's stack and, but for good, comes back.
void Fibers::leave(Fiber& fiber, bool for_good) {
  fiber.sanitizer.leave_for(host_->sanitizer, for_good);
  swapcontext(&fiber.context, &host_->context);
  fiber.sanitizer.arrive();
}

void Fibers::enter() {
  Fibers& fibers = *running;
  Fiber& self = *fibers.current_;
  self.sanitizer.arrive();
  while (!fibers.stopping_) {
    fibers.body_(fibers.argument_);
    fibers.wait(Waits::ended);
  }
  fibers.leave(self, true);
}

void warp_barrier() { running->wait(Fibers::Waits::for_warp); }
void block_barrier() { running->wait(Fibers::Waits::for_block); }

}  // namespace paceline::device
