// What a caller says of a request that it submits.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "device/call.hpp"
#include "device/moment.hpp"
#include "policy/request.hpp"
#include "types/call.hpp"

namespace paceline {

// Returns the address of memory of a device for what comes of a request, so many elements from each rank. It is called
// in a thread of its own without the engine's lock, and the memory is in use on the stream that it is given. Throws
// what it likes.
using Allocate = std::function<device::Address(const std::vector<std::size_t>& counts, device::StreamHandle stream)>;

// The memory stays in place until the request is over.
struct RequestArguments {
  std::string_view name;
  // Its count is of all elements that this rank brings, also to a reduce_scatter. An all_gather and an all_to_all have
  // no target, because only the outcome tells how large it is.
  CollectiveCall call = {};
  std::string_view shape = {};
  std::vector<std::size_t> counts = {};  // of the elements for each rank, in an all_to_all or reduce_scatter
  double prescale = 1;
  double postscale = 1;
  std::int32_t priority = 0;
  Bundle bundle = {};
  // Of memory that is a device's: which one, and the caller's stream, after whose work the request comes.
  struct OnDevice {
    std::shared_ptr<device::Devices> devices;
    device::Ordinal ordinal;
    device::StreamHandle stream;
  };
  std::optional<OnDevice> on_device = {};
  // On a device, of an all_gather or all_to_all. The engine lets go of it without its lock.
  std::shared_ptr<const Allocate> allocate = {};
  bool alone = false;  // it is refused while another request of this name is under way

  // What ranks must agree on; its count is 0 if they may differ.
  Fingerprint what() const;
  // Throws Failure (invalid) if they make no sense on this rank of so many.
  void check(int rank, int ranks) const;
  // Notes what the caller's stream has to do until now; null for memory of the host. Throws Failure (invalid) if this
  // is no memory of the device, and DriverError.
  std::shared_ptr<device::Moment> moment(int rank) const;
  // Returns the request that they describe: `last` again, if it is the same.
  RequestPtr request(const RequestPtr& last) const;
};

}  // namespace paceline
