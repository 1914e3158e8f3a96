// The image that nvcc made, put among the constants by the assembler. CMake tells the assembler its folder.
#include "device/kernels/launch.hpp"

__asm__(
    ".pushsection .rodata\n"
    ".balign 64\n"
    "paceline_fatbin_begin:\n"
    ".incbin \"kernels.fatbin\"\n"
    "paceline_fatbin_end:\n"
    ".popsection\n");

extern "C" {
__attribute__((visibility("hidden"))) extern const std::byte paceline_fatbin_begin[];
__attribute__((visibility("hidden"))) extern const std::byte paceline_fatbin_end[];
}

namespace paceline::device {

std::span<const std::byte> fatbin() { return {paceline_fatbin_begin, paceline_fatbin_end}; }

}  // namespace paceline::device
