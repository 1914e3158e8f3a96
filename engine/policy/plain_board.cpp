#include "policy/plain_board.hpp"

#include "policy/entry.hpp"

namespace paceline {

bool PlainBoard::read(int rank, std::uint64_t& position, std::vector<std::uint64_t>& entry) {
  const std::uint64_t end = begin_ + log_.size();
  if (position == end) return false;
  const auto first = log_.begin() + static_cast<std::ptrdiff_t>(position - begin_);
  entry.assign(first, first + head_of(*first).words);
  position += entry.size();
  read_[static_cast<std::size_t>(rank)] = position;
  return true;
}

}  // namespace paceline
