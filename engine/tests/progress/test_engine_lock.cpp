// A thread that takes the lock again and again lets others in.
#include <atomic>
#include <chrono>
#include <thread>

#include "calibration/waiting.hpp"
#include "progress/engine_lock.hpp"
#include "tests/check.hpp"

using namespace paceline;

// At the first offer the waiting thread sleeps, and may come too late; but it cannot come too late again and again.
TEST(a_waiting_thread_gets_the_lock) {
  EngineLock mine;
  for (int round = 0; round < 200; ++round) {
    auto lock = mine.take();
    std::thread other([&] { mine.take(); });
    while (!mine.is_contended()) std::this_thread::yield();
    mine.offer(lock);
    if (mine.is_contended()) {
      std::this_thread::sleep_for(2 * calibration::kYield);
      mine.offer(lock);
    }
    CHECK(!mine.is_contended());
    lock.unlock();
    other.join();
  }
}

TEST(nobody_is_waited_for_where_nobody_waits) {
  EngineLock mine;
  auto lock = mine.take();
  for (int offers = 0; offers < 3; ++offers) {
    mine.offer(lock);
    std::this_thread::sleep_for(2 * calibration::kYield);
  }
  CHECK(lock.owns_lock());
}

TEST(a_thread_that_was_away_is_seen_to_wait) {
  EngineLock mine;
  std::atomic<bool> away{false};
  std::atomic<bool> held{false};
  std::thread other([&] {
    auto lock = mine.take();
    lock.unlock();
    away = true;
    while (!held) std::this_thread::yield();
    mine.retake(lock);
  });
  while (!away) std::this_thread::yield();
  auto lock = mine.take();
  held = true;
  while (!mine.is_contended()) std::this_thread::yield();
  lock.unlock();
  other.join();
  CHECK(!mine.is_contended());
}
