#include "execute/receive.hpp"

#include <algorithm>

#include "kernel/reduce.hpp"

namespace paceline {

std::byte* Receive::window(std::size_t size) {
  return fold == nullptr && size <= length - filled ? to + filled : nullptr;
}

void Receive::advance(std::size_t size) {
  filled += size;
  if (filled == length) state = State::done;
}

void Receive::consume(const std::byte* data, std::size_t size) {
  if (size > length - filled) return;
  if (fold != nullptr) {
    const std::byte* inputs[2] = {to + filled, data};
    kernels().reduce(*fold, to + filled, inputs, 2, size / size_of(fold->dtype));
  } else {
    std::copy_n(data, size, to + filled);
  }
  advance(size);
}

Receive* Matcher::first(const Header& header, int from) const {
  const auto found =
      std::ranges::find_if(waiting_, [&](const Receive* receive) { return receive->wants(header, from); });
  return found == waiting_.end() ? nullptr : *found;
}

std::unique_ptr<Arrival> Matcher::find_arrival(Receive& receive) {
  const auto found = std::ranges::find_if(
      unexpected_, [&](const Unexpected& item) { return receive.wants(item.arrival->header, item.from); });
  if (found == unexpected_.end()) return nullptr;
  receive.actual_source = found->from;
  auto arrival = std::move(found->arrival);
  unexpected_.erase(found);
  return arrival;
}

}  // namespace paceline
