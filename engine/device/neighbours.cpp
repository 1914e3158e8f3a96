#include "device/neighbours.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "calibration/device.hpp"
#include "device/parting.hpp"

namespace paceline::device {
namespace {

constexpr auto kParting = std::chrono::seconds(1);

}  // namespace

Neighbours::Own::Own(const Driver& with, PointerCache& known)
    : driver(with),
      pointers(known),
      stream(with),
      ready{SharedEvent(with), SharedEvent(with)},
      done{SharedEvent(with), SharedEvent(with)},
      given(with),
      written(with),
      memory(with, [this] { stream.synchronize(); }) {}

Neighbours::Own::~Own() {
  if (scratch == 0 || scratch_kept) return;
  pointers.forget(scratch);
  driver.free(scratch);
}

Neighbours::Peer::Peer(const Driver& driver, const Introduction& said, Address scratch_here)
    : ready{Event(driver, said.ready[0]), Event(driver, said.ready[1])},
      done{Event(driver, said.done[0]), Event(driver, said.done[1])},
      given(driver, said.given),
      written(driver, said.written),
      scratch(scratch_here) {}

Neighbours::Neighbours(Engine& engine, Group& group, Device& device, PointerCache& pointers)
    : engine_(engine), group_(group), device_(device), pointers_(pointers) {
  Introduction mine{};
  mine.device = device_.uuid();
  try {
    introduce(mine);
  } catch (const DriverError& error) {
    mine.wrong.set(error.what());
  }
  const auto all = exchanged(engine_, group_, mine);
  unreachable_ = obstacle(all);
  if (!unreachable_.empty()) return;
  Words wrong;
  wrong.set(open(all));
  const auto outcomes = exchanged(engine_, group_, wrong);
  for (std::size_t from = 0; from < outcomes.size() && unreachable_.empty(); ++from)
    if (!outcomes[from].get().empty())
      unreachable_ = group_.name_of(static_cast<int>(from)) + ": " + std::string(outcomes[from].get());
  if (!unreachable_.empty()) peers_.clear();
}

Neighbours::Own& Neighbours::own() {
  if (own_ == nullptr) own_ = std::make_unique<Own>(device_.driver(), pointers_);
  return *own_;
}

void Neighbours::leave() {
  bool together = peers_.empty();
  if (!together) try_to([&] { together = all_have_left(); });
  if (own_ == nullptr) return;
  own_->scratch_kept = !together;
  if (together) try_to([&] { own_->stream.synchronize(); });
}

bool Neighbours::all_have_left() {
  const auto deadline = Clock::now() + kParting;
  const auto comes_true = [&](auto&& condition) {
    while (!condition()) {
      if (Clock::now() > deadline) return false;
      std::this_thread::sleep_for(calibration::kDeviceLook);
    }
    return true;
  };
  const auto goodbye = barrier(engine_, group_, Mode::async);  // after it all have recorded their last `done`
  if (!comes_true([&] { return engine_.is_over(*goodbye); }) || goodbye->state() != Operation::State::done)
    return false;
  return comes_true([&] {
    return std::ranges::all_of(
        peers_, [](const auto& peer) { return peer == nullptr || (peer->done[0].done() && peer->done[1].done()); });
  });
}

void Neighbours::introduce(Introduction& mine) {
  own_ = std::make_unique<Own>(device_.driver(), pointers_);
  if (!device_.no_kernels().empty()) {
    mine.wrong.set(device_.no_kernels());
    return;
  }
  const std::size_t bytes = 2 * calibration::kDeviceOneShot;
  device_.driver().check(device_.driver().allocate(&own_->scratch, bytes), "cuMemAlloc");
  pointers_.add_own({own_->scratch, bytes, Kind::device, device_.ordinal(), 0});
  mine.scratch = own_->memory.show({own_->scratch, bytes, Kind::device, device_.ordinal(), 0});
  for (int turn = 0; turn < 2; ++turn) {
    mine.ready[turn] = own_->ready[turn].handle();
    mine.done[turn] = own_->done[turn].handle();
  }
  mine.given = own_->given.handle();
  mine.written = own_->written.handle();
}

std::string Neighbours::obstacle(const std::vector<Introduction>& all) const {
  if (!group_.on_one_machine()) return "the ranks are on several machines";
  if (all.size() > kMostInputs)
    return "a kernel combines the data of at most " + std::to_string(kMostInputs) + " ranks, and the group has " +
           std::to_string(all.size());
  for (std::size_t from = 0; from < all.size(); ++from) {
    const std::string name = group_.name_of(static_cast<int>(from));
    if (!all[from].wrong.get().empty()) return name + ": " + std::string(all[from].wrong.get());
    if (all[from].device != all[0].device)
      return name + " has another device than " + group_.name_of(0) + ", and memory is mapped on one device only";
  }
  return {};
}

// Returns what went wrong, in words.
std::string Neighbours::open(const std::vector<Introduction>& all) {
  try {
    for (std::size_t from = 0; from < all.size(); ++from) {
      auto& peer = peers_.emplace_back();
      if (static_cast<int>(from) == group_.rank) continue;
      const Address scratch = own_->memory.open(static_cast<int>(from), all[from].scratch);
      peer = std::make_unique<Peer>(device_.driver(), all[from], scratch);
    }
  } catch (const DriverError& error) {
    return error.what();
  }
  return {};
}

}  // namespace paceline::device
