// What a rank shows to the others in a call.
#include "device/device_group.hpp"
#include "device/part.hpp"

namespace paceline::device {

// Tells in the notice where the others find what this rank gives them: where it lies, if they can map that and find
// there what they need, and otherwise in the window.
std::unique_ptr<DeviceOperation::Direct> DeviceGroup::show(const Call& call, Notice& notice) {
  auto direct = std::make_unique<DeviceOperation::Direct>(DeviceOperation::Direct{.call = call});
  std::vector<Block>& shown = direct->call.input;
  Memory memory;
  std::size_t bytes = 0;
  bool mapped = call.op != Op::premul_sum || call.collective == Collective::all_reduce;
  for (const Block& block : shown) {
    if (block.count == 0) continue;
    if (bytes == 0) memory = pointers_.find(block.data);
    mapped = mapped && memory.kind == Kind::device && memory.holds(block.data, call.bytes(block));
    bytes += call.bytes(block);
  }
  if (bytes > 0 && !mapped) {
    Address next = direct->window = window(bytes);
    memory = window_;
    for (Block& block : shown) {
      block.data = next;
      next += call.bytes(block);
    }
  }
  if (bytes > 0) notice.shown = shown_.show(memory);
  direct->base = memory.base;
  direct->to_all = call.collective == Collective::all_reduce;
  if (last_.path == Path::by_machine) {
    direct->call.output = shown;
    const Address begin = shown[0].data - memory.base;
    notice.given[0] = {begin, begin + bytes};
    return direct;
  }
  if (last_.path == Path::two_shot) {
    const Address data = shown[0].data;
    const std::size_t width = size_of(call.dtype);
    shown.clear();
    for (std::size_t to = 0; to < size(); ++to) {
      const Part part = part_of(bytes, to, size());
      shown.push_back({data + part.begin, part.size() / width});
    }
    direct->call.output = {shown[rank()]};
  }
  for (std::size_t to = 0; to < size(); ++to) {
    const Block block = direct->call.given_to(static_cast<int>(to));
    if (block.count == 0) continue;
    const Address begin = block.data - memory.base;
    notice.given[to] = {begin, begin + call.bytes(block)};
  }
  return direct;
}

// Returns memory of so many bytes that the others can map.
Address DeviceGroup::window(std::size_t bytes) {
  if (window_.length >= bytes) return window_.base;
  Address fresh = 0;
  driver_.check(driver_.allocate(&fresh, bytes), "cuMemAlloc");
  if (window_.length > 0) {
    // Earlier calls use it, on other ranks too.
    if (!under_way_.empty()) engine_->wait(*under_way_.back(), std::chrono::duration<double>(-1));
    pointers_.forget(window_.base);
    driver_.free(window_.base);
  }
  window_ = pointers_.find(fresh);
  pointers_.add_own(window_);
  return fresh;
}

}  // namespace paceline::device
