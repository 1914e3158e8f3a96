#include "device/choice.hpp"

#include <array>

namespace paceline::device {

const char* name_of(Path path) {
  constexpr std::array<const char*, 6> names = {"host", "one_shot", "two_shot", "direct", "staged", "by_machine"};
  return names[static_cast<std::size_t>(path)];
}

Choice choose(const Call& call, std::size_t ranks, const Limits& limits, const std::string& unreachable,
              bool by_machine) {
  const auto of = [&](std::size_t limit) {
    return std::to_string(limit >> 10) + " KiB" + (limits.measured ? ", as timed when the group began" : "");
  };
  const std::size_t block = call.count * size_of(call.dtype);
  const std::size_t whole = call.has_block_for_each() ? block * ranks : block;
  const std::size_t brought = call.collective == Collective::reduce_scatter ? whole : block;
  if (!call.uneven && whole <= limits.host) return {Path::host, "through the host go at most " + of(limits.host)};
  if (by_machine) return {Path::by_machine, "each machine combines first what its ranks have, and " + unreachable};
  if (!unreachable.empty()) return {Path::staged, unreachable};
  if (!call.uneven && brought <= limits.one_shot)
    return {Path::one_shot, "a rank copies to where all see them at most " + of(limits.one_shot)};
  if (call.collective == Collective::all_reduce)
    return {Path::two_shot, "every rank combines its part of more than " + of(limits.one_shot)};
  if (call.uneven) return {Path::direct, "ranks may have different amounts, which they learn when they meet"};
  return {Path::direct, "every rank takes what it needs from where the others have more than " + of(limits.one_shot)};
}

}  // namespace paceline::device
