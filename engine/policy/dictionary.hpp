// Tells which slot has which name, and what is known of it. It is a function of the log: ranks at the same place in the
// log know the same.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "policy/request.hpp"

namespace paceline {

inline constexpr std::uint32_t kNoSlot = ~std::uint32_t{0};

struct SlotState {
  // What the name stood for last, and the other descriptions that ranks have given in this round. Ranks agree on their
  // numbers.
  RequestPtr definition;
  std::unique_ptr<std::vector<RequestPtr>> others;
  std::uint32_t round = 1;       // the round that is going on
  std::uint64_t defined_at = 0;  // a place in the log
  RequestPtr mine;               // the request that this rank has submitted in this round
  std::uint32_t claimed = 0;     // the last round that this rank found complete
  std::uint32_t older = kNoSlot;
  std::uint32_t newer = kNoSlot;

  // Returns the number of a description that agrees with `request`, or -1 if there is none.
  int number_of(const Request& request) const;
  const RequestPtr* description(std::uint32_t number) const;
};

class Dictionary {
 public:
  explicit Dictionary(std::uint32_t capacity) : capacity_(capacity) {}

  std::uint32_t find(std::string_view name) const;
  bool defined(std::uint32_t slot) const { return slot < slots_.size(); }
  SlotState& operator[](std::uint32_t slot) { return slots_[slot]; }
  const SlotState& operator[](std::uint32_t slot) const { return slots_[slot]; }
  std::uint32_t size() const { return static_cast<std::uint32_t>(slots_.size()); }
  std::uint32_t capacity() const { return capacity_; }
  void set_capacity(std::uint32_t slots) { capacity_ = slots; }

  // Returns the slot for a new name: one that was never used, or else the one that was used least recently, which
  // begins its next round, together with the request of its old name.
  struct Placed {
    std::uint32_t slot;
    RequestPtr evicted;  // the request that this rank had submitted under the slot's old name
  };
  Placed define(RequestPtr definition, std::uint64_t position);
  // A round is over; ranks had this description.
  void finish(std::uint32_t slot, std::uint32_t number);
  // The rounds of all slots are over: what ranks have marked or submitted in them does not count any more.
  void finish_all();

 private:
  std::size_t home(std::string_view name) const { return std::hash<std::string_view>{}(name) & (table_.size() - 1); }
  void enter(std::uint32_t slot);
  void leave(std::uint32_t slot);
  void grow();
  void unlink(std::uint32_t slot);
  void link_newest(std::uint32_t slot);

  std::uint32_t capacity_;
  std::vector<SlotState> slots_;
  std::vector<std::uint32_t> table_;  // open addressing: slot + 1, 0 is free
  std::uint32_t oldest_ = kNoSlot;
  std::uint32_t newest_ = kNoSlot;
};

}  // namespace paceline
