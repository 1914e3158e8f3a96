// The threads of one block of a kernel, as fibers of one thread of the host: a thread that waits at a barrier lets the
// others go on. Barriers at which not all arrive are found, and end the program with a message. One thread of the host
// makes, runs and destroys them.
#pragma once

#include <memory>
#include <vector>

namespace paceline::device {

class Fibers {
 public:
  explicit Fibers(unsigned threads);
  ~Fibers();
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;

  unsigned threads() const;

  // Has every thread call `body(argument)` once, and returns when all have.
  void run(void (*body)(void*), void* argument);

  enum class Waits { no, for_warp, for_block, ended };
  // The thread that is being carried out waits.
  void wait(Waits waits);

 private:
  struct Fiber;
  static void prepare(Fiber& fiber);
  void resume(Fiber& fiber);
  void leave(Fiber& fiber, bool for_good);
  bool release(std::size_t first, std::size_t last, Waits waits);
  static void enter();

  std::vector<Fiber> fibers_;
  std::unique_ptr<Fiber> host_;  // the stack on which `run` was called
  Fiber* current_ = nullptr;
  void (*body_)(void*) = nullptr;
  void* argument_ = nullptr;
  bool stopping_ = false;
};

}  // namespace paceline::device
