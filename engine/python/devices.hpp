// The devices of this process, as Python has them.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/device.hpp"

namespace paceline {

class PyDevices {
 public:
  // image: empty for the one in the engine.
  PyDevices(std::string image, const std::optional<device::Limits>& limits) {
    auto owned = std::make_shared<Owned>(std::move(image), limits);
    devices_ = std::shared_ptr<device::Devices>(owned, &owned->devices);
  }

  device::Devices& operator*() const { return *devices_; }
  device::Devices* operator->() const { return devices_.get(); }
  const std::shared_ptr<device::Devices>& shared() const { return devices_; }

  // What must be closed before the engine is.
  template <typename T>
  void close_with_engine(const std::shared_ptr<T>& one) {
    const std::lock_guard lock(mutex_);
    std::erase_if(open_, [](const Open& each) { return each.what.expired(); });
    const auto is_it = [&](const Open& each) { return !each.what.owner_before(one) && !one.owner_before(each.what); };
    if (std::ranges::any_of(open_, is_it)) return;
    open_.push_back({one, [weak = std::weak_ptr<T>(one)] {
                       if (const auto open = weak.lock()) open->close();
                     }});
  }
  // Closes all of it.
  void close() {
    std::vector<Open> open;
    {
      const std::lock_guard lock(mutex_);
      open.swap(open_);
    }
    for (const Open& each : open) each.close();
  }

 private:
  struct Owned {
    Owned(std::string given, const std::optional<device::Limits>& limits)
        : image(std::move(given)),
          devices(image.empty() ? device::fatbin() : std::as_bytes(std::span(image)), limits) {}
    std::string image;
    device::Devices devices;
  };
  struct Open {
    std::weak_ptr<void> what;
    std::function<void()> close;
  };

  std::shared_ptr<device::Devices> devices_;
  std::mutex mutex_;
  std::vector<Open> open_;
};

}  // namespace paceline
