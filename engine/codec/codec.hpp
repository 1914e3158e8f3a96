// Codecs: fewer bytes for a tensor's elements on their way between machines.
//
// Elements are encoded in blocks of kCodecBlock elements; the last block of a range may be shorter. The encoded blocks
// follow each other without gaps, and each decodes alone. So a range may be cut at any multiple of kCodecBlock
// elements, and what is encoded of its parts, one after the other, are the bytes that are encoded of the whole.
//
// No function allocates, throws or needs any alignment. All instruction sets give the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "types/codecs.hpp"
#include "types/elements.hpp"

namespace paceline {

inline constexpr std::size_t kCodecBlock = 4096;  // elements

std::optional<Codec> codec_named(std::string_view name);

// Whether `codec` takes elements of this type. All of them take float32; `none` and `lossless` take bfloat16 too.
bool encodes(Codec codec, DType dtype) noexcept;

// Whether `encoded_bound` is not only a bound but always the size. Elsewhere the size depends on the data: each block
// begins with its own length.
bool has_fixed_size(Codec codec) noexcept;

// Bytes that `elements` take at the most, once encoded.
std::size_t encoded_bound(Codec codec, DType dtype, std::size_t elements) noexcept;

// Encodes `elements` at `in` to `out`, which has room for `encoded_bound` bytes. Returns the bytes written.
std::size_t encode(Codec codec, DType dtype, const std::byte* in, std::size_t elements, std::byte* out) noexcept;

// Error feedback, in one pass: encodes in[i] + residual[i], and leaves in residual[i] what that lost. Where the sum or
// what is decoded of it is not finite, the residual becomes 0. float32 only.
std::size_t encode_with_residual(Codec codec, const std::byte* in, std::byte* residual, std::size_t elements,
                                 std::byte* out) noexcept;

// Decodes exactly `elements` from all of `in`. Returns false where `in` cannot be the encoding of so many elements: it
// is too short or too long, or it contradicts itself. Then `out` holds anything. Nothing beyond `elements` is written,
// whatever `in` holds.
bool decode(Codec codec, DType dtype, std::span<const std::byte> in, std::byte* out, std::size_t elements) noexcept;

// The same, but out[i] becomes out[i] + the decoded element, added in float32.
bool decode_and_add(Codec codec, DType dtype, std::span<const std::byte> in, std::byte* out,
                    std::size_t elements) noexcept;

}  // namespace paceline
