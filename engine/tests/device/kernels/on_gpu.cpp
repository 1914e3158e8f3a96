// The tests' buffers lie in host memory that the GPU maps, so that one set of tests serves the host and the GPU.
#include <cstdio>
#include <cstdlib>
#include <memory_resource>

#include "device/device.hpp"
#include "tests/check.hpp"
#include "tests/device/kernels/runner.hpp"

namespace paceline::test {

namespace {

using namespace device;

constexpr std::size_t kArena = std::size_t{256} << 20;  // bytes
constexpr std::size_t kPage = 4096;                     // bytes
constexpr std::size_t kAlignment = 64;                  // bytes
constexpr unsigned kMapped = 2;                         // CU_MEMHOSTREGISTER_DEVICEMAP

class Gpu {
 public:
  static Gpu& first() {
    static Gpu gpu;
    return gpu;
  }

  void run(const Launch& launch, void* parameters) {
    const Current current(device_.driver(), device_.context());
    device_.launch(launch, parameters, nullptr);
    device_.driver().check(device_.driver().stream_synchronize(nullptr), "cuStreamSynchronize");
  }

  std::pmr::memory_resource& memory() { return pool_; }

 private:
  Gpu() : device_(driver(), 0, fatbin()), arena_(std::aligned_alloc(kPage, kArena)) {
    if (!device_.no_kernels().empty()) {
      std::fprintf(stderr, "%s\n", device_.no_kernels().c_str());
      std::abort();
    }
    const Current current(device_.driver(), device_.context());
    device_.driver().check(device_.driver().host_register(arena_, kArena, kMapped), "cuMemHostRegister");
  }

  static std::shared_ptr<const Driver> driver() {
    const Driver::Found found = Driver::find();
    if (found.driver == nullptr) {
      std::fprintf(stderr, "%s\n", found.why.c_str());
      std::abort();
    }
    return found.driver;
  }

  Device device_;
  void* arena_;  // until the process ends, as the GPU
  std::pmr::monotonic_buffer_resource all_{arena_, kArena, std::pmr::null_memory_resource()};
  std::pmr::unsynchronized_pool_resource pool_{&all_};
};

}  // namespace

void run_kernel(const Launch& launch, void* parameters) { Gpu::first().run(launch, parameters); }

void* allocate_for_kernels(std::size_t bytes) { return Gpu::first().memory().allocate(bytes, kAlignment); }
void free_for_kernels(void* memory, std::size_t bytes) { Gpu::first().memory().deallocate(memory, bytes, kAlignment); }

}  // namespace paceline::test
