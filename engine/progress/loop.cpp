#include "progress/loop.hpp"

#include "calibration/waiting.hpp"

namespace paceline {

bool Loop::pass(CpuMeter& meter) {
  ++passes_;
  const bool linked = operations_.any([](const Operation& operation) { return operation.needs_links(); });
  // An operation that moves on in shared memory alone must hear of errors, too, in time.
  const bool seldom = passes_ % calibration::kPassesPerSocketLook == 0;
  bool moved = (linked || seldom) && poll_links();
  if ((linked && !peers_.tcp_links().empty()) || seldom) sockets_.poll();
  moved |= step_operations(meter);
  if (passes_ % calibration::kPassesPerClock == 0) deadlines_.check();
  const auto before = operations_.size();
  operations_.retire();
  return moved || operations_.size() != before;
}

bool Loop::poll_links() {
  bool moved = false;
  for (Link* link : peers_.shm_links()) moved |= link->poll(inbox_);
  return moved;
}

bool Loop::step_operations(CpuMeter& meter) {
  const Guests::Stepping stepping(guests_, meter);
  bool moved = false;
  for (std::size_t i = 0; i < operations_.size(); ++i) {
    const std::shared_ptr<Operation> keep = operations_[i];
    if (!keep->over()) moved |= step(*keep);
  }
  return moved;
}

bool Loop::step(Operation& operation) {
  // To move data is not coordination, even while a policy has this thread spin.
  CpuMeter* const meter = guests_.meter();
  const bool apart =
      operation.group->use == Group::Use::data && meter != nullptr && meter->work() == CpuMeter::Work::coordination;
  if (apart) meter->turn_to(CpuMeter::Work::other);
  const bool moved = operation.step();
  if (apart) meter->turn_to(CpuMeter::Work::coordination);
  if (operation.trouble()) {
    poll_links();  // a peer that is gone may have left the reason behind
    if (!operation.over()) failures_.fail_for_trouble(operation);
  } else if (operation.complete()) {
    if (operation.read_remotely()) poll_links();  // a peer that gave up has said so by now
    if (!operation.over()) operation.finish();
    return true;
  } else if (failures_.may_lack(*operation.group)) {
    failures_.fail_if_absent(operation);  // from now on it may need a rank that left before
  }
  return moved;
}

}  // namespace paceline
