// The names of codecs, which engine/codec carries out.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace paceline {

// The numbers are part of the Python contract.
enum class Codec : std::uint8_t { none, bf16, fp16, three_in_one, int8, int4, lossless };

inline constexpr std::array<std::string_view, 7> kCodecNames = {"none", "bf16", "fp16",    "three_in_one",
                                                                "int8", "int4", "lossless"};

}  // namespace paceline
