#include "program/writer.hpp"

#include <algorithm>

namespace paceline {
namespace {

constexpr std::size_t kLine = 64;  // bytes of a cache line, where each slot begins

}  // namespace

ProgramWriter::ProgramWriter(Program& program, int rank, int size, const Coding& coding)
    : rank_(rank),
      size_(size),
      coding_(coding),
      program_(program),
      sent_(static_cast<std::size_t>(size)),
      received_(static_cast<std::size_t>(size)) {
  program_.clear();
  program_.codec = coding.codec;
}

void ProgramWriter::set_fold(DType dtype, Op op, bool divides) {
  program_.fold = {dtype, op == Op::avg || op == Op::premul_sum ? Op::sum : op,
                   divides ? static_cast<double>(size_) : 1};
}

Instruction& ProgramWriter::add(Instruction::Kind kind, std::byte* to, const std::byte* from, std::size_t bytes) {
  Instruction instruction{kind};
  instruction.to = to;
  instruction.from = from;
  instruction.bytes = bytes;
  program_.instructions.push_back(instruction);
  return program_.instructions.back();
}

void ProgramWriter::add_send(const std::byte* data, std::size_t bytes, int peer) {
  Instruction& send = add(Instruction::Kind::send, nullptr, data, bytes);
  send.peer = peer;
  send.tag = sent_[static_cast<std::size_t>(peer)]++;
}

void ProgramWriter::add_receive(std::byte* data, std::size_t bytes, int peer) {
  Instruction& receive = add(Instruction::Kind::receive, data, nullptr, bytes);
  receive.peer = peer;
  receive.tag = received_[static_cast<std::size_t>(peer)]++;
}

void ProgramWriter::add_input(int peer, int slot) {
  program_.inputs.push_back({peer, nullptr, received_[static_cast<std::size_t>(peer)]++, slot});
}

void ProgramWriter::add_combine(std::byte* to, std::size_t bytes, const std::byte* own, std::span<const int> holders,
                                bool after_sends) {
  Instruction& combine = add(Instruction::Kind::combine, to, nullptr, bytes);
  combine.after_sends = after_sends;
  combine.first_input = static_cast<std::uint32_t>(program_.inputs.size());
  combine.inputs = static_cast<std::uint32_t>(holders.size());
  for (const int holder : holders) {
    if (holder == rank_) {
      program_.inputs.push_back({-1, own, 0});
    } else if (!coding_.crosses(holder, rank_)) {
      add_input(holder);
    }
  }
  if (coding_.encodes())
    for (const int holder : holders)
      if (coding_.crosses(holder, rank_)) add_input(holder, add_slot(bytes));
}

int ProgramWriter::add_slot(std::size_t bytes) {
  const DType dtype = program_.fold.dtype;
  const std::size_t capacity = encoded_bound(coding_.codec, dtype, bytes / size_of(dtype));
  program_.slots.push_back({slot_bytes_, capacity});
  slot_bytes_ += (capacity + kLine - 1) / kLine * kLine;
  return static_cast<int>(program_.slots.size()) - 1;
}

int ProgramWriter::add_encode(const std::byte* from, std::size_t bytes, std::byte* residual, std::byte* to) {
  Instruction& encode = add(Instruction::Kind::encode, to, from, bytes);
  encode.residual = residual;
  encode.slot = add_slot(bytes);
  return encode.slot;
}

void ProgramWriter::add_encoded_send(int slot, int peer) {
  add_send(nullptr, 0, peer);
  program_.instructions.back().slot = slot;
}

int ProgramWriter::add_decode(std::byte* to, std::size_t bytes, int peer) {
  Instruction& decode = add(Instruction::Kind::combine, to, nullptr, bytes);
  decode.first_input = static_cast<std::uint32_t>(program_.inputs.size());
  decode.inputs = 1;
  const int slot = add_slot(bytes);
  add_input(peer, slot);
  return slot;
}

void ProgramWriter::add_copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes > 0 && to != from) add(Instruction::Kind::copy, to, from, bytes);
}

void ProgramWriter::add_scale(std::byte* to, const std::byte* from, std::size_t bytes, double factor) {
  if (bytes > 0) add(Instruction::Kind::scale, to, from, bytes).factor = factor;
}

void ProgramWriter::add_divide(std::byte* data, std::size_t bytes, double divisor) {
  if (bytes > 0) add(Instruction::Kind::divide, data, nullptr, bytes).factor = divisor;
}

void ProgramWriter::end_track() {
  program_.slot_bytes = std::max(program_.slot_bytes, slot_bytes_);
  slot_bytes_ = 0;
  program_.end_track();
}

}  // namespace paceline
