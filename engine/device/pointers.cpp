#include "device/pointers.hpp"

#include <array>
#include <iterator>

namespace paceline::device {

const char* name_of(Kind kind) {
  constexpr std::array<const char*, 6> names = {"pageable", "pinned", "device", "managed", "pool", "mapped"};
  return names[static_cast<std::size_t>(kind)];
}

Memory PointerCache::find(Address address) {
  const std::lock_guard lock(mutex_);
  if (const auto found = holder_of(address); found != entries_.end()) {
    if (found->second.own || still_there(found->second)) return found->second.memory;
    entries_.erase(found);
  }
  const Memory memory = ask(address);
  // Parts of a range that cuMemMap fills come and go one by one.
  if (memory.kind != Kind::pageable && memory.kind != Kind::mapped) insert({memory, false});
  return memory;
}

void PointerCache::add_own(const Memory& memory) {
  const std::lock_guard lock(mutex_);
  insert({memory, true});
}

void PointerCache::forget(Address base) {
  const std::lock_guard lock(mutex_);
  entries_.erase(base);
}

std::size_t PointerCache::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

std::uint64_t PointerCache::queries() const {
  const std::lock_guard lock(mutex_);
  return queries_;
}

PointerCache::Entries::iterator PointerCache::holder_of(Address address) {
  auto after = entries_.upper_bound(address);
  if (after == entries_.begin()) return entries_.end();
  const auto before = std::prev(after);
  const Memory& memory = before->second.memory;
  return address - memory.base < memory.length ? before : entries_.end();
}

// What overlaps the new range was freed, or it would not be there.
void PointerCache::insert(const Entry& entry) {
  const Address begin = entry.memory.base;
  auto next = entries_.lower_bound(begin);
  if (next != entries_.begin()) {
    const auto before = std::prev(next);
    if (begin - before->first < before->second.memory.length) entries_.erase(before);
  }
  while (next != entries_.end() && next->first - begin < entry.memory.length) next = entries_.erase(next);
  entries_.emplace(begin, entry);
}

bool PointerCache::still_there(const Entry& entry) const {
  std::uint64_t buffer_id = 0;
  const Result result = driver_.pointer_attribute(&buffer_id, PointerAttribute::buffer_id, entry.memory.base);
  return result == Result::success && buffer_id == entry.memory.buffer_id;
}

Memory PointerCache::ask(Address address) {
  ++queries_;
  MemoryType type = MemoryType::unregistered;
  std::uint64_t buffer_id = 0;
  Address base = 0;
  std::size_t length = 0;
  Ordinal device = -1;
  void* pool = nullptr;
  unsigned managed = 0;  // "a boolean", of whatever size: larger than the driver can mean
  unsigned has_ipc_handle = 0;
  constexpr std::array attributes = {
      PointerAttribute::memory_type,           PointerAttribute::buffer_id,     PointerAttribute::is_managed,
      PointerAttribute::range_start,           PointerAttribute::range_size,    PointerAttribute::device_ordinal,
      PointerAttribute::is_legacy_ipc_capable, PointerAttribute::mempool_handle};
  std::array<void*, attributes.size()> values = {&type,   &buffer_id, &managed,        &base,
                                                 &length, &device,    &has_ipc_handle, static_cast<void*>(&pool)};
  // For memory that the driver does not know it returns a success, and the type 0.
  driver_.check(driver_.pointer_attributes(attributes.size(), attributes.data(), values.data(), address),
                "cuPointerGetAttributes");
  if (type == MemoryType::unregistered) return {.base = address};
  const Kind kind = managed != 0               ? Kind::managed
                    : type == MemoryType::host ? Kind::host
                    : pool != nullptr          ? Kind::pool
                    : has_ipc_handle != 0      ? Kind::device
                                               : Kind::mapped;
  return {base, length, kind, device, buffer_id};
}

}  // namespace paceline::device
