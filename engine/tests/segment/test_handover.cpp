// What is handed over arrives as it was, whichever way it is copied; and the way is chosen by more than one probe.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

#include "calibration/handover.hpp"
#include "kernel/streaming.hpp"
#include "memory/cache.hpp"
#include "segment/handover.hpp"
#include "tests/check.hpp"

using namespace paceline;
using namespace std::chrono_literals;

namespace {

constexpr auto kNear = calibration::kFarProbe / 4;

Handover far_apart(ProbedLines& lines) {
  Handover handover(lines);
  handover.record(calibration::kFarProbe);
  handover.record(calibration::kFarProbe);
  CHECK(handover.streams());
  return handover;
}

void copies_exactly(Handover handover) {
  constexpr std::byte kUntouched{0xee};
  std::vector<std::byte> from(2 * calibration::kLeastStreamed + 300);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 7 + i / 256);
  for (const std::size_t bytes : {0UL, 1UL, 64UL, calibration::kLeastStreamed - 1, calibration::kLeastStreamed,
                                  calibration::kLeastStreamed + 1, 2 * calibration::kLeastStreamed + 130})
    for (const std::size_t to_offset : {0UL, 1UL, 8UL, 63UL})
      for (const std::size_t from_offset : {0UL, 5UL}) {
        std::vector<std::byte> to(bytes + 3 * kCacheLine, kUntouched);
        handover.copy(to.data() + to_offset, from.data() + from_offset, bytes);
        const auto begin = to.begin() + static_cast<std::ptrdiff_t>(to_offset);
        const auto end = begin + static_cast<std::ptrdiff_t>(bytes);
        CHECK(std::equal(begin, end, from.begin() + static_cast<std::ptrdiff_t>(from_offset)));
        CHECK(std::all_of(to.begin(), begin, [](std::byte b) { return b == kUntouched; }));
        CHECK(std::all_of(end, to.end(), [](std::byte b) { return b == kUntouched; }));
      }
}

}  // namespace

TEST(near_and_far_copies_are_exact) {
  ProbedLines lines{};
  copies_exactly(Handover(lines));
  copies_exactly(far_apart(lines));
}

TEST(one_slow_probe_changes_nothing) {
  ProbedLines lines{};
  Handover handover(lines);
  for (int i = 0; i < 10; ++i) {
    handover.record(1s);
    handover.record(kNear);
    CHECK(!handover.streams());
  }
}

TEST(some_quick_probes_change_nothing_where_cores_are_far_apart) {
  ProbedLines lines{};
  Handover handover = far_apart(lines);
  for (int i = 0; i < 10; ++i) {
    for (int quick = 0; quick < calibration::kNearProbesInRow - 1; ++quick) handover.record(kNear);
    handover.record(calibration::kFarProbe);
    CHECK(handover.streams());
  }
}

TEST(cores_that_come_together_or_part_are_noticed) {
  ProbedLines lines{};
  Handover handover = far_apart(lines);
  for (int i = 0; i < 3; ++i) {
    for (int quick = 0; quick < calibration::kNearProbesInRow; ++quick) handover.record(kNear);
    CHECK(!handover.streams());
    for (int slow = 0; slow < calibration::kFarProbesInRow; ++slow) handover.record(calibration::kFarProbe);
    CHECK(handover.streams());
  }
}

TEST(copies_themselves_find_out) {
  if (!kStreams) return;
  // Nobody else has these lines: however slow this machine is, in the end two probes in a row are quick.
  ProbedLines lines{};
  Handover handover = far_apart(lines);
  std::vector<std::byte> from(calibration::kLeastStreamed), to(calibration::kLeastStreamed);
  for (int i = 0; i < 100'000 && handover.streams(); ++i) handover.copy(to.data(), from.data(), from.size());
  CHECK(!handover.streams());
}
