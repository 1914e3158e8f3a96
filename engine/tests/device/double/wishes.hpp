// What a test asks of the stand-in, beside what the driver API has.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {
// The next call but `after` of this function of the driver, as "cuMemAlloc", gives `result`.
void double_fail(const char* function, int result, unsigned after);
// How often it was called so far.
std::uint64_t double_calls(const char* function);
// Allocates memory of a kind of paceline::device::Kind.
std::uint64_t double_allocate(std::size_t bytes, int kind);
// How many allocations, mappings, events and streams there are in this process.
int double_held();
// This process has the device of this number, and not that of number 1 as others have.
void double_be(unsigned char number);
// Whether the device reaches the memory of others, as it does at first.
void double_reach(bool others);
// Work that goes to the stream from now on waits until `double_release` is called, as if a kernel ran for long.
void double_hold(void* stream);
void double_release();
// Kernels that start from now on wait until `double_release` is called; how many do.
void double_hold_kernels();
int double_kernels_held();
// The stream records a graph from now on.
void double_capture(void* stream);
}
