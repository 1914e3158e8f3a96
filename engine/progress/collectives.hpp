// Carries out calls: checks one, makes a program of it and runs an operation.
#pragma once

#include "progress/engine.hpp"
#include "types/call.hpp"

namespace paceline {

using Handle = std::shared_ptr<Operation>;

// Returns why `codec` cannot encode what is reduced like this, in words; empty if it can.
std::string cannot_encode(Codec codec, DType dtype, Op op);
// Returns how so many bytes, the data of all ranks' blocks together, go between machines: none where they go as they
// are. Throws Failure (invalid) if the call names a codec that cannot encode them, or has a residual of others than
// float32. All ranks that call alike come to the same.
Codec codec_for(const Group&, const CollectiveCall&, std::size_t bytes);
// Returns the bytes of all ranks' blocks together, or of the message; 0 where blocks have counts of their own.
std::size_t bytes_of(const Group&, const CollectiveCall&);

// Returns null in blocking mode, and for a send that is over at once in mode async. Throws Failure if an argument is
// invalid or the group has failed, and in blocking mode if the operation fails.
// Source and target of an all_reduce are the same or do not overlap; a reduce and a broadcast are in place.
Handle start(Engine&, Group&, const CollectiveCall&, Mode);
// The part of an all_reduce, in place, that goes between machines: `between` is that part of its plan (see
// MachineFirst), and what this rank has is combined over its machine already. It is no PREMUL_SUM.
Handle start_between(Engine&, Group&, const Plan& between, const CollectiveCall&, Mode);
// Returns into how many pieces that cuts the call's elements.
std::size_t pieces_between(const Group&, const Plan& between, const CollectiveCall&);
// Returns whether an all_reduce of so many bytes writes nothing anywhere before every rank has begun it.
bool begins_together(const Group&, std::size_t bytes);

// `start` of a message to receive; in blocking mode `sender` becomes the group rank that it came from.
Handle receive(Engine&, Group&, const CollectiveCall&, Mode, int* sender);
// Sends one message and receives another, and returns when both are over.
void send_and_receive(Engine&, Group&, const CollectiveCall& sent, const CollectiveCall& received);

}  // namespace paceline
