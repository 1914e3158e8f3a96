// What is encoded, and where encoded bytes go.
#include <algorithm>

#include "program/lower.hpp"

namespace paceline {
namespace {

constexpr std::size_t kLine = 64;  // bytes of a cache line, where each slot begins

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

Chunks Lowering::chunks_of(const Plan& plan, std::size_t bytes) const { return plan.chunks(coding_.carried(bytes)); }

void Lowering::end_track() {
  program_.slot_bytes = std::max(program_.slot_bytes, slot_bytes_);
  slot_bytes_ = 0;
  program_.end_track();
}

int Lowering::add_slot(std::size_t bytes) {
  const DType dtype = program_.fold.dtype;
  const std::size_t capacity = encoded_bound(coding_.codec, dtype, bytes / size_of(dtype));
  program_.slots.push_back({slot_bytes_, capacity});
  slot_bytes_ += (capacity + kLine - 1) / kLine * kLine;
  return static_cast<int>(program_.slots.size()) - 1;
}

int Lowering::add_encode(const std::byte* from, std::size_t bytes, std::byte* residual, std::byte* to) {
  Instruction instruction{Instruction::Kind::encode};
  instruction.from = from;
  instruction.to = to;
  instruction.bytes = bytes;
  instruction.residual = residual;
  instruction.slot = add_slot(bytes);
  program_.instructions.push_back(instruction);
  return instruction.slot;
}

void Lowering::add_encoded_send(int slot, int peer) {
  add_send(nullptr, 0, peer);
  program_.instructions.back().slot = slot;
}

int Lowering::add_decode(std::byte* to, std::size_t bytes, int peer) {
  Instruction instruction{Instruction::Kind::combine};
  instruction.to = to;
  instruction.bytes = bytes;
  instruction.first_input = static_cast<std::uint32_t>(program_.inputs.size());
  instruction.inputs = 1;
  const int slot = add_slot(bytes);
  program_.inputs.push_back({peer, nullptr, received_[static_cast<std::size_t>(peer)]++, slot});
  program_.instructions.push_back(instruction);
  return slot;
}

void Lowering::pass_on(const Passes& passes, std::byte* data, std::byte* residual, Rows rows) {
  if (passes.empty()) return;
  const Units units(passes, rows);
  const auto size = static_cast<std::size_t>(size_);
  const auto at = [&](std::size_t unit, int rank) { return unit * size + static_cast<std::size_t>(rank); };
  // The last stage in which a rank passes a unit on as encoded bytes, which it has to receive as such before; -1: none.
  std::vector<int> passed(units.count() * size, -1);
  std::vector<int> first(units.count(), -1);  // the rank that has the unit before anything moves
  const auto is_encoded = [&](int stage, const Pass& pass, std::size_t unit) {
    return coding_.crosses(pass.from, pass.to) || passed[at(unit, pass.to)] > stage;
  };
  for (int stage = static_cast<int>(passes.size()) - 1; stage >= 0; --stage)
    for (const Pass& pass : passes[static_cast<std::size_t>(stage)])
      units.within(pass, [&](std::size_t unit) {
        if (is_encoded(stage, pass, unit)) passed[at(unit, pass.from)] = std::max(passed[at(unit, pass.from)], stage);
        first[unit] = pass.from;
      });
  std::vector<int> slots(units.count(), -1);
  for (std::size_t unit = 0; unit < units.count(); ++unit) {
    if (first[unit] != rank_ || passed[at(unit, rank_)] < 0) continue;
    const std::size_t place = rows.at(units.begin(unit));
    slots[unit] = add_encode(data + place, units.bytes(unit), residual != nullptr ? residual + place : nullptr,
                             coding_.codec == Codec::lossless ? nullptr : data + place);
  }
  for (int stage = 0; stage < static_cast<int>(passes.size()); ++stage) {
    for (const Pass& pass : passes[static_cast<std::size_t>(stage)]) {
      if (pass.from != rank_ && pass.to != rank_) continue;
      const int peer = pass.from == rank_ ? pass.to : pass.from;
      units.within(pass, [&](std::size_t unit) {
        std::byte* const place = data + rows.at(units.begin(unit));
        const std::size_t bytes = units.bytes(unit);
        const bool sends = pass.from == rank_;
        if (!is_encoded(stage, pass, unit))
          return sends ? add_send(place, bytes, peer) : add_receive(place, bytes, peer);
        if (sends) return add_encoded_send(slots[unit], peer);
        slots[unit] = add_decode(place, bytes, peer);
      });
    }
    program_.end_stage();
  }
}

}  // namespace paceline
