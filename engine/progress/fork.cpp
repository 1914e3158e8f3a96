#include "progress/fork.hpp"

#include <pthread.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "progress/engine.hpp"

namespace paceline {
namespace {

std::mutex engines_mutex;
std::vector<Engine*>& engines() {
  static std::vector<Engine*> all;
  return all;
}

void before_fork() {
  engines_mutex.lock();
  for (Engine* engine : engines()) engine->before_fork();
}
void after_fork_in_parent() {
  for (Engine* engine : engines()) engine->after_fork_in_parent();
  engines_mutex.unlock();
}
void after_fork_in_child() {
  for (Engine* engine : engines()) engine->after_fork_in_child();
  engines_mutex.unlock();
}

}  // namespace

void track_for_fork(Engine* engine) {
  static const int registered = ::pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  (void)registered;
  const std::lock_guard lock(engines_mutex);
  engines().push_back(engine);
}

void untrack_for_fork(Engine* engine) {
  const std::lock_guard lock(engines_mutex);
  std::erase(engines(), engine);
}

}  // namespace paceline
