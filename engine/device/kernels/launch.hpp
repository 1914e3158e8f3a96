// The kernels for GPUs: their names, the parameters that each takes, and the image that holds them.
//
// A kernel takes one plain struct, which host and device code share. Its addresses are of memory that the GPU maps: its
// own, a peer's through IPC, or pinned host memory. No alignment is required, but with all addresses at the same
// distance from a multiple of 16 bytes, elements move 16 bytes at a time.
// Any grid of any blocks is right: threads share the work in strides. `launch_of` says which is quick.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "codec/codec.hpp"
#include "types/elements.hpp"

namespace paceline::device {

inline constexpr std::size_t kMostInputs = 8;  // buffers that one kernel reads, and that it writes

// What a kernel is handed over with whose other parameters the host completes later: where those lie, complete when it
// starts, or null if it has all of its own. Beside them lies a word with the number of a call that has failed
// somewhere, whose memory its kernel leaves alone.
template <typename Parameters>
struct Later {
  const Parameters* parameters;
  const std::uint32_t* withdrawn;
  std::uint32_t call;
};

// out[j][i] = in[0][i] op in[1][i] op ... op in[inputs - 1][i], divided by `divisor`, for all j: the bits of
// `Kernels::reduce_to_all`, but for those of a NaN. An input may be an output itself. One output makes it a one-shot
// all-reduce of one rank or, on a part of the buffer, the reduce-scatter of a two-shot one; all ranks' outputs make it
// reduce-scatter and all-gather at once.
struct ReduceParameters {
  const std::byte* in[kMostInputs];
  std::byte* out[kMostInputs];
  std::uint64_t count;  // elements
  double divisor;       // a whole number, below 2^31
  std::uint32_t inputs;
  std::uint32_t outputs;
  Later<ReduceParameters> later;
};

// out[i] = in[i] * factor; floats only. `out` may be `in`.
struct ScaleParameters {
  const std::byte* in;
  std::byte* out;
  std::uint64_t count;  // elements
  double factor;
};

// Copies from[k] to to[k] for all k < parts, which pulls what peers have for this rank.
struct CopyParameters {
  const std::byte* from[kMostInputs];
  std::byte* to[kMostInputs];
  std::uint64_t bytes[kMostInputs];
  std::uint32_t parts;
  Later<CopyParameters> later;
};

// Encodes `elements` float32 at `in` to `out`, which has room for `encoded_bound` bytes: the bytes of `encode` and,
// with a residual, of `encode_with_residual`. `offsets` has `codec_offsets` words for three_in_one, whose kernels leave
// there where each block begins and, last, how many bytes there are in all; elsewhere it is null.
struct EncodeParameters {
  const std::byte* in;
  std::byte* residual;  // null where what is lost is not kept
  std::byte* out;
  std::uint64_t elements;
  std::uint64_t* offsets;
};

// Decodes `elements` from all of `in`, or adds them to what is at `out`. For other codecs than three_in_one `bytes`
// must be `encoded_bound`. For three_in_one `offsets` has `codec_offsets` words, and `refused` is one word that was 0:
// it becomes 1 where `in` cannot be the encoding of so many elements. Then `out` holds anything, as after `decode`;
// nothing beyond `elements` is written and nothing beyond `bytes` is read. Elsewhere both are null.
struct DecodeParameters {
  const std::byte* in;
  std::uint64_t bytes;
  std::byte* out;
  std::uint64_t elements;
  std::uint64_t* offsets;
  std::uint32_t* refused;
};

struct Dimensions {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;
};

// How a kernel is started; its only parameter is its struct.
struct Launch {
  std::string_view kernel;  // the name in the image, ends with 0
  Dimensions grid;
  Dimensions block;
  unsigned shared_bytes = 0;  // beyond what the kernel declares itself
};

// The launches of an operation on a GPU that has so many multiprocessors. `reduce_launch` is for what `supports`
// admits; PREMUL_SUM is SUM of what was scaled before.
Launch reduce_launch(DType dtype, Op op, const ReduceParameters& parameters, unsigned multiprocessors);
Launch scale_launch(DType dtype, const ScaleParameters& parameters, unsigned multiprocessors);
Launch copy_launch(const CopyParameters& parameters, unsigned multiprocessors);

// The launches of a codec, one after the other, all with the same parameters. There are none for a codec without
// kernels and none for no elements.
struct Launches {
  std::array<Launch, 3> each;
  std::size_t count = 0;

  const Launch* begin() const { return each.data(); }
  const Launch* end() const { return each.data() + count; }
};
Launches encode_launches(Codec codec, const EncodeParameters& parameters, unsigned multiprocessors);
Launches decode_launches(Codec codec, const DecodeParameters& parameters, unsigned multiprocessors);
Launches decode_and_add_launches(Codec codec, const DecodeParameters& parameters, unsigned multiprocessors);
std::size_t codec_offsets(Codec codec, std::size_t elements);

// The names of all kernels.
std::span<const std::string_view> kernel_names();

// The image with all kernels for every GPU from sm_80 on, for `cuModuleLoadData`. Empty where the engine was built
// without nvcc.
std::span<const std::byte> fatbin();

}  // namespace paceline::device
