// The codecs, for Python.
#include "codec/codec.hpp"

#include <nanobind/stl/string.h>

#include <span>
#include <string>

#include "python/bindings.hpp"

namespace paceline {
namespace {

Codec codec_for(int number, DType dtype) {
  if (number < 0 || number >= static_cast<int>(kCodecNames.size()))
    throw Failure(ErrorKind::invalid, "no such codec: " + std::to_string(number));
  const auto codec = static_cast<Codec>(number);
  if (!encodes(codec, dtype))
    throw Failure(ErrorKind::invalid, "the codec " + std::string(kCodecNames[static_cast<std::size_t>(number)]) +
                                          " does not take " + std::string(name_of(dtype)));
  return codec;
}

std::span<const std::byte> bytes_at(Address address, std::size_t bytes) { return {memory(address), bytes}; }

}  // namespace

using namespace nb::literals;

void bind_codec(nb::module_& m) {
  nb::dict codecs;
  for (std::size_t i = 0; i < kCodecNames.size(); ++i) codecs[nb::str(kCodecNames[i].data())] = i;
  m.attr("CODECS") = codecs;
  m.attr("CODEC_BLOCK") = kCodecBlock;

  m.def(
      "encodes",
      [](int codec, int dtype) {
        return codec >= 0 && codec < static_cast<int>(kCodecNames.size()) &&
               encodes(static_cast<Codec>(codec), dtype_of(dtype));
      },
      "codec"_a, "dtype"_a);
  m.def(
      "encoded_bound",
      [](int codec, int dtype, std::size_t elements) {
        return encoded_bound(codec_for(codec, dtype_of(dtype)), dtype_of(dtype), elements);
      },
      "codec"_a, "dtype"_a, "elements"_a);
  m.def(
      "encode",
      [](int codec, int dtype, Address in, std::size_t elements, Address out) {
        return encode(codec_for(codec, dtype_of(dtype)), dtype_of(dtype), memory(in), elements, memory(out));
      },
      "codec"_a, "dtype"_a, "in_"_a, "elements"_a, "out"_a, Release());
  m.def(
      "encode_with_residual",
      [](int codec, Address in, Address residual, std::size_t elements, Address out) {
        return encode_with_residual(codec_for(codec, DType::float32), memory(in), memory(residual), elements,
                                    memory(out));
      },
      "codec"_a, "in_"_a, "residual"_a, "elements"_a, "out"_a, Release());
  m.def(
      "decode",
      [](int codec, int dtype, Address in, std::size_t bytes, Address out, std::size_t elements) {
        const Codec known = codec_for(codec, dtype_of(dtype));
        return decode(known, dtype_of(dtype), bytes_at(in, bytes), memory(out), elements);
      },
      "codec"_a, "dtype"_a, "in_"_a, "bytes"_a, "out"_a, "elements"_a, Release());
  m.def(
      "decode_and_add",
      [](int codec, int dtype, Address in, std::size_t bytes, Address out, std::size_t elements) {
        const Codec known = codec_for(codec, dtype_of(dtype));
        return decode_and_add(known, dtype_of(dtype), bytes_at(in, bytes), memory(out), elements);
      },
      "codec"_a, "dtype"_a, "in_"_a, "bytes"_a, "out"_a, "elements"_a, Release());
}

}  // namespace paceline
