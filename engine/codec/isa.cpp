// Compiled once per instruction set (see CMakeLists.txt). Nothing here may be a shared inline function: the linker
// keeps one copy of those, and it could be one that this CPU cannot run.
#include "codec/blocks.hpp"
#include "codec/halves.hpp"
#include "codec/kernels.hpp"

namespace paceline {
namespace {

CodecFunctions find_float32(Codec codec) {
  switch (codec) {
    case Codec::none: return functions<Plain<float>>();
    case Codec::bf16: return functions<Halves<BFloat16>>();
    case Codec::fp16: return functions<Halves<Float16>>();
    default: return {};
  }
}

CodecFunctions find(Codec codec, DType dtype) noexcept {
  if (dtype == DType::float32) return find_float32(codec);
  if (dtype == DType::bfloat16 && codec == Codec::none) return functions<Plain<BFloat16>>();
  return {};
}

}  // namespace

namespace PACELINE_ISA {
extern const CodecKernels codec_table;
#define PACELINE_NAME(x) #x
#define PACELINE_STRING(x) PACELINE_NAME(x)
const CodecKernels codec_table{PACELINE_STRING(PACELINE_ISA), find};
}  // namespace PACELINE_ISA

}  // namespace paceline
