#include "device/peers.hpp"

#include <iterator>

namespace paceline::device {

PeerMemory::~PeerMemory() {
  for (auto one = opened_.begin(); one != opened_.end();) one = close(one);
}

const Shown& PeerMemory::show(const Memory& memory) {
  const auto found = shown_.find(memory.base);
  if (found != shown_.end() && found->second.buffer_id == memory.buffer_id) return found->second;
  Shown fresh{{}, memory.base, memory.length, memory.buffer_id};
  driver_.check(driver_.ipc_export_memory(&fresh.handle, memory.base), "cuIpcGetMemHandle");
  return shown_.insert_or_assign(memory.base, fresh).first->second;
}

Address PeerMemory::open(int rank, const Shown& shown) {
  const auto known = opened_.find({rank, shown.base});
  if (known != opened_.end() && known->second.buffer_id == shown.buffer_id) return known->second.here;
  // Whatever lay here in that process was freed.
  auto next = opened_.lower_bound({rank, shown.base});
  if (next != opened_.begin()) {
    const auto before = std::prev(next);
    const bool overlaps = before->first.first == rank && shown.base - before->first.second < before->second.length;
    if (overlaps) close(before);
  }
  while (next != opened_.end() && next->first.first == rank && next->first.second - shown.base < shown.length)
    next = close(next);
  Address here = 0;
  driver_.check(driver_.ipc_open_memory(&here, shown.handle, kIpcLazyPeerAccess), "cuIpcOpenMemHandle");
  opened_.emplace(std::pair(rank, shown.base), Opened{shown.buffer_id, shown.length, here});
  return here;
}

void PeerMemory::close(int rank) {
  for (auto one = opened_.lower_bound({rank, 0}); one != opened_.end() && one->first.first == rank;) one = close(one);
}

// What the driver says to it is of no use: a peer that is gone has taken its memory along.
PeerMemory::All::iterator PeerMemory::close(All::iterator one) {
  quiesce_();
  driver_.ipc_close_memory(one->second.here);
  return opened_.erase(one);
}

}  // namespace paceline::device
