// Where the tests of kernels run them: on the host (on_host.cpp) or on the first GPU (on_gpu.cpp). The linker decides.
#pragma once

#include <cstddef>
#include <vector>

#include "device/kernels/launch.hpp"

namespace paceline::test {

// Runs a kernel to its end.
void run_kernel(const device::Launch& launch, void* parameters);

// Memory that kernels reach.
void* allocate_for_kernels(std::size_t bytes);
void free_for_kernels(void* memory, std::size_t bytes);

template <typename T>
struct KernelAllocator {
  using value_type = T;

  T* allocate(std::size_t count) { return static_cast<T*>(allocate_for_kernels(count * sizeof(T))); }
  void deallocate(T* memory, std::size_t count) { free_for_kernels(memory, count * sizeof(T)); }
  bool operator==(const KernelAllocator&) const = default;
};

template <typename T>
using KernelVector = std::vector<T, KernelAllocator<T>>;

}  // namespace paceline::test
