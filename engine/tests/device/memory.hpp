// Memory of a device for tests, which run on the stand-in for a driver and, by `make gpu-test`, on a device.
#pragma once

#include <cstddef>
#include <span>

#include "device/pointers.hpp"

namespace paceline::test {

// What `Devices` needs to have kernels.
std::span<const std::byte> kernels();
// Kinds of memory that there is here, beside Kind::device, but other processes cannot map.
std::span<const device::Kind> unmapped_kinds();
// Lets this process have the device of this number, from 1 on, before it has looked for any.
void choose_device(int number);
device::Address allocate(const device::Driver& driver, std::size_t bytes, device::Kind kind);

}  // namespace paceline::test
