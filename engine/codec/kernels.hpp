// The codecs of one instruction set.
#pragma once

#include <cstddef>
#include <vector>

#include "codec/codec.hpp"

namespace paceline {

// One codec on one dtype; see `codec.hpp` for what each function does. Null where the codec does not take the dtype.
struct CodecFunctions {
  std::size_t (*encode)(const std::byte* in, std::size_t elements, std::byte* out) noexcept = nullptr;
  std::size_t (*encode_with_residual)(const std::byte* in, std::byte* residual, std::size_t elements,
                                      std::byte* out) noexcept = nullptr;
  bool (*decode)(const std::byte* in, std::size_t bytes, std::byte* out, std::size_t elements) noexcept = nullptr;
  bool (*decode_and_add)(const std::byte* in, std::size_t bytes, std::byte* out,
                         std::size_t elements) noexcept = nullptr;
};

struct CodecKernels {
  const char* isa;
  CodecFunctions (*find)(Codec codec, DType dtype) noexcept;
};

// The codecs for the best instruction set that this CPU has, and all those that it could run.
const CodecKernels& codec_kernels();
std::vector<const CodecKernels*> available_codec_kernels();

}  // namespace paceline
