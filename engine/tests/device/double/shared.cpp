// Memory that other processes open through /proc.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstring>
#include <random>

#include "tests/device/double/double.hpp"

namespace paceline::device::fake {
namespace {

struct Named {
  std::int32_t pid;
  std::int32_t fd;
  std::uint64_t bytes;
  std::uint64_t number;
  unsigned char device;
};
static_assert(sizeof(Named) <= sizeof(IpcHandle));

std::string name_of(std::uint64_t number) { return "device-double-" + std::to_string(number); }

std::uint64_t random_number() {
  static std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

void* map(int fd, std::size_t bytes) {
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return data == MAP_FAILED ? nullptr : data;
}

}  // namespace

Shared make_shared(std::size_t bytes) {
  Shared one;
  one.bytes = bytes;
  one.number = random_number();
  one.fd = ::memfd_create(name_of(one.number).c_str(), MFD_CLOEXEC);
  if (one.fd < 0 || ::ftruncate(one.fd, static_cast<off_t>(bytes)) != 0) return one;
  one.data = map(one.fd, bytes);
  return one;
}

void close_shared(Shared& one) {
  if (one.data != nullptr) ::munmap(one.data, one.bytes);
  if (one.fd >= 0) ::close(one.fd);
  one = {};
}

IpcHandle handle_of(const Shared& one) {
  const Named named{::getpid(), one.fd, one.bytes, one.number, own_number().load()};
  IpcHandle handle;
  std::memcpy(handle.bytes.data(), &named, sizeof named);
  return handle;
}

Result open_shared(const IpcHandle& handle, Shared& opened) {
  Named named;
  std::memcpy(&named, handle.bytes.data(), sizeof named);
  if (named.pid == ::getpid()) return Result::invalid_context;
  if (named.device != own_number() && !reaches_others()) return Result::peer_access_unsupported;
  const std::string path = "/proc/" + std::to_string(named.pid) + "/fd/" + std::to_string(named.fd);
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return Result::invalid_handle;
  char target[256] = {};
  const auto length = ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), target, sizeof target - 1);
  opened = {fd, named.bytes, named.number, nullptr};
  if (length > 0 && std::strstr(target, name_of(named.number).c_str()) != nullptr) opened.data = map(fd, named.bytes);
  if (opened.data != nullptr) return Result::success;
  close_shared(opened);
  return Result::invalid_handle;
}

State& state() {
  static State* const one = new State;
  return *one;
}

Allocation* holder(Address address) {
  auto& all = state().allocations;
  auto after = all.upper_bound(address);
  if (after == all.begin()) return nullptr;
  Allocation& before = std::prev(after)->second;
  return address - before.what.base < before.what.length ? &before : nullptr;
}

}  // namespace paceline::device::fake
