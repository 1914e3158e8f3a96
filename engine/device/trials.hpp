// Which way is fastest for how many bytes, found by timing all-reduces of a few sizes each way.
//
// It depends on the device, on its link to the host and on how ranks share both, so ranks find it when they first meet,
// as tuned collectives of MPI and NCCL find it for a machine. All ranks count with the times of the slowest one, and so
// come to the same.
#pragma once

#include <array>
#include <cstddef>
#include <functional>

#include "device/choice.hpp"

namespace paceline::device {

// Nanoseconds of an all-reduce.
struct Timings {
  static constexpr std::array kPaths = {Path::host, Path::one_shot, Path::two_shot};
  static constexpr auto& kBytes = calibration::kDeviceTrials;
  using Row = std::array<double, kBytes.size()>;

  std::array<Row, kPaths.size()> of{};  // by path, and by number of bytes

  // Takes the other one's times where they are longer, or where they are shorter.
  void keep_slower(const Timings& other);
  void keep_faster(const Timings& other);
  double total() const;
};

// The limits with which the times of all sizes have the smallest product: as many per cent weigh as much at each size.
// A limit lies midway between two sizes, and beyond the last one at twice that. All times are positive.
Limits limits_from(const Timings& timings);

// Finds the limits in rounds of all trials, after one that only prepares, until calibration::kDeviceTrialTime is over.
// timed: carries out an all-reduce, and returns its nanoseconds. slowest: returns the longest time of all ranks for
// each trial. Both are collective.
Limits find_limits(const std::function<double(Path, std::size_t bytes)>& timed,
                   const std::function<Timings(const Timings&)>& slowest);

}  // namespace paceline::device
