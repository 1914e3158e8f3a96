// What the kernel of a call takes: one that combines, or one that copies.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "device/call.hpp"
#include "device/kernels/launch.hpp"

namespace paceline::device {

// Ranges of a buffer that a rank combines at most, where the ranks of each machine come first.
inline constexpr std::size_t kMostRanges = 8;

// Lies before the parameters of the kernels of a call.
struct alignas(std::uint64_t) Head {
  std::atomic<std::uint32_t> withdrawn;  // see Later
};

struct Parameters {
  ReduceParameters reduce;
  CopyParameters copy;

  // Those of the kernel with this index of a call that finds the others in memory of the device when it starts, behind
  // a head.
  static Parameters at(Address head, std::size_t index, std::uint32_t call) {
    const auto* const withdrawn = reinterpret_cast<const std::uint32_t*>(head + offsetof(Head, withdrawn));
    const auto* const there = reinterpret_cast<const Parameters*>(head + sizeof(Head)) + index;
    Parameters all{};
    all.reduce.later = {&there->reduce, withdrawn, call};
    all.copy.later = {&there->copy, withdrawn, call};
    return all;
  }

  // Adds what rank `from` gives to this one, which it finds `there`. ranks: of the group. to_all: what is combined is
  // written to where all have given it.
  void take(const Call& call, int from, Address there, std::size_t ranks, bool to_all) {
    const Block to = call.taken_from(from);
    if (to.count == 0) return;
    if (call.combines()) {
      reduce.in[reduce.inputs++] = pointer(there);
      reduce.out[to_all ? reduce.outputs++ : 0] = pointer(to_all ? there : to.data);
      if (!to_all) reduce.outputs = 1;
      reduce.count = to.count;
      reduce.divisor = call.op == Op::avg ? static_cast<double>(ranks) : 1.0;
    } else if (there != to.data) {
      copy.from[copy.parts] = pointer(there);
      copy.to[copy.parts] = pointer(to.data);
      copy.bytes[copy.parts++] = call.bytes(to);
    }
  }
};

}  // namespace paceline::device
