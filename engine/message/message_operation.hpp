// A collective as messages over links. It carries out a program, a few of its tracks at a time.
#pragma once

#include <vector>

#include "execute/operation.hpp"
#include "message/context.hpp"
#include "message/track.hpp"
#include "program/program.hpp"

namespace paceline {

class MessageOperation final : public Operation {
 public:
  Program program;

  // Returns memory for the program to use; its content means nothing.
  std::span<std::byte> scratch(std::size_t bytes) {
    if (scratch_.size() < bytes) scratch_.resize(bytes);
    return std::span(scratch_).first(bytes);
  }

  bool step() override;
  bool complete() const override { return oldest_ == program.track_ends.size(); }
  std::vector<int> missing() const override;
  std::vector<int> absent() const override;
  bool has_work() const override;
  bool awaits_acknowledgements() const override;
  bool read_remotely() const override { return context_.read_remotely; }

 protected:
  void begin() override;
  void let_go(const Error&) override;
  void clear() override;

 private:
  Track& track(std::size_t index) { return tracks_[index % program.in_flight]; }
  const Track& track(std::size_t index) const { return tracks_[index % program.in_flight]; }
  void begin_tracks();

  Context context_;
  std::vector<std::byte> scratch_;  // kept, because new memory would have to be cleared
  std::vector<std::byte> slots_;    // of every track in flight; kept for the same reason
  std::vector<Track> tracks_;       // as many as were ever in flight together
  std::size_t oldest_ = 0;          // the oldest track in flight
  std::size_t next_ = 0;            // the first track that has not begun
};

}  // namespace paceline
