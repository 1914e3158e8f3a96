#include "progress/farewell.hpp"

#include <thread>
#include <utility>

#include "message/parting.hpp"

namespace paceline {

Error Farewell::part(Sleepers::Lock& lock, const std::vector<std::shared_ptr<Group>>& groups) {
  std::vector<std::shared_ptr<Parting>> partings;
  for (const auto& group : groups) {
    if (group->error || !group->may_disagree()) continue;
    const auto reaches = [this, &members = group->members](int rank) {
      return peers_.reaches(members[static_cast<std::size_t>(rank)].peer);
    };
    const auto& parting = partings.emplace_back(std::make_shared<Parting>(*group, reaches));
    parting->id = operations_.next_id();
    parting->start(*group, workspace_);
    operations_.add(parting);
    whereabouts_.report_wait(*parting);
  }
  for (const auto& parting : partings) waiting_.wait(lock, *parting);
  for (const auto& parting : partings)
    if (parting->state() == Operation::State::failed) return parting->error();
  for (const auto& group : groups)
    if (group->error.kind == ErrorKind::mismatch && !std::exchange(group->raised, true)) return group->error;
  return {};
}

void Farewell::say_goodbye() {
  Header goodbye;
  goodbye.frame = Frame::goodbye;
  const Error& error = failures_.first();
  const std::string before = error ? encoded(error) : std::string();
  goodbye.length = before.size();
  for (auto& peer : peers_)
    if (!peer->lost) peer->link->control(goodbye, before);
  const auto deadline = Clock::now() + std::chrono::seconds(1);
  for (auto& peer : peers_)
    while (!peer->lost && !peer->link->flush() && Clock::now() < deadline) std::this_thread::yield();
  for (auto& peer : peers_)
    if (!peer->lost) peer->link->hang_up();
}

}  // namespace paceline
