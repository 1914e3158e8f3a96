// The table of the driver's functions, and what is said of failures.
#include <set>
#include <string>

#include "device/driver.hpp"
#include "device/driver_functions.hpp"
#include "tests/check.hpp"
#include "tests/device/double/wishes.hpp"
#include "tests/world.hpp"

#if __has_include(<cuda.h>)
#include <cuda.h>
#define TEXT_OF(name) #name
#define NAME_OF(function) TEXT_OF(function)
#endif

using namespace paceline::device;
using paceline::test::contains;

TEST(the_driver_is_found_and_initialised) {
  const auto found = Driver::find();
  CHECK(found.driver != nullptr && found.why.empty());
  CHECK(double_calls("cuInit") == 1);
  int count = 0;
  found.driver->check(found.driver->device_count(&count), "cuDeviceGetCount");
  CHECK(count == 1);
}

TEST(every_function_is_bound_once) {
  Driver driver{};
  std::set<std::string> names;
  for_each_function(driver, [&](const char* name, auto&) { CHECK(names.insert(name).second); });
  CHECK(names.size() == sizeof(Driver) / sizeof(void*));  // it has nothing else
}

TEST(a_failure_names_function_and_result_and_says_what_helps) {
  const auto found = Driver::find();
  try {
    found.driver->check(Result::out_of_memory, "cuMemAlloc");
    CHECK(false);
  } catch (const DriverError& error) {
    CHECK(error.result == Result::out_of_memory && std::string(error.function) == "cuMemAlloc");
    CHECK(contains(error.what(), "cuMemAlloc failed with CUDA_ERROR_OUT_OF_MEMORY (2); free memory"));
  }
}

TEST(a_driver_without_a_device_says_so) {
  double_fail("cuInit", static_cast<int>(Result::no_device), 0);
  const auto found = Driver::find();
  CHECK(found.driver == nullptr);
  CHECK(contains(found.why, "cuInit failed with CUDA_ERROR_NO_DEVICE (100); check CUDA_VISIBLE_DEVICES"));
}

#ifdef NAME_OF
// cuda.h renames functions to the version that it declares.
TEST(names_and_numbers_are_those_of_the_header) {
  const std::set<std::string> header = {
      NAME_OF(cuInit),
      NAME_OF(cuGetErrorName),
      NAME_OF(cuDriverGetVersion),
      NAME_OF(cuDeviceGetCount),
      NAME_OF(cuDeviceGet),
      NAME_OF(cuDeviceGetName),
      NAME_OF(cuDeviceGetUuid),
      NAME_OF(cuDeviceGetAttribute),
      NAME_OF(cuDevicePrimaryCtxRetain),
      NAME_OF(cuDevicePrimaryCtxRelease),
      NAME_OF(cuCtxPushCurrent),
      NAME_OF(cuCtxPopCurrent),
      NAME_OF(cuMemAlloc),
      NAME_OF(cuMemFree),
      NAME_OF(cuMemHostRegister),
      NAME_OF(cuMemHostUnregister),
      NAME_OF(cuMemHostGetDevicePointer),
      NAME_OF(cuMemcpyDtoHAsync),
      NAME_OF(cuMemcpyHtoDAsync),
      NAME_OF(cuMemcpyDtoDAsync),
      NAME_OF(cuMemsetD8Async),
      NAME_OF(cuPointerGetAttribute),
      NAME_OF(cuPointerGetAttributes),
      NAME_OF(cuStreamCreate),
      NAME_OF(cuStreamDestroy),
      NAME_OF(cuStreamSynchronize),
      NAME_OF(cuStreamWaitEvent),
      NAME_OF(cuStreamBatchMemOp),
      NAME_OF(cuStreamIsCapturing),
      NAME_OF(cuEventCreate),
      NAME_OF(cuEventDestroy),
      NAME_OF(cuEventRecord),
      NAME_OF(cuIpcGetMemHandle),
      NAME_OF(cuIpcOpenMemHandle),
      NAME_OF(cuIpcCloseMemHandle),
      NAME_OF(cuModuleLoadData),
      NAME_OF(cuModuleUnload),
      NAME_OF(cuModuleGetFunction),
      NAME_OF(cuLaunchKernel),
  };
  Driver driver{};
  std::set<std::string> ours;
  for_each_function(driver, [&](const char* name, auto&) { ours.insert(name); });
  CHECK(ours == header);

  const auto same = [](auto one, auto other) { return static_cast<int>(one) == static_cast<int>(other); };
  CHECK(same(Result::out_of_memory, CUDA_ERROR_OUT_OF_MEMORY) && same(Result::no_device, CUDA_ERROR_NO_DEVICE));
  CHECK(same(Result::device_unavailable, CUDA_ERROR_DEVICE_UNAVAILABLE));
  CHECK(same(Result::invalid_context, CUDA_ERROR_INVALID_CONTEXT) && same(Result::not_ready, CUDA_ERROR_NOT_READY));
  CHECK(same(Result::no_binary_for_gpu, CUDA_ERROR_NO_BINARY_FOR_GPU));
  CHECK(same(Result::peer_access_unsupported, CUDA_ERROR_PEER_ACCESS_UNSUPPORTED));
  CHECK(same(Result::unsupported_ptx_version, CUDA_ERROR_UNSUPPORTED_PTX_VERSION));
  CHECK(same(Result::invalid_handle, CUDA_ERROR_INVALID_HANDLE) && same(Result::not_found, CUDA_ERROR_NOT_FOUND));
  CHECK(same(Result::illegal_address, CUDA_ERROR_ILLEGAL_ADDRESS));
  CHECK(same(Result::host_memory_already_registered, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED));
  CHECK(same(Result::host_memory_not_registered, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED));
  CHECK(same(Result::not_supported, CUDA_ERROR_NOT_SUPPORTED));
  CHECK(same(Result::system_driver_mismatch, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH));
  CHECK(same(PointerAttribute::context, CU_POINTER_ATTRIBUTE_CONTEXT));
  CHECK(same(PointerAttribute::memory_type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE));
  CHECK(same(PointerAttribute::buffer_id, CU_POINTER_ATTRIBUTE_BUFFER_ID));
  CHECK(same(PointerAttribute::is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED));
  CHECK(same(PointerAttribute::device_ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL));
  CHECK(same(PointerAttribute::is_legacy_ipc_capable, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE));
  CHECK(same(PointerAttribute::range_start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR));
  CHECK(same(PointerAttribute::range_size, CU_POINTER_ATTRIBUTE_RANGE_SIZE));
  CHECK(same(PointerAttribute::mempool_handle, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE));
  CHECK(same(DeviceAttribute::multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  CHECK(same(MemoryType::host, CU_MEMORYTYPE_HOST) && same(MemoryType::device, CU_MEMORYTYPE_DEVICE));
  CHECK(kStreamNonBlocking == CU_STREAM_NON_BLOCKING && kEventDisableTiming == CU_EVENT_DISABLE_TIMING);
  CHECK(kHostPortable == CU_MEMHOSTREGISTER_PORTABLE && kHostDeviceMap == CU_MEMHOSTREGISTER_DEVICEMAP);
  CHECK(same(MemoryOperation::wait, CU_STREAM_MEM_OP_WAIT_VALUE_32));
  CHECK(same(MemoryOperation::write, CU_STREAM_MEM_OP_WRITE_VALUE_32));
  CHECK(CU_STREAM_WAIT_VALUE_GEQ == 0 && CU_STREAM_WRITE_VALUE_DEFAULT == 0);  // StreamOperation::flags
  CHECK(same(CaptureStatus::none, CU_STREAM_CAPTURE_STATUS_NONE));
  CHECK(kIpcLazyPeerAccess == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
  static_assert(sizeof(IpcHandle) == sizeof(CUipcMemHandle) && sizeof(IpcHandle) == sizeof(CUipcEventHandle));
  static_assert(sizeof(StreamOperation) == sizeof(CUstreamBatchMemOpParams));
  static_assert(offsetof(StreamOperation, word) == offsetof(CUstreamBatchMemOpParams, waitValue.address) &&
                offsetof(StreamOperation, value) == offsetof(CUstreamBatchMemOpParams, writeValue.value) &&
                offsetof(StreamOperation, flags) == offsetof(CUstreamBatchMemOpParams, waitValue.flags));
  static_assert(sizeof(Uuid) == sizeof(CUuuid) && sizeof(Address) == sizeof(CUdeviceptr));
}
#endif
