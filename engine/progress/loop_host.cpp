// What the engine does for coordinators.
#include "progress/loop_host.hpp"

#include "progress/engine.hpp"

namespace paceline {

void Engine::admit(LoopGuest& guest) { guests_.push_back(&guest); }

void Engine::dismiss(LoopGuest& guest) { std::erase(guests_, &guest); }

void Engine::close_channel(std::uint64_t channel) { closed_channels_.insert(channel); }

bool Engine::is_closed(std::uint64_t channel) const { return closed_channels_.contains(channel); }

bool Engine::reaches(const Member& member) const { return member.link != nullptr && peers_.reaches(member.peer); }

void Engine::add(std::shared_ptr<Operation> operation) { active_.push_back(std::move(operation)); }

// The caller goes its own way. Peers may sleep, and so may the thread in `serve`: one of them does the rest.
void Engine::step_now(Operation& operation) {
  if (listening_ && parked_ == Parked::no) set_parked(Parked::for_everything);
  step(operation);
  if (operation.over()) retire();
  if (listening_) wakeups_.set_alarm(operation.wake);
  leave_to_server(operation.has_work() || operation.trouble());
}

void Engine::report(std::uint64_t id) {
  finished_.push_back(id);
  wake_server();
}

void Engine::wake_callers() { others_.notify_all(); }

void Engine::count_carrying(bool carries) { carrying_ += carries ? 1 : -1; }

}  // namespace paceline
