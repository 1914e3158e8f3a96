#include "codec/codec.hpp"

#include <algorithm>

#include "codec/kernels.hpp"
#include "codec/layout.hpp"
#include "kernel/reduce.hpp"

namespace paceline {

namespace baseline {
extern const CodecKernels codec_table;
}
#ifdef PACELINE_X86
namespace avx2 {
extern const CodecKernels codec_table;
}
namespace avx512 {
extern const CodecKernels codec_table;
}
#endif

std::vector<const CodecKernels*> available_codec_kernels() {
  std::vector<const CodecKernels*> all = {&baseline::codec_table};
#ifdef PACELINE_X86
  all.push_back(&avx2::codec_table);
  all.push_back(&avx512::codec_table);
#endif
  all.resize(available_kernels().size());  // the same instruction sets in the same order
  return all;
}

const CodecKernels& codec_kernels() {
  static const CodecKernels& best = *available_codec_kernels().back();
  return best;
}

std::optional<Codec> codec_named(std::string_view name) {
  const auto* const found = std::ranges::find(kCodecNames, name);
  if (found == kCodecNames.end()) return std::nullopt;
  return static_cast<Codec>(found - kCodecNames.begin());
}

bool encodes(Codec codec, DType dtype) noexcept { return codec_kernels().find(codec, dtype).encode != nullptr; }

bool has_fixed_size(Codec codec) noexcept { return codec != Codec::three_in_one && codec != Codec::lossless; }

std::size_t encoded_bound(Codec codec, DType dtype, std::size_t elements) noexcept {
  return elements / kCodecBlock * block_bound(codec, size_of(dtype), kCodecBlock) +
         block_bound(codec, size_of(dtype), elements % kCodecBlock);
}

std::size_t encode(Codec codec, DType dtype, const std::byte* in, std::size_t elements, std::byte* out) noexcept {
  return codec_kernels().find(codec, dtype).encode(in, elements, out);
}

std::size_t encode_with_residual(Codec codec, const std::byte* in, std::byte* residual, std::size_t elements,
                                 std::byte* out) noexcept {
  return codec_kernels().find(codec, DType::float32).encode_with_residual(in, residual, elements, out);
}

bool decode(Codec codec, DType dtype, std::span<const std::byte> in, std::byte* out, std::size_t elements) noexcept {
  return codec_kernels().find(codec, dtype).decode(in.data(), in.size(), out, elements);
}

bool decode_and_add(Codec codec, DType dtype, std::span<const std::byte> in, std::byte* out,
                    std::size_t elements) noexcept {
  return codec_kernels().find(codec, dtype).decode_and_add(in.data(), in.size(), out, elements);
}

}  // namespace paceline
