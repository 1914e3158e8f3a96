#pragma once

namespace paceline::tensorflow {

// Registers the kernel of an op on the CPU. in_place: its first outputs are its inputs, of which each is changed.
void register_kernel(const char* op, bool in_place);

}  // namespace paceline::tensorflow
