#include <dlfcn.h>

#include <array>

#include "device/kernels/launch.hpp"
#include "tests/check.hpp"
#include "tests/device/memory.hpp"

namespace paceline::test {
namespace {

using device::Address;
using device::Kind;
using device::Result;

constexpr unsigned kAttachGlobal = 1;  // CU_MEM_ATTACH_GLOBAL

template <typename Function>
Function* function_of(const char* name) {
  void* library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  CHECK(library != nullptr);
  auto* function = reinterpret_cast<Function*>(::dlsym(library, name));
  CHECK(function != nullptr);
  return function;
}

}  // namespace

std::span<const std::byte> kernels() { return device::fatbin(); }

std::span<const Kind> unmapped_kinds() {
  static constexpr std::array kAll = {Kind::pool, Kind::managed};
  return kAll;
}

void choose_device(int number) { CHECK(number == 1); }

Address allocate(const device::Driver& driver, std::size_t bytes, Kind kind) {
  Address address = 0;
  if (kind == Kind::pool) {
    auto* take = function_of<Result(Address*, std::size_t, device::StreamHandle)>("cuMemAllocAsync");
    driver.check(take(&address, bytes, nullptr), "cuMemAllocAsync");
    driver.check(driver.stream_synchronize(nullptr), "cuStreamSynchronize");
  } else if (kind == Kind::managed) {
    auto* take = function_of<Result(Address*, std::size_t, unsigned)>("cuMemAllocManaged");
    driver.check(take(&address, bytes, kAttachGlobal), "cuMemAllocManaged");
  } else {
    driver.check(driver.allocate(&address, bytes), "cuMemAlloc");
  }
  return address;
}

}  // namespace paceline::test
