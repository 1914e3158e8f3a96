// The rest of the driver: initialisation, the one device, its context, and modules.
#include <algorithm>
#include <cstring>
#include <iterator>

#include "device/kernels/launch.hpp"
#include "tests/device/double/double.hpp"

using namespace paceline::device;
using namespace paceline::device::fake;

namespace {

CUctx_st context;
CUmod_st module;
constexpr char kName[] = "Paceline's stand-in for a device";

struct Name {
  Result result;
  const char* text;
};
constexpr Name kNames[] = {{Result::success, "CUDA_SUCCESS"},
                           {Result::invalid_value, "CUDA_ERROR_INVALID_VALUE"},
                           {Result::out_of_memory, "CUDA_ERROR_OUT_OF_MEMORY"},
                           {Result::no_device, "CUDA_ERROR_NO_DEVICE"},
                           {Result::invalid_context, "CUDA_ERROR_INVALID_CONTEXT"},
                           {Result::invalid_handle, "CUDA_ERROR_INVALID_HANDLE"},
                           {Result::peer_access_unsupported, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED"},
                           {Result::not_ready, "CUDA_ERROR_NOT_READY"}};

}  // namespace

extern "C" {

Result cuInit(unsigned) { return called("cuInit"); }

Result cuGetErrorName(Result result, const char** name) {
  const auto* const found =
      std::find_if(std::begin(kNames), std::end(kNames), [&](const Name& one) { return one.result == result; });
  *name = found == std::end(kNames) ? nullptr : found->text;
  return *name == nullptr ? Result::invalid_value : Result::success;
}

Result cuDriverGetVersion(int* version) {
  *version = 13000;
  return called("cuDriverGetVersion");
}

Result cuDeviceGetCount(int* count) {
  *count = 1;
  return called("cuDeviceGetCount");
}

Result cuDeviceGet(Ordinal* device, int index) {
  *device = 0;
  return index == 0 ? called("cuDeviceGet") : Result::invalid_device;
}

Result cuDeviceGetName(char* name, int length, Ordinal) {
  std::strncpy(name, kName, static_cast<std::size_t>(length - 1));
  name[length - 1] = 0;
  return called("cuDeviceGetName");
}

Result cuDeviceGetUuid_v2(Uuid* uuid, Ordinal) {
  *uuid = {};
  uuid->bytes[0] = static_cast<std::byte>(own_number().load());
  return called("cuDeviceGetUuid");
}

Result cuDeviceGetAttribute(int* value, DeviceAttribute, Ordinal) {
  *value = 2;
  return called("cuDeviceGetAttribute");
}

Result cuDevicePrimaryCtxRetain(ContextHandle* handle, Ordinal) {
  *handle = &context;
  return called("cuDevicePrimaryCtxRetain");
}

Result cuDevicePrimaryCtxRelease_v2(Ordinal) { return called("cuDevicePrimaryCtxRelease"); }
Result cuCtxPushCurrent_v2(ContextHandle) { return called("cuCtxPushCurrent"); }
Result cuCtxPopCurrent_v2(ContextHandle*) { return called("cuCtxPopCurrent"); }

Result cuModuleLoadData(ModuleHandle* handle, const void*) {
  *handle = &module;
  return called("cuModuleLoadData");
}

Result cuModuleUnload(ModuleHandle) { return called("cuModuleUnload"); }

Result cuModuleGetFunction(FunctionHandle* function, ModuleHandle, const char* name) {
  if (const Result wanted = called("cuModuleGetFunction"); wanted != Result::success) return wanted;
  if (parameter_bytes(name) == 0) return Result::not_found;
  static std::mutex mutex;
  static auto* const functions = new std::map<std::string, CUfunc_st>;
  const std::lock_guard lock(mutex);
  *function = &functions->try_emplace(name, CUfunc_st{name}).first->second;
  return Result::success;
}

}  // extern "C"
