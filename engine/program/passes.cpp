#include "program/passes.hpp"

#include <algorithm>

namespace paceline {
namespace {

// The piece cut wherever a pass or a row begins or ends, so that every pass takes whole units.
class Units {
 public:
  Units(const Passes& passes, Rows rows) {
    for (const auto& stage : passes)
      for (const Pass& pass : stage) cuts_.insert(cuts_.end(), {pass.begin, pass.end});
    if (cuts_.empty()) return;
    const std::size_t end = *std::ranges::max_element(cuts_);
    if (rows.stride > 0)
      for (std::size_t at = 0; at < end; at += rows.width) cuts_.push_back(at);
    std::ranges::sort(cuts_);
    const auto again = std::ranges::unique(cuts_);
    cuts_.erase(again.begin(), again.end());
  }

  std::size_t count() const { return cuts_.empty() ? 0 : cuts_.size() - 1; }
  std::size_t begin(std::size_t unit) const { return cuts_[unit]; }
  std::size_t bytes(std::size_t unit) const { return cuts_[unit + 1] - cuts_[unit]; }

  template <typename Each>
  void within(const Pass& pass, Each&& each) const {
    for (std::size_t unit = static_cast<std::size_t>(std::ranges::lower_bound(cuts_, pass.begin) - cuts_.begin());
         unit < count() && begin(unit) < pass.end; ++unit)
      each(unit);
  }

 private:
  std::vector<std::size_t> cuts_;
};

}  // namespace

void pass_on(ProgramWriter& writer, const Passes& passes, std::byte* data, std::byte* residual, Rows rows) {
  if (passes.empty()) return;
  const Units units(passes, rows);
  const Coding& coding = writer.coding();
  const int me = writer.rank();
  const auto size = static_cast<std::size_t>(writer.size());
  const auto at = [&](std::size_t unit, int rank) { return unit * size + static_cast<std::size_t>(rank); };
  // The last stage in which a rank passes a unit on as encoded bytes, which it has to receive as such before; -1: none.
  std::vector<int> passed(units.count() * size, -1);
  std::vector<int> first(units.count(), -1);  // the rank that has the unit before anything moves
  const auto is_encoded = [&](int stage, const Pass& pass, std::size_t unit) {
    return coding.crosses(pass.from, pass.to) || passed[at(unit, pass.to)] > stage;
  };
  for (int stage = static_cast<int>(passes.size()) - 1; stage >= 0; --stage)
    for (const Pass& pass : passes[static_cast<std::size_t>(stage)])
      units.within(pass, [&](std::size_t unit) {
        if (is_encoded(stage, pass, unit)) passed[at(unit, pass.from)] = std::max(passed[at(unit, pass.from)], stage);
        first[unit] = pass.from;
      });
  std::vector<int> slots(units.count(), -1);
  for (std::size_t unit = 0; unit < units.count(); ++unit) {
    if (first[unit] != me || passed[at(unit, me)] < 0) continue;
    const std::size_t place = rows.at(units.begin(unit));
    slots[unit] = writer.add_encode(data + place, units.bytes(unit), residual != nullptr ? residual + place : nullptr,
                                    coding.codec == Codec::lossless ? nullptr : data + place);
  }
  for (int stage = 0; stage < static_cast<int>(passes.size()); ++stage) {
    for (const Pass& pass : passes[static_cast<std::size_t>(stage)]) {
      if (pass.from != me && pass.to != me) continue;
      const int peer = pass.from == me ? pass.to : pass.from;
      units.within(pass, [&](std::size_t unit) {
        std::byte* const place = data + rows.at(units.begin(unit));
        const std::size_t bytes = units.bytes(unit);
        const bool sends = pass.from == me;
        if (!is_encoded(stage, pass, unit))
          return sends ? writer.add_send(place, bytes, peer) : writer.add_receive(place, bytes, peer);
        if (sends) return writer.add_encoded_send(slots[unit], peer);
        slots[unit] = writer.add_decode(place, bytes, peer);
      });
    }
    writer.end_stage();
  }
}

}  // namespace paceline
