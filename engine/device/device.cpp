#include "device/device.hpp"

#include <array>

namespace paceline::device {

Device::Device(std::shared_ptr<const Driver> driver, Ordinal ordinal, std::span<const std::byte> image,
               const std::optional<Limits>& limits)
    : driver_(std::move(driver)), ordinal_(ordinal), limits_(limits) {
  driver_->check(driver_->device_uuid(&uuid_, ordinal), "cuDeviceGetUuid");
  int multiprocessors = 0;
  driver_->check(driver_->device_attribute(&multiprocessors, DeviceAttribute::multiprocessors, ordinal),
                 "cuDeviceGetAttribute");
  multiprocessors_ = static_cast<unsigned>(multiprocessors);
  driver_->check(driver_->primary_retain(&context_, ordinal), "cuDevicePrimaryCtxRetain");
  if (image.empty()) {
    no_kernels_ = "this build of Paceline has no kernels for devices, because nvcc was not there";
    return;
  }
  const Current current(*driver_, context_);
  const Result result = driver_->module_load(&module_, image.data());
  if (result != Result::success) no_kernels_ = DriverError("cuModuleLoadData", result, driver_->name(result)).what();
}

Device::~Device() {
  ContextHandle ignored = nullptr;
  if (module_ != nullptr && driver_->context_push(context_) == Result::success) {
    driver_->module_unload(module_);
    driver_->context_pop(&ignored);
  }
  driver_->primary_release(ordinal_);
}

FunctionHandle Device::function(std::string_view kernel) {
  const std::lock_guard lock(mutex_);
  FunctionHandle& function = functions_[kernel];
  if (function == nullptr)
    driver_->check(driver_->module_function(&function, module_, std::string(kernel).c_str()), "cuModuleGetFunction");
  return function;
}

void Device::launch(const Launch& how, void* parameters, StreamHandle stream) {
  void* all[] = {parameters};
  driver_->check(driver_->launch(function(how.kernel), how.grid.x, how.grid.y, how.grid.z, how.block.x, how.block.y,
                                 how.block.z, how.shared_bytes, stream, all, nullptr),
                 "cuLaunchKernel");
}

void Devices::open() {
  if (opened_) return;
  opened_ = true;
  found_ = Driver::find();
  if (found_.driver != nullptr) pointers_ = std::make_unique<PointerCache>(*found_.driver);
}

std::string Devices::absent() {
  const std::lock_guard lock(mutex_);
  open();
  return found_.why;
}

std::vector<std::string> Devices::names() {
  const Driver& driver = *found_.driver;
  int count = 0;
  driver.check(driver.device_count(&count), "cuDeviceGetCount");
  std::vector<std::string> names;
  for (int index = 0; index < count; ++index) {
    Ordinal ordinal = 0;
    driver.check(driver.device_get(&ordinal, index), "cuDeviceGet");
    std::array<char, 256> name{};
    driver.check(driver.device_name(name.data(), static_cast<int>(name.size()), ordinal), "cuDeviceGetName");
    names.emplace_back(name.data());
  }
  return names;
}

std::shared_ptr<Device> Devices::get(Ordinal ordinal) {
  const std::lock_guard lock(mutex_);
  auto& device = devices_[ordinal];
  if (device == nullptr) device = std::make_shared<Device>(found_.driver, ordinal, image_, limits_);
  return device;
}

PointerCache& Devices::pointers() { return *pointers_; }

}  // namespace paceline::device
