#include <array>

#include "tests/check.hpp"
#include "tests/device/double/wishes.hpp"
#include "tests/device/memory.hpp"

namespace paceline::test {

using device::Kind;

std::span<const std::byte> kernels() {
  static constexpr std::array kAnyImage = {std::byte{1}};
  return kAnyImage;
}

std::span<const Kind> unmapped_kinds() {
  static constexpr std::array kAll = {Kind::pool, Kind::mapped, Kind::managed};
  return kAll;
}

void choose_device(int number) { double_be(static_cast<unsigned char>(number)); }

device::Address allocate(const device::Driver&, std::size_t bytes, Kind kind) {
  const device::Address address = double_allocate(bytes, static_cast<int>(kind));
  CHECK(address != 0);
  return address;
}

}  // namespace paceline::test
