// The collectives as a caller sees them: each checks its arguments, builds a program and runs an operation.
#pragma once

#include <optional>
#include <vector>

#include "progress/engine.hpp"

namespace paceline {

struct Buffer {
  std::byte* data = nullptr;
  std::size_t count = 0;
};

using Handle = std::shared_ptr<Operation>;

// How the caller wants messages between machines: with a codec, or as the group has them. residual: as many float32
// as the data, for error feedback; null: none.
struct Wanted {
  std::optional<Codec> codec;
  std::byte* residual = nullptr;
};

// Returns why `codec` cannot encode what is reduced like this, in words; empty if it can.
std::string cannot_encode(Codec codec, DType dtype, Op op);
// Returns how so many bytes, the data of all ranks' blocks together, go between machines: none where they go as they
// are. Throws Failure (invalid) if the caller names a codec that cannot encode them, or has a residual of others than
// float32. All ranks that ask alike come to
// the same.
Codec codec_for(const Group&, const Wanted& wanted, Collective, std::size_t bytes, DType, Op);

// Every function returns null in blocking mode, and so does a send that is over at once in mode async. It throws
// Failure if an argument is invalid or the group has failed, and in blocking mode if the operation fails. Counts are in
// elements.
// `source` and `to` are the same, or do not overlap.
Handle all_reduce(Engine&, Group&, const std::byte* source, std::byte* to, std::size_t count, DType, Op, double factor,
                  Mode, const Wanted& wanted = {});
inline Handle all_reduce(Engine& engine, Group& group, std::byte* data, std::size_t count, DType dtype, Op op,
                         double factor, Mode mode, const Wanted& wanted = {}) {
  return all_reduce(engine, group, data, data, count, dtype, op, factor, mode, wanted);
}
// The part of an all_reduce, in place, that goes between machines: `between` is that part of its plan (see
// MachineFirst), and what this rank has of `data` is combined over its machine already. `op` is no PREMUL_SUM.
Handle all_reduce_between(Engine&, Group&, const Plan& between, std::byte* data, std::size_t count, DType, Op, Mode,
                          const Wanted& wanted = {});
// Returns into how many pieces that cuts so many elements.
std::size_t pieces_between(const Group&, const Plan& between, std::size_t count, DType, Op, const Wanted& wanted = {});
// Returns whether an all_reduce of so many bytes writes nothing anywhere before every rank has begun it.
bool begins_together(const Group&, std::size_t bytes);
Handle broadcast(Engine&, Group&, std::byte* data, std::size_t count, DType, int root, Mode, const Wanted& wanted = {});
Handle reduce(Engine&, Group&, std::byte* data, std::size_t count, DType, Op, double factor, int root, Mode);
Handle all_gather(Engine&, Group&, const std::byte* source, std::byte* data, std::size_t count, DType, Mode,
                  const Wanted& wanted = {});
Handle reduce_scatter(Engine&, Group&, const std::byte* source, std::byte* to, std::size_t count, DType, Op,
                      double factor, Mode, const Wanted& wanted = {});
Handle exchange(Engine&, Group&, Collective, const std::vector<Buffer>& sends, const std::vector<Buffer>& recvs, DType,
                int root, Mode);
Handle barrier(Engine&, Group&, Mode);
Handle send(Engine&, Group&, std::byte* data, std::size_t count, DType, int peer, std::int32_t tag, Mode);
// `peer` may be -1, for any. In blocking mode `sender` is told the group rank that the message came from, if it is
// given.
Handle receive(Engine&, Group&, std::byte* data, std::size_t count, DType, int peer, std::int32_t tag, Mode,
               int* sender = nullptr);
// Sends one message and receives another, and returns when both are over.
void send_and_receive(Engine&, Group&, Buffer source, DType sent_as, int to, Buffer target, DType received_as, int from,
                      std::int32_t tag);

}  // namespace paceline
