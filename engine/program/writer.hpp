// Writes a program, one instruction after the other.
#pragma once

#include <span>
#include <vector>

#include "program/coding.hpp"
#include "program/plan.hpp"
#include "program/program.hpp"

namespace paceline {

// Writes the program of rank `rank` of `size`. Tags count the messages from one rank to another, chunk by chunk; both
// ends count alike, because both walk the same plan.
class ProgramWriter {
 public:
  ProgramWriter(Program& program, int rank, int size, const Coding& coding = {});

  int rank() const { return rank_; }
  int size() const { return size_; }
  const Coding& coding() const { return coding_; }

  // AVG and PREMUL_SUM are combined as sums, which the last combination divides by the number of ranks if `divides`.
  void set_fold(DType dtype, Op op = Op::sum, bool divides = false);
  void add_send(const std::byte* data, std::size_t bytes, int peer);
  void add_receive(std::byte* data, std::size_t bytes, int peer);
  // Combines the holders' copies in `to`. This rank's, if it is a holder, lies in `own`. after_sends: see Instruction.
  void add_combine(std::byte* to, std::size_t bytes, const std::byte* own, std::span<const int> holders,
                   bool after_sends = false);
  // Encodes into a slot of its own, which is returned; and back to `to`, if that is given.
  int add_encode(const std::byte* from, std::size_t bytes, std::byte* residual, std::byte* to = nullptr);
  void add_encoded_send(int slot, int peer);
  // Receives what is then decoded to `to`; returns its slot.
  int add_decode(std::byte* to, std::size_t bytes, int peer);
  void add_copy(std::byte* to, const std::byte* from, std::size_t bytes);
  void add_scale(std::byte* to, const std::byte* from, std::size_t bytes, double factor);
  void add_divide(std::byte* data, std::size_t bytes, double divisor);
  void end_stage() { program_.end_stage(); }
  void end_track();
  std::size_t tracks() const { return program_.track_ends.size(); }

  // Returns how a buffer of so many bytes is cut: an encoded chunk keeps a link busy for as long as any other.
  Chunks chunks_of(const Plan& plan, std::size_t bytes) const { return plan.chunks(coding_.carried(bytes)); }
  // Makes a track of what lower(begin, elements) adds for each chunk. Chunks differ by one element at most.
  template <typename Lower>
  void cut(const Plan& plan, Chunks chunks, std::size_t count, Lower&& lower) {
    const auto all = static_cast<std::int64_t>(chunks.count);
    program_.in_flight = chunks.in_flight;
    program_.unasked = plan.chunk_bytes > 0;
    for (std::int64_t chunk = 0; chunk < all; ++chunk) {
      const std::size_t begin = Fraction{chunk, all}.of(count);
      lower(begin, Fraction{chunk + 1, all}.of(count) - begin);
      end_track();
    }
  }

 protected:
  const int rank_;
  const int size_;
  const Coding coding_;

 private:
  Instruction& add(Instruction::Kind kind, std::byte* to, const std::byte* from, std::size_t bytes);
  // Takes the next message from `peer`; as encoded bytes, if it has a slot.
  void add_input(int peer, int slot = -1);
  int add_slot(std::size_t bytes);

  Program& program_;
  std::size_t slot_bytes_ = 0;  // of the track under construction
  std::vector<std::int32_t> sent_;
  std::vector<std::int32_t> received_;
};

}  // namespace paceline
