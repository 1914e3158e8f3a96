#pragma once

#include <cstdint>
#include <vector>

#include "device/driver.hpp"

namespace paceline::device {

// Whether a word that only grows, and may wrap, has come to `value`.
inline bool reached(std::uint32_t word, std::uint32_t value) { return static_cast<std::int32_t>(word - value) >= 0; }

// Words that a stream writes and waits for, one after the other. A write comes after all earlier work of the stream,
// and everybody sees that work who sees the word. A wait occupies no multiprocessor.
class Batch {
 public:
  void write(Address word, std::uint32_t value) { all_.push_back({MemoryOperation::write, word, value}); }
  // Waits until the word has `reached` the value.
  void wait(Address word, std::uint32_t value) { all_.push_back({MemoryOperation::wait, word, value}); }

  // Hands them to the stream.
  void submit(const Driver& driver, StreamHandle stream) {
    if (all_.empty()) return;
    driver.check(driver.stream_batch(stream, static_cast<unsigned>(all_.size()), all_.data(), 0), "cuStreamBatchMemOp");
    all_.clear();
  }

 private:
  std::vector<StreamOperation> all_;
};

}  // namespace paceline::device
