#include "link/piece.hpp"

#include <algorithm>
#include <cstring>

namespace paceline {
namespace {

constexpr std::size_t kWindowFrom = 4096;  // bytes; a smaller rest is read together with what follows it

}  // namespace

void Piece::begin(StreamSink* sink, std::size_t size) {
  sink_ = sink;
  remaining_ = size;
}

std::byte* Piece::window() {
  return sink_ != nullptr && remaining_ >= kWindowFrom ? sink_->window(remaining_) : nullptr;
}

void Piece::arrived(std::size_t size) {
  sink_->advance(size);
  remaining_ -= size;
  if (remaining_ == 0) end();
}

void Piece::take(const std::byte* data, std::size_t size) {
  remaining_ -= size;
  if (sink_ != nullptr) {
    if (std::byte* window = sink_->window(size)) {
      std::memcpy(window, data, size);
      sink_->advance(size);
    } else {
      if (carried_ > 0) {
        const std::size_t n = std::min(size, carry_.size() - carried_);
        std::memcpy(carry_.data() + carried_, data, n);
        carried_ += n;
        data += n;
        size -= n;
        if (carried_ == carry_.size()) {
          sink_->consume(carry_.data(), carried_);
          carried_ = 0;
        }
      }
      const std::size_t whole = size - size % carry_.size();
      if (whole > 0) sink_->consume(data, whole);
      if (size > whole) {
        std::memcpy(carry_.data(), data + whole, size - whole);
        carried_ = size - whole;
      }
    }
  }
  if (remaining_ == 0) end();
}

void Piece::forget(const StreamSink& sink) {
  if (sink_ != &sink) return;
  sink_ = nullptr;
  carried_ = 0;
}

void Piece::end() {
  if (sink_ != nullptr && carried_ > 0) sink_->consume(carry_.data(), carried_);
  carried_ = 0;
  sink_ = nullptr;
}

}  // namespace paceline
