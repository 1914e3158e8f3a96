#include <new>

#include "device/kernels/on_host/run.hpp"
#include "tests/check.hpp"
#include "tests/device/kernels/runner.hpp"

namespace paceline::test {

void run_kernel(const device::Launch& launch, void* parameters) {
  void* all[] = {parameters};
  CHECK(device::run_on_host(launch.kernel, launch.grid, launch.block, launch.shared_bytes, all));
}

void* allocate_for_kernels(std::size_t bytes) { return ::operator new(bytes); }
void free_for_kernels(void* memory, std::size_t bytes) { ::operator delete(memory, bytes); }

}  // namespace paceline::test
