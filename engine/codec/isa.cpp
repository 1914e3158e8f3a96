// Compiled once per instruction set (see CMakeLists.txt). Nothing here may be a shared inline function: the linker
// keeps one copy of those, and it could be one that this CPU cannot run.
#include "codec/blocks.hpp"
#include "codec/halves.hpp"
#include "codec/integers.hpp"
#include "codec/kernels.hpp"
#include "codec/lossless.hpp"
#include "codec/plain.hpp"
#include "codec/three_in_one.hpp"

namespace paceline {
namespace {

CodecFunctions find_float32(Codec codec) {
  switch (codec) {
    case Codec::none: return functions<Plain<float>>();
    case Codec::bf16: return functions<Halves<BFloat16>>();
    case Codec::fp16: return functions<Halves<Float16>>();
    case Codec::three_in_one: return functions<ThreeInOne>();
    case Codec::int8: return functions<Integers<Codec::int8, 8>>();
    case Codec::int4: return functions<Integers<Codec::int4, 4>>();
    case Codec::lossless: return functions<Lossless<float>>();
  }
  return {};
}

CodecFunctions find_bfloat16(Codec codec) {
  switch (codec) {
    case Codec::none: return functions<Plain<BFloat16>>();
    case Codec::lossless: return functions<Lossless<BFloat16>>();
    default: return {};
  }
}

CodecFunctions find(Codec codec, DType dtype) noexcept {
  switch (dtype) {
    case DType::float32: return find_float32(codec);
    case DType::bfloat16: return find_bfloat16(codec);
    default: return {};
  }
}

}  // namespace

namespace PACELINE_ISA {
extern const CodecKernels codec_table;
#define PACELINE_NAME(x) #x
#define PACELINE_STRING(x) PACELINE_NAME(x)
const CodecKernels codec_table{PACELINE_STRING(PACELINE_ISA), find};
}  // namespace PACELINE_ISA

}  // namespace paceline
