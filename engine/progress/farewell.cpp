#include "progress/farewell.hpp"

#include <thread>
#include <utility>

#include "message/parting.hpp"

namespace paceline {

namespace {

// What peers still say is of no use to a rank that has failed or ended all that it had under way.
class Unheard final : public Inbox {
 public:
  std::unique_ptr<Arrival> new_arrival() override { return std::make_unique<Arrival>(); }
  void deliver(std::unique_ptr<Arrival>) override {}
  StreamSink* expect(int, const Header&) override { return nullptr; }
  void lost(int, const std::string&) override {}
  void garbled(int, const std::string&) override {}
};

}  // namespace

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
  // To close a socket with unread bytes in it drops what this rank has sent and its peer has yet to read.
  Unheard unheard;
  const auto deadline = Clock::now() + std::chrono::seconds(1);
  for (bool all = false; !all && Clock::now() < deadline; std::this_thread::yield()) {
    all = true;
    for (auto& peer : peers_) {
      if (peer->lost) continue;
      peer->link->on_readable(unheard);
      peer->link->poll(unheard);
      all = peer->link->flush() && all;
    }
  }
  for (auto& peer : peers_)
    if (!peer->lost) peer->link->hang_up();
}

}  // namespace paceline
