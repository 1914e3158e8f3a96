// NVIDIA's driver library, opened at run time: the engine links nothing of CUDA, and works where there is no driver.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>

#include "device/cuda.hpp"

namespace paceline::device {

// A function of the driver has failed. The message names the function and the result, and says what would help.
class DriverError : public std::runtime_error {
 public:
  DriverError(const char* called, Result given, const std::string& name);

  const char* function;
  Result result;
};

// The functions that Paceline calls. A name that ends in _v2 is what cuda.h makes of the name without it: the library
// keeps the old function, with 32-bit sizes or other arguments, under the plain name.
class Driver {
 public:
  // Opens the library and initialises it. `driver` is null if there is none or it finds no device, and `why` says so.
  struct Found;
  static Found find();

  // Throws DriverError unless `result` is a success.
  void check(Result result, const char* function) const {
    if (result != Result::success) fail(result, function);
  }
  std::string name(Result result) const;  // for example CUDA_ERROR_OUT_OF_MEMORY

  Result (*init)(unsigned flags);
  Result (*error_name)(Result, const char** name);
  Result (*driver_version)(int* version);
  Result (*device_count)(int* count);
  Result (*device_get)(Ordinal*, int index);
  Result (*device_name)(char* name, int length, Ordinal);
  Result (*device_uuid)(Uuid*, Ordinal);
  Result (*device_attribute)(int* value, DeviceAttribute, Ordinal);
  Result (*primary_retain)(ContextHandle*, Ordinal);
  Result (*primary_release)(Ordinal);
  Result (*context_push)(ContextHandle);
  Result (*context_pop)(ContextHandle*);
  Result (*allocate)(Address*, std::size_t bytes);
  Result (*free)(Address);
  Result (*host_register)(void*, std::size_t bytes, unsigned flags);
  Result (*host_unregister)(void*);
  Result (*host_address)(Address*, void*, unsigned flags);
  Result (*copy_to_host)(void* to, Address from, std::size_t bytes, StreamHandle);
  Result (*copy_to_device)(Address to, const void* from, std::size_t bytes, StreamHandle);
  Result (*copy)(Address to, Address from, std::size_t bytes, StreamHandle);
  Result (*fill)(Address, unsigned char value, std::size_t bytes, StreamHandle);
  Result (*pointer_attribute)(void* value, PointerAttribute, Address);
  Result (*pointer_attributes)(unsigned count, const PointerAttribute*, void** values, Address);
  Result (*stream_create)(StreamHandle*, unsigned flags);
  Result (*stream_destroy)(StreamHandle);
  Result (*stream_synchronize)(StreamHandle);
  Result (*stream_wait)(StreamHandle, EventHandle, unsigned flags);
  Result (*stream_batch)(StreamHandle, unsigned count, StreamOperation*, unsigned flags);
  Result (*stream_capture)(StreamHandle, CaptureStatus*);
  Result (*event_create)(EventHandle*, unsigned flags);
  Result (*event_destroy)(EventHandle);
  Result (*event_record)(EventHandle, StreamHandle);
  Result (*ipc_export_memory)(IpcHandle*, Address);
  Result (*ipc_open_memory)(Address*, IpcHandle, unsigned flags);
  Result (*ipc_close_memory)(Address);
  Result (*module_load)(ModuleHandle*, const void* image);
  Result (*module_unload)(ModuleHandle);
  Result (*module_function)(FunctionHandle*, ModuleHandle, const char* name);
  Result (*launch)(FunctionHandle, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared_bytes, StreamHandle, void** parameters,
                   void** extra);

 private:
  [[noreturn]] void fail(Result result, const char* function) const;
};

struct Driver::Found {
  std::shared_ptr<const Driver> driver;
  std::string why;
};

// The context of a device is current in this thread for as long as this lives.
class Current {
 public:
  Current(const Driver& driver, ContextHandle context) : driver_(driver) {
    driver_.check(driver_.context_push(context), "cuCtxPushCurrent");
  }
  ~Current() {
    ContextHandle ignored = nullptr;
    driver_.context_pop(&ignored);
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  const Driver& driver_;
};

}  // namespace paceline::device
