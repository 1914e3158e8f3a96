#include "device/driver.hpp"

#include <dlfcn.h>

#include <type_traits>
#include <utility>

#include "device/driver_functions.hpp"

namespace paceline::device {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";

const char* help(Result result) {
  switch (result) {
    case Result::out_of_memory: return "free memory of the device, or let fewer ranks share it";
    case Result::device_unavailable:
      return "another process has the device to itself: `nvidia-smi -c DEFAULT` lets ranks share it";
    case Result::no_device: return "check CUDA_VISIBLE_DEVICES, and that this container was given a device";
    case Result::no_binary_for_gpu: return "this build of Paceline has no kernels for this device";
    case Result::peer_access_unsupported: return "`nvidia-smi topo -p2p r` shows which devices reach each other";
    case Result::unsupported_ptx_version: return "install a newer driver";
    case Result::system_driver_mismatch:
      return "library and kernel module are of different versions: reinstall the driver";
    case Result::invalid_handle: return "what it refers to is gone, perhaps with its process";
    case Result::illegal_address:
      return "a kernel of this process, perhaps the program's own, has read or written astray";
    default: return nullptr;
  }
}

std::string words(const char* function, Result result, const std::string& name) {
  const char* advice = help(result);
  return std::string(function) + " failed with " + name + " (" + std::to_string(static_cast<int>(result)) + ")" +
         (advice == nullptr ? "" : std::string("; ") + advice);
}

// Returns the names that the library does not have.
std::string bind_all(void* library, Driver& driver) {
  std::string missing;
  for_each_function(driver, [&](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    if (function == nullptr) missing += (missing.empty() ? "" : ", ") + std::string(name);
  });
  return missing;
}

}  // namespace

DriverError::DriverError(const char* called, Result given, const std::string& name)
    : std::runtime_error(words(called, given, name)), function(called), result(given) {}

// The library stays open: the driver has threads of its own.
Driver::Found Driver::find() {
  void* library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {nullptr, std::string("there is no driver: ") + ::dlerror()};
  auto driver = std::make_shared<Driver>();
  if (const std::string missing = bind_all(library, *driver); !missing.empty())
    return {nullptr, std::string(kLibrary) + " is older than CUDA 11.7: it lacks " + missing};
  int count = 0;
  try {
    driver->check(driver->init(0), "cuInit");
    driver->check(driver->device_count(&count), "cuDeviceGetCount");
  } catch (const DriverError& error) {
    return {nullptr, error.what()};
  }
  if (count == 0) return {nullptr, DriverError("cuDeviceGetCount", Result::no_device, "no device").what()};
  return {std::move(driver), {}};
}

std::string Driver::name(Result result) const {
  const char* found = nullptr;
  if (error_name(result, &found) == Result::success && found != nullptr) return found;
  return "an unknown error";
}

void Driver::fail(Result result, const char* function) const { throw DriverError(function, result, name(result)); }

}  // namespace paceline::device
