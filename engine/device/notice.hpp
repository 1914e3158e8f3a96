// What the ranks of a group tell each other on the host about their devices.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "device/kernels/launch.hpp"
#include "device/part.hpp"
#include "device/peers.hpp"
#include "progress/collectives.hpp"

namespace paceline::device {

// Words of a bounded length.
class Words {
 public:
  void set(std::string_view text) { text_[text.copy(text_.data(), text_.size() - 1)] = 0; }
  std::string_view get() const {
    const std::string_view all(text_.data(), text_.size());
    return all.substr(0, all.find('\0'));
  }

 private:
  std::array<char, 224> text_{};
};

// What a rank has when a group begins to work on devices.
struct Introduction {
  Uuid device;
  Shown scratch;
  std::uint64_t signals = 0;  // where they lie in its arena
  std::uint64_t control = 0;  // likewise
  std::uint64_t channel = 0;  // of a group for the host's part of the work, if this is the first rank
  Words unreachable;          // why others cannot work in its memory, if they cannot
  Words failed;               // why nothing works here, if nothing does
};

// What a rank does in a call.
struct Notice {
  Fingerprint what;
  std::uint64_t longest = 0;              // elements of the longest block that it gives or takes
  Shown shown;                            // where what it gives lies, if others read it there
  std::array<Part, kMostInputs> given{};  // bytes of that, by the rank that they are for
};

// Returns all ranks' words, by rank. Throws Failure.
template <typename T>
std::vector<T> exchanged(Engine& engine, Group& group, const T& mine) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all(static_cast<std::size_t>(group.size()));
  start(engine, group, gather_bytes(&mine, all.data(), sizeof(T)), Mode::blocking);
  return all;
}

}  // namespace paceline::device
