// Which function of the driver library each member of Driver is.
#pragma once

#include "device/driver.hpp"

namespace paceline::device {

// Calls visit(name in the library, member) for each.
template <typename Visit>
void for_each_function(Driver& driver, Visit&& visit) {
  visit("cuInit", driver.init);
  visit("cuGetErrorName", driver.error_name);
  visit("cuDriverGetVersion", driver.driver_version);
  visit("cuDeviceGetCount", driver.device_count);
  visit("cuDeviceGet", driver.device_get);
  visit("cuDeviceGetName", driver.device_name);
  visit("cuDeviceGetUuid_v2", driver.device_uuid);
  visit("cuDeviceGetAttribute", driver.device_attribute);
  visit("cuDevicePrimaryCtxRetain", driver.primary_retain);
  visit("cuDevicePrimaryCtxRelease_v2", driver.primary_release);
  visit("cuCtxPushCurrent_v2", driver.context_push);
  visit("cuCtxPopCurrent_v2", driver.context_pop);
  visit("cuMemAlloc_v2", driver.allocate);
  visit("cuMemFree_v2", driver.free);
  visit("cuMemHostRegister_v2", driver.host_register);
  visit("cuMemHostUnregister", driver.host_unregister);
  visit("cuMemHostGetDevicePointer_v2", driver.host_address);
  visit("cuMemcpyDtoHAsync_v2", driver.copy_to_host);
  visit("cuMemcpyHtoDAsync_v2", driver.copy_to_device);
  visit("cuMemcpyDtoDAsync_v2", driver.copy);
  visit("cuMemsetD8Async", driver.fill);
  visit("cuPointerGetAttribute", driver.pointer_attribute);
  visit("cuPointerGetAttributes", driver.pointer_attributes);
  visit("cuStreamCreate", driver.stream_create);
  visit("cuStreamDestroy_v2", driver.stream_destroy);
  visit("cuStreamSynchronize", driver.stream_synchronize);
  visit("cuStreamWaitEvent", driver.stream_wait);
  visit("cuStreamBatchMemOp_v2", driver.stream_batch);
  visit("cuStreamIsCapturing", driver.stream_capture);
  visit("cuEventCreate", driver.event_create);
  visit("cuEventDestroy_v2", driver.event_destroy);
  visit("cuEventRecord", driver.event_record);
  visit("cuIpcGetMemHandle", driver.ipc_export_memory);
  visit("cuIpcOpenMemHandle_v2", driver.ipc_open_memory);
  visit("cuIpcCloseMemHandle", driver.ipc_close_memory);
  visit("cuModuleLoadData", driver.module_load);
  visit("cuModuleUnload", driver.module_unload);
  visit("cuModuleGetFunction", driver.module_function);
  visit("cuLaunchKernel", driver.launch);
}

}  // namespace paceline::device
