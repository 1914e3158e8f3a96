// How much CPU time the codecs take, beside a copy of the same elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/codec.hpp"

namespace paceline {

// CPU nanoseconds of `calls` calls of `encode`, one after the other. CPU time, because what counts is what a core can
// do, whoever else wants it meanwhile.
std::int64_t time_encode(Codec codec, DType dtype, const std::byte* in, std::size_t elements, std::byte* out,
                         int calls);

// The same of `decode`; -1 if one fails.
std::int64_t time_decode(Codec codec, DType dtype, std::span<const std::byte> in, std::byte* out, std::size_t elements,
                         int calls);

// The same of memcpy.
std::int64_t time_copy(const std::byte* in, std::byte* out, std::size_t bytes, int calls);

}  // namespace paceline
