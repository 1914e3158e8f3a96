#include "device/peers.hpp"

#include <iterator>

namespace paceline::device {

const Shown& ShownMemory::show(const Memory& memory) {
  const auto found = shown_.find(memory.base);
  if (found != shown_.end() && found->second.buffer_id == memory.buffer_id) return found->second;
  Shown fresh{{}, memory.base, memory.length, memory.buffer_id};
  driver_.check(driver_.ipc_export_memory(&fresh.handle, memory.base), "cuIpcGetMemHandle");
  return shown_.insert_or_assign(memory.base, fresh).first->second;
}

// What the driver says to a close is of no use, here and below: a peer that is gone has taken its memory along.
PeerMemory::~PeerMemory() {
  for (const auto& [place, one] : opened_) driver_.ipc_close_memory(one.here);
  for (const Freed& one : freed_) driver_.ipc_close_memory(one.here);
}

Address PeerMemory::open(int rank, const Shown& shown, std::uint32_t call) {
  const auto known = opened_.find({rank, shown.base});
  if (known != opened_.end() && known->second.buffer_id == shown.buffer_id) return known->second.here;
  // Whatever lay here in that process was freed.
  auto next = opened_.lower_bound({rank, shown.base});
  if (next != opened_.begin()) {
    const auto before = std::prev(next);
    const bool overlaps = before->first.first == rank && shown.base - before->first.second < before->second.length;
    if (overlaps) forget(before, call);
  }
  while (next != opened_.end() && next->first.first == rank && next->first.second - shown.base < shown.length)
    next = forget(next, call);
  Address here = 0;
  driver_.check(driver_.ipc_open_memory(&here, shown.handle, kIpcLazyPeerAccess), "cuIpcOpenMemHandle");
  opened_.emplace(std::pair(rank, shown.base), Opened{shown.buffer_id, shown.length, here});
  return here;
}

void PeerMemory::close_freed(const std::function<bool(std::uint32_t call)>& finished) {
  std::erase_if(freed_, [&](const Freed& one) {
    if (!finished(one.call - 1)) return false;
    driver_.ipc_close_memory(one.here);
    return true;
  });
}

PeerMemory::All::iterator PeerMemory::forget(All::iterator one, std::uint32_t call) {
  freed_.push_back({one->second.here, call});
  return opened_.erase(one);
}

}  // namespace paceline::device
