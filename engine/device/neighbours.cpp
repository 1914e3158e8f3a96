#include "device/neighbours.hpp"

#include <algorithm>
#include <random>
#include <utility>

#include "calibration/device.hpp"
#include "device/parting.hpp"

namespace paceline::device {
namespace {

constexpr std::size_t kTrialAt = 2 * calibration::kDeviceOneShot;  // behind the data of two calls
constexpr std::size_t kParametersAt = kTrialAt + calibration::kDeviceTrials.back();
constexpr std::size_t kScratch = kParametersAt + sizeof(Head) + kMostRanges * sizeof(Parameters);

std::uint64_t random_channel() {
  std::random_device device;
  return (std::uint64_t{device()} << 32 | device()) >> 1;
}

std::vector<int> on_this_machine(const Group& group) {
  std::vector<int> near;
  for (int rank = 0; rank < group.size(); ++rank) {
    const auto machine = [&](int one) { return group.machines[static_cast<std::size_t>(one)]; };
    const bool here = group.machines.empty() ? group.on_one_machine() : machine(rank) == machine(group.rank);
    if (rank == group.rank || here) near.push_back(rank);
  }
  return near;
}

// The most ranks that are on one machine.
std::size_t most_together(const Group& group) {
  if (group.machines.empty()) return group.on_one_machine() ? group.members.size() : 1;
  std::ptrdiff_t most = 0;
  for (const int machine : group.machines) most = std::max(most, std::ranges::count(group.machines, machine));
  return static_cast<std::size_t>(most);
}

}  // namespace

Neighbours::Neighbours(Engine& engine, Group& group, Device& device, PointerCache& pointers)
    : engine_(engine),
      group_(group),
      device_(device),
      pointers_(pointers),
      near_(on_this_machine(group)),
      own_(device.driver()),
      memory_(device.driver()),
      scratch_(group.members.size(), 0) {
  Introduction mine{};
  mine.device = device_.uuid();
  mine.channel = random_channel();
  prepare(mine);
  const auto all = exchanged(engine_, group_, mine);
  for (std::size_t from = 0; from < all.size(); ++from)
    if (!all[from].failed.get().empty())
      throw Failure({ErrorKind::aborted,
                     group_.name_of(static_cast<int>(from)) +
                         " cannot work on its device: " + std::string(all[from].failed.get()),
                     group_.members[from].description});
  make_hosts(all[0].channel);
  for (std::size_t from = 1; from < all.size(); ++from)
    share_device_ |= std::any_of(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(from),
                                 [&](const Introduction& one) { return one.device == all[from].device; });
  const std::size_t together = most_together(group_);
  if (!group_.on_one_machine()) unreachable_ = "the ranks are on several machines";
  if (!group_.on_one_machine() && together == 1) return;
  std::string why = obstacle(all, together);
  if (why.empty()) why = opened_everywhere(all);
  if (group_.on_one_machine()) {
    unreachable_ = why;
  } else {
    machines_reach_ = why.empty();
    if (!why.empty()) unreachable_ += ", and " + why;
  }
}

// Returns why not if a rank cannot open what those near it have: the same on all ranks.
std::string Neighbours::opened_everywhere(const std::vector<Introduction>& all) {
  device::Words wrong;
  try {
    wrong.set(open(all));
  } catch (const DriverError& error) {
    wrong.set(error.what());
  }
  const auto outcomes = exchanged(engine_, group_, wrong);
  for (std::size_t from = 0; from < outcomes.size(); ++from)
    if (!outcomes[from].get().empty())
      return group_.name_of(static_cast<int>(from)) + ": " + std::string(outcomes[from].get());
  return {};
}

Neighbours::~Neighbours() {
  if (hosts_ != nullptr) {
    const auto lock = engine_.host().enter();
    engine_.host().drop_group(*hosts_);
  }
  if (shown_kept_) {
    if (control_ != nullptr) control_->retire();
    if (signals_ != nullptr) signals_->retire();
    return;
  }
  const Address own = scratch_[static_cast<std::size_t>(group_.rank)];
  if (own == 0) return;
  pointers_.forget(own);
  device_.driver().free(own);
}

Address Neighbours::trial() const { return scratch_[static_cast<std::size_t>(group_.rank)] + kTrialAt; }

Address Neighbours::parameters() const { return scratch_[static_cast<std::size_t>(group_.rank)] + kParametersAt; }

// Tells in `mine` what this rank has, and what it could not get.
void Neighbours::prepare(Introduction& mine) {
  const Driver& driver = device_.driver();
  const auto& arena = engine_.host().arena();
  try {
    stream_ = std::make_unique<Stream>(driver);
    control_ = std::make_unique<Control>(driver, arena, kernels());
    signals_ = std::make_unique<Signals>(driver, arena, group_, near_);
    mine.signals = signals_->offset();
    mine.control = control_->offset();
  } catch (const DriverError& error) {
    mine.failed.set(error.what());
    return;
  }
  mine.unreachable.set(device_.no_kernels());
  if (!device_.no_kernels().empty()) return;
  try {
    Address& own = scratch_[static_cast<std::size_t>(group_.rank)];
    driver.check(driver.allocate(&own, kScratch), "cuMemAlloc");
    const Memory memory{own, kScratch, Kind::device, device_.ordinal(), 0};
    pointers_.add_own(memory);
    mine.scratch = own_.show(memory);
  } catch (const DriverError& error) {
    mine.unreachable.set(error.what());
  }
}

// Returns what is in the way of all of them. together: the most ranks of a machine.
std::string Neighbours::obstacle(const std::vector<Introduction>& all, std::size_t together) const {
  if (together > kMostInputs)
    return "a kernel combines the data of at most " + std::to_string(kMostInputs) + " ranks, and " +
           (group_.on_one_machine() ? "the group" : "a machine") + " has " + std::to_string(together);
  for (std::size_t from = 0; from < all.size(); ++from) {
    const std::string name = group_.name_of(static_cast<int>(from));
    if (!all[from].unreachable.get().empty()) return name + ": " + std::string(all[from].unreachable.get());
  }
  return {};
}

// Says why not if a rank's memory cannot be opened. The driver opens memory of another device if the devices reach each
// other, by NVLink or PCIe; this process need not see that device.
std::string Neighbours::open(const std::vector<Introduction>& all) {
  for (const int near : near_) {
    const auto from = static_cast<std::size_t>(near);
    if (near == group_.rank) continue;
    try {
      scratch_[from] = memory_.open(near, all[from].scratch, 0);
    } catch (const DriverError& error) {
      const bool other = all[from].device != device_.uuid();
      return "the memory of rank " + std::to_string(from) + (other ? " on another device: " : ": ") + error.what();
    }
  }
  open_words(all);
  return {};
}

// Finds what other ranks near this one have in their arenas.
void Neighbours::open_words(const std::vector<Introduction>& all) {
  std::vector<std::uint64_t> offsets;
  offsets.reserve(all.size());
  for (const Introduction& one : all) offsets.push_back(one.signals);
  std::vector<std::byte*> words;
  {
    const auto lock = engine_.host().enter();
    words = signals_->find(offsets);
    for (const int near : near_) {
      if (near == group_.rank) continue;
      const auto rank = static_cast<std::size_t>(near);
      const Link* const link = group_.members[rank].link;
      const PeerArena* const arena = link != nullptr ? link->arena() : nullptr;
      std::byte* const memory = arena != nullptr && all[rank].control % kPage == 0
                                    ? arena->at(all[rank].control, ControlMemory::bytes(kernels()))
                                    : nullptr;
      if (memory == nullptr) throw DriverError("cuMemHostRegister", Result::invalid_value, "memory that is not here");
      others_.push_back({rank, ControlMemory(memory, kernels())});
    }
  }
  signals_->open(words);
}

// Its plans are those of the caller's group, because it carries the same data.
void Neighbours::make_hosts(std::uint64_t channel) {
  std::vector<int> peers;
  peers.reserve(group_.members.size());
  for (const Member& member : group_.members) peers.push_back(member.peer);
  const auto lock = engine_.host().enter();
  hosts_ = engine_.host().make_group(channel, group_.rank, peers, group_.timeout, group_.plans);
  hosts_->use = Group::Use::data;
  hosts_->machines = group_.machines;
}

// Both sides of a mark and of a look are in one order on all CPUs and, by the order of a stream, on the device.
void Neighbours::withdraw(std::uint32_t call) const {
  for (const Other& other : others_) other.control.withdrawn(call).store(call);
}

// What a rank had on its device ends with its process.
bool Neighbours::others_work(std::uint32_t call) const {
  return std::ranges::any_of(others_, [&](const Other& other) {
    const Link* const link = group_.members[other.rank].link;
    return link != nullptr && !link->lost() && other.control->working.load() == call;
  });
}

bool Neighbours::leave(std::uint32_t last) {
  bool together = false;
  if (comes_true([&] { return control_->finished(last); })) try_to([&] { together = all_have_left(); });
  shown_kept_ = !together;
  return together;
}

// Afterwards the streams of all ranks have come to their end. Ranks that have not left call other collectives
// meanwhile, but not in this group.
bool Neighbours::all_have_left() {
  const auto goodbye = start(engine_, *hosts_, {.collective = Collective::barrier}, Mode::async);
  return comes_true([&] { return engine_.is_over(*goodbye); }) && goodbye->state() == Operation::State::done;
}

}  // namespace paceline::device
