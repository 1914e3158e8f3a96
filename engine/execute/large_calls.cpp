#include "execute/large_calls.hpp"

#include <algorithm>

#include "calibration/named.hpp"

namespace paceline {

bool LargeCalls::counts(const Fingerprint& what, std::uint64_t bytes) {
  const bool kind = what.collective == Collective::all_reduce || what.collective == Collective::all_gather ||
                    what.collective == Collective::reduce_scatter;
  return kind && what.codec == Codec::none && what.count > 0 && bytes >= calibration::kLargeCall;
}

std::uint64_t LargeCalls::begin(Collective collective, std::uint64_t bytes, std::int64_t now_ns) {
  most_under_way_ = std::max(most_under_way_, under_way_++);
  const std::uint64_t number = count();
  kept_[number % kKept] = {collective, bytes, now_ns, 0};
  count_.store(number + 1, std::memory_order_relaxed);
  return number;
}

void LargeCalls::end(std::uint64_t number, std::int64_t now_ns) {
  --under_way_;
  if (count() - number <= kKept) kept_[number % kKept].ended_ns = now_ns;
}

std::vector<LargeCalls::Call> LargeCalls::since(std::uint64_t first) const {
  const auto is_kept = [this](std::uint64_t number) { return count() - number <= kKept; };
  std::vector<Call> calls;
  for (std::uint64_t number = first; number < count(); ++number) {
    Call& call = calls.emplace_back();
    if (!is_kept(number)) continue;
    const Kept& known = kept(number);
    call.collective = known.collective;
    call.bytes = known.bytes;
    const bool follows = number > 0 && is_kept(number - 1);
    if (known.ended_ns == 0 || (follows && kept(number - 1).ended_ns == 0)) continue;
    const std::int64_t begun_ns = follows ? std::max(known.begun_ns, kept(number - 1).ended_ns) : known.begun_ns;
    call.seconds = static_cast<double>(known.ended_ns - begun_ns) * 1e-9;
  }
  return calls;
}

}  // namespace paceline
