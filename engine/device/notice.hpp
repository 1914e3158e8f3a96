// What the ranks of a group tell each other on the host, before their devices work together. What goes wrong on one
// rank is told, too, so that no rank waits for it in vain and all raise the same error.
#pragma once

#include <array>
#include <string_view>
#include <vector>

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
  IpcHandle ready[2];  // events of one-shot operations, which take turns
  IpcHandle done[2];
  IpcHandle given;  // events of two-shot operations
  IpcHandle written;
  Shown scratch;
  Words wrong;  // why this rank cannot take part, if it cannot
};

// What a rank is about to do.
struct Notice {
  Fingerprint what;
  std::uint64_t offset = 0;  // of the buffer in the memory that is shown
  Shown shown;
  std::uint8_t shows = 0;  // whether others can map the buffer
  Words wrong;
};

// Returns all ranks' words, by rank. Throws Failure.
template <typename T>
std::vector<T> exchanged(Engine& engine, Group& group, const T& mine) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all(static_cast<std::size_t>(group.size()));
  all_gather(engine, group, reinterpret_cast<const std::byte*>(&mine), reinterpret_cast<std::byte*>(all.data()),
             sizeof(T), DType::uint8, Mode::blocking);
  return all;
}

}  // namespace paceline::device
