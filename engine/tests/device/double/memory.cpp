// Memory, and what is known of addresses.
#include "tests/device/double/double.hpp"

using namespace paceline::device;

namespace paceline::device::fake {

Result make(std::size_t bytes, Kind kind, Address* address) {
  State& all = state();
  const std::lock_guard lock(all.mutex);
  Allocation one;
  one.memory = make_shared(bytes);
  if (one.memory.data == nullptr) {
    close_shared(one.memory);
    return Result::out_of_memory;
  }
  *address = reinterpret_cast<Address>(one.memory.data);
  one.what = {*address, bytes, kind, 0, all.next_buffer++};
  all.allocations.emplace(*address, one);
  return Result::success;
}

}  // namespace paceline::device::fake

using namespace paceline::device::fake;

namespace {

template <typename T>
void write(void* to, T value) {
  *static_cast<T*>(to) = value;
}

// Writes one attribute; returns whether the address has it.
bool tell(const Allocation* found, PointerAttribute attribute, void* to) {
  const Memory memory = found == nullptr ? Memory{} : found->what;
  switch (attribute) {
    case PointerAttribute::context: write<void*>(to, nullptr); break;
    case PointerAttribute::memory_type:
      write(to, found == nullptr            ? MemoryType::unregistered
                : memory.kind == Kind::host ? MemoryType::host
                                            : MemoryType::device);
      break;
    case PointerAttribute::buffer_id: write(to, memory.buffer_id); break;
    case PointerAttribute::is_managed: write<unsigned>(to, memory.kind == Kind::managed); break;
    case PointerAttribute::device_ordinal: write(to, memory.device); break;
    case PointerAttribute::is_legacy_ipc_capable: write<bool>(to, memory.kind == Kind::device); break;
    case PointerAttribute::range_start: write(to, memory.base); break;
    case PointerAttribute::range_size: write(to, memory.length); break;
    case PointerAttribute::mempool_handle:
      write<const void*>(to, memory.kind == Kind::pool ? &state() : nullptr);
      break;
  }
  return found != nullptr;
}

}  // namespace

extern "C" {

Result cuMemAlloc_v2(Address* address, std::size_t bytes) {
  if (const Result wanted = called("cuMemAlloc"); wanted != Result::success) return wanted;
  return bytes == 0 ? Result::invalid_value : make(bytes, Kind::device, address);
}

Result cuMemFree_v2(Address address) {
  if (const Result wanted = called("cuMemFree"); wanted != Result::success) return wanted;
  State& all = state();
  const std::lock_guard lock(all.mutex);
  const auto found = all.allocations.find(address);
  if (found == all.allocations.end()) return Result::invalid_value;
  close_shared(found->second.memory);
  all.allocations.erase(found);
  return Result::success;
}

Result cuMemHostRegister_v2(void* memory, std::size_t bytes, unsigned) {
  if (const Result wanted = called("cuMemHostRegister"); wanted != Result::success) return wanted;
  State& all = state();
  const std::lock_guard lock(all.mutex);
  const auto address = reinterpret_cast<Address>(memory);
  if (holder(address) != nullptr) return Result::host_memory_already_registered;
  all.allocations.emplace(address, Allocation{{}, {address, bytes, Kind::host, 0, all.next_buffer++}});
  return Result::success;
}

Result cuMemHostUnregister(void* memory) {
  if (const Result wanted = called("cuMemHostUnregister"); wanted != Result::success) return wanted;
  State& all = state();
  const std::lock_guard lock(all.mutex);
  const auto found = all.allocations.find(reinterpret_cast<Address>(memory));
  if (found == all.allocations.end() || found->second.what.kind != Kind::host)
    return Result::host_memory_not_registered;
  all.allocations.erase(found);
  return Result::success;
}

Result cuMemHostGetDevicePointer_v2(Address* address, void* memory, unsigned) {
  *address = reinterpret_cast<Address>(memory);
  return called("cuMemHostGetDevicePointer");
}

Result cuPointerGetAttribute(void* value, PointerAttribute attribute, Address address) {
  if (const Result wanted = called("cuPointerGetAttribute"); wanted != Result::success) return wanted;
  const std::lock_guard lock(state().mutex);
  return tell(holder(address), attribute, value) ? Result::success : Result::invalid_value;
}

Result cuPointerGetAttributes(unsigned count, const PointerAttribute* attributes, void** values, Address address) {
  if (const Result wanted = called("cuPointerGetAttributes"); wanted != Result::success) return wanted;
  const std::lock_guard lock(state().mutex);
  const Allocation* found = holder(address);
  for (unsigned i = 0; i < count; ++i) tell(found, attributes[i], values[i]);
  return Result::success;
}

Result cuIpcGetMemHandle(IpcHandle* handle, Address address) {
  if (const Result wanted = called("cuIpcGetMemHandle"); wanted != Result::success) return wanted;
  const std::lock_guard lock(state().mutex);
  const Allocation* found = holder(address);
  if (found == nullptr || found->what.kind != Kind::device) return Result::invalid_value;
  *handle = handle_of(found->memory);
  return Result::success;
}

Result cuIpcOpenMemHandle_v2(Address* address, IpcHandle handle, unsigned) {
  if (const Result wanted = called("cuIpcOpenMemHandle"); wanted != Result::success) return wanted;
  Shared opened;
  if (const Result result = open_shared(handle, opened); result != Result::success) return result;
  *address = reinterpret_cast<Address>(opened.data);
  const std::lock_guard lock(state().mutex);
  state().opened.emplace(*address, opened);
  return Result::success;
}

Result cuIpcCloseMemHandle(Address address) {
  if (const Result wanted = called("cuIpcCloseMemHandle"); wanted != Result::success) return wanted;
  State& all = state();
  const std::lock_guard lock(all.mutex);
  const auto found = all.opened.find(address);
  if (found == all.opened.end()) return Result::invalid_value;
  close_shared(found->second);
  all.opened.erase(found);
  return Result::success;
}

}  // extern "C"
