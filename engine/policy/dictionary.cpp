#include "policy/dictionary.hpp"

#include <utility>

namespace paceline {

int SlotState::number_of(const Request& request) const {
  if (definition.get() == &request || definition->agrees_with(request)) return 0;
  if (others)
    for (std::size_t i = 0; i < others->size(); ++i)
      if ((*others)[i]->agrees_with(request)) return static_cast<int>(i) + 1;
  return -1;
}

const RequestPtr* SlotState::description(std::uint32_t number) const {
  if (number == 0) return &definition;
  return others && number <= others->size() ? &(*others)[number - 1] : nullptr;
}

std::uint32_t Dictionary::find(std::string_view name) const {
  if (table_.empty()) return kNoSlot;
  for (std::size_t at = home(name); table_[at] != 0; at = (at + 1) & (table_.size() - 1))
    if (slots_[table_[at] - 1].definition->name == name) return table_[at] - 1;
  return kNoSlot;
}

Dictionary::Placed Dictionary::define(RequestPtr definition, std::uint64_t position) {
  std::uint32_t slot = size();
  RequestPtr evicted;
  if (slot < capacity_) {
    slots_.emplace_back().definition = std::move(definition);
    if (2 * slots_.size() > table_.size())
      grow();
    else
      enter(slot);
  } else {
    slot = oldest_;
    leave(slot);
    unlink(slot);
    SlotState& state = slots_[slot];
    evicted = std::exchange(state.mine, nullptr);
    state.others.reset();
    ++state.round;
    state.definition = std::move(definition);
    enter(slot);
  }
  slots_[slot].defined_at = position;
  link_newest(slot);
  return {slot, std::move(evicted)};
}

void Dictionary::finish(std::uint32_t slot, std::uint32_t number) {
  SlotState& state = slots_[slot];
  if (number != 0) state.definition = *state.description(number);
  state.others.reset();
  state.mine.reset();
  ++state.round;
  if (slot != newest_) {
    unlink(slot);
    link_newest(slot);
  }
}

void Dictionary::finish_all() {
  for (SlotState& state : slots_) {
    state.others.reset();
    state.mine.reset();
    ++state.round;
  }
}

void Dictionary::enter(std::uint32_t slot) {
  std::size_t at = home(slots_[slot].definition->name);
  while (table_[at] != 0) at = (at + 1) & (table_.size() - 1);
  table_[at] = slot + 1;
}

void Dictionary::leave(std::uint32_t slot) {
  const std::size_t mask = table_.size() - 1;
  std::size_t hole = home(slots_[slot].definition->name);
  while (table_[hole] != slot + 1) hole = (hole + 1) & mask;
  // An entry that comes after the hole moves into it, unless the hole lies before the place that its hash names.
  for (std::size_t at = (hole + 1) & mask; table_[at] != 0; at = (at + 1) & mask) {
    const std::size_t wanted = home(slots_[table_[at] - 1].definition->name);
    if (((at - wanted) & mask) < ((at - hole) & mask)) continue;
    table_[hole] = table_[at];
    hole = at;
  }
  table_[hole] = 0;
}

void Dictionary::grow() {
  table_.assign(table_.empty() ? 16 : 2 * table_.size(), 0);
  for (std::uint32_t slot = 0; slot < size(); ++slot) enter(slot);
}

void Dictionary::unlink(std::uint32_t slot) {
  const SlotState& state = slots_[slot];
  (state.older == kNoSlot ? oldest_ : slots_[state.older].newer) = state.newer;
  (state.newer == kNoSlot ? newest_ : slots_[state.newer].older) = state.older;
}

void Dictionary::link_newest(std::uint32_t slot) {
  slots_[slot].older = newest_;
  slots_[slot].newer = kNoSlot;
  (newest_ == kNoSlot ? oldest_ : slots_[newest_].newer) = slot;
  newest_ = slot;
}

}  // namespace paceline
