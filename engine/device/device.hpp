// A device as this process has it: the driver, its context, its kernels, and what is known of addresses.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "device/kernels/launch.hpp"
#include "device/limits.hpp"
#include "device/pointers.hpp"

namespace paceline::device {

class Device {
 public:
  // `image` holds the kernels; empty: there are none. The context is the one that CUDA's runtime, and so every
  // framework, uses. `limits`: those of all groups, which otherwise measure theirs. Throws DriverError.
  Device(std::shared_ptr<const Driver> driver, Ordinal ordinal, std::span<const std::byte> image,
         const std::optional<Limits>& limits);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Driver& driver() const { return *driver_; }
  Ordinal ordinal() const { return ordinal_; }
  const Uuid& uuid() const { return uuid_; }
  unsigned multiprocessors() const { return multiprocessors_; }
  ContextHandle context() const { return context_; }
  // Why kernels cannot be started here; empty if they can.
  const std::string& no_kernels() const { return no_kernels_; }
  const std::optional<Limits>& limits() const { return limits_; }

  // Starts a kernel of the image. Its context is current. `parameters` is the struct that it takes.
  void launch(const Launch& how, void* parameters, StreamHandle stream);

 private:
  FunctionHandle function(std::string_view kernel);

  std::shared_ptr<const Driver> driver_;
  const Ordinal ordinal_;
  Uuid uuid_;
  unsigned multiprocessors_ = 1;
  ContextHandle context_ = nullptr;
  ModuleHandle module_ = nullptr;
  std::string no_kernels_;
  const std::optional<Limits> limits_;
  std::mutex mutex_;
  std::map<std::string_view, FunctionHandle> functions_;
};

// The devices of this process. The driver is opened when it is first asked for. Thread-safe.
class Devices {
 public:
  // What a Device takes.
  explicit Devices(std::span<const std::byte> image, const std::optional<Limits>& limits = {})
      : image_(image), limits_(limits) {}

  // Why there is no driver or no device; empty if there is.
  std::string absent();
  // What the following need: absent() is empty. They throw DriverError.
  std::vector<std::string> names();  // of all devices
  std::shared_ptr<Device> get(Ordinal ordinal);
  PointerCache& pointers();

 private:
  void open();

  std::mutex mutex_;
  const std::span<const std::byte> image_;
  const std::optional<Limits> limits_;
  bool opened_ = false;
  Driver::Found found_;
  std::unique_ptr<PointerCache> pointers_;
  std::map<Ordinal, std::shared_ptr<Device>> devices_;
};

}  // namespace paceline::device
