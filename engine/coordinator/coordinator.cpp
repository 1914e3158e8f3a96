// How a coordinator is made, opened, asked and closed.
#include "coordinator/coordinator.hpp"

#include <algorithm>
#include <cstring>

#include "policy/shared_board.hpp"

namespace paceline {
namespace {

// A board begins with the number of ranks that have left it.
using Departures = std::atomic<std::uint64_t>;
constexpr std::size_t kBeforeBoard = kCacheLine;

}  // namespace

Coordinator::Coordinator(std::shared_ptr<Engine> engine, std::shared_ptr<Group> control, std::shared_ptr<Group> data,
                         std::string policy, PolicyOptions options, std::vector<int> machine_of)
    : engine_(std::move(engine)),
      loop_(engine_->host()),
      control_(std::move(control)),
      policy_name_(std::move(policy)),
      options_(options),
      seat_{control_->rank, std::move(machine_of)},
      partial_(static_cast<std::size_t>(control_->size())) {
  if (control_->size() != data->size() || control_->rank != data->rank || control_->size() != seat_.size())
    throw Failure(ErrorKind::invalid, "a coordinator's groups and machines must be of the same ranks");
  const auto& machines = seat_.machine_of;
  const int here = machines[static_cast<std::size_t>(seat_.rank)];
  leader_ = static_cast<int>(std::ranges::find(machines, here) - machines.begin());
  const auto lock = loop_.enter();
  control_->use = Group::Use::control;
  data->use = Group::Use::data;
  loop_.admit(*this);
  cpu_before_ = loop_.coordination_cpu_ns();
  streams_.push_back(std::make_unique<Stream>(*this, std::move(data), 0));
  own_id_ = loop_.next_id();
  warnings_id_ = loop_.next_id();
  stops_id_ = loop_.next_id();
  const std::size_t boards = boards_of(policy_name_);
  if (leader_ != seat_.rank || boards == 0) return;
  const BoardShape shape{.ranks = static_cast<int>(std::ranges::count(machines, here))};
  own_board_ = std::make_unique<ArenaMemory>(loop_.arena(), kBeforeBoard + boards * shape.bytes());
  std::memset(own_board_->data(), 0, own_board_->bytes());
}

// The engine may let go of it last, with its lock held, once it is closed.
Coordinator::~Coordinator() {
  if (!closed_) close();
}

std::uint64_t Coordinator::board_offset() const {
  return own_board_ ? loop_.arena()->offset_of(own_board_->data()) : 0;
}

void Coordinator::open(std::uint64_t board_offset) {
  const auto lock = loop_.enter();
  if (policy_) throw Failure(ErrorKind::invalid, "this coordinator is open already");
  std::vector<BoardMemory*> shared;
  if (const std::size_t boards = boards_of(policy_name_); boards > 0) {
    const int here = seat_.machine_of[static_cast<std::size_t>(seat_.rank)];
    const BoardShape shape{.ranks = static_cast<int>(std::ranges::count(seat_.machine_of, here))};
    const std::size_t bytes = kBeforeBoard + boards * shape.bytes();
    std::byte* memory = own_board_ ? own_board_->data() : nullptr;
    if (!own_board_) {
      const Link* link = control_->members[static_cast<std::size_t>(leader_)].link;
      const PeerArena* arena = link != nullptr ? link->arena() : nullptr;
      memory = arena != nullptr && board_offset % kCacheLine == 0 ? arena->at(board_offset, bytes) : nullptr;
    }
    if (memory == nullptr)
      throw Failure(ErrorKind::invalid, "the board of " + control_->name_of(leader_) + " cannot be seen from here");
    board_bytes_ = {memory, bytes};
    for (std::size_t begin = kBeforeBoard; begin < bytes; begin += shape.bytes())
      shared.push_back(
          boards_.emplace_back(std::make_unique<SharedBoard>(board_bytes_.subspan(begin, shape.bytes()), shape)).get());
  }
  policy_ = make_policy(policy_name_, options_, seat_, shared);
  follow_up();
}

void Coordinator::set_order(const std::vector<std::vector<std::string>>& buffers) {
  const auto lock = loop_.enter();
  check_open("set_order");
  policy_->set_order(buffers);
  follow_up();
}

void Coordinator::tune(std::uint64_t fusion_bytes) {
  const auto lock = loop_.enter();
  check_open("tune");
  policy_->tune(fusion_bytes);
  follow_up();
}

void Coordinator::use(const std::string& name, const std::vector<std::vector<std::string>>& buffers) {
  const auto lock = loop_.enter();
  check_open("use");
  policy_->use(name, buffers);
  follow_up();
}

Policy::Use Coordinator::in_use() {
  const auto lock = loop_.enter();
  return policy_ ? policy_->in_use() : Policy::Use{};
}

paceline::Counters Coordinator::counters() {
  const auto lock = loop_.enter();
  return policy_ ? policy_->counters() : paceline::Counters{};
}

Totals Coordinator::totals() {
  const auto lock = loop_.enter();
  Totals totals = totals_;
  totals.background_cpu_ns = loop_.coordination_cpu_ns() - cpu_before_;
  return totals;
}

std::vector<Record> Coordinator::records(std::uint64_t after) {
  const auto lock = loop_.enter();
  std::vector<Record> ordered;
  for (std::uint64_t n = std::max<std::uint64_t>(after, next_record_ - records_.size()); n < next_record_; ++n)
    ordered.push_back(records_[n % kRecords]);
  return ordered;
}

std::vector<std::string> Coordinator::warnings() {
  const auto lock = loop_.enter();
  return std::exchange(warnings_, {});
}

void Coordinator::close() {
  const auto lock = loop_.enter();
  leave();
}

void Coordinator::leave() {
  if (closed_) return;
  closed_ = true;
  carry_weight(false);
  loop_.dismiss(*this);
  if (!control_->error) tell_of_departure();
  if (state() == State::running) fail({ErrorKind::aborted, "its coordinator was closed"});
  for (const auto& stream : streams_) loop_.drop_group(*stream->group);
  loop_.drop_group(*control_);
  loop_.report(warnings_id_);
  streams_.clear();
  leave_board();
}

// Only the last rank to leave could give the board's memory back. A rank that closes earlier does not wait for that.
void Coordinator::leave_board() {
  if (board_bytes_.empty()) return;
  auto& departures = *reinterpret_cast<Departures*>(board_bytes_.data());
  const auto ranks = static_cast<std::uint64_t>(boards_.front()->ranks());
  const bool last = departures.fetch_add(1) + 1 == ranks;
  if (own_board_ && !last) loop_.arena()->retire(own_board_->data());
  board_bytes_ = {};
}

}  // namespace paceline
