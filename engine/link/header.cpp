#include "link/header.hpp"

namespace paceline {

bool is_sane(const Header& header) {
  return header.frame <= Frame::time && header.collective <= Collective::recv &&
         unmarked(header.dtype) <= DType::bytes && header.op <= Op::bxor &&
         static_cast<std::size_t>(header.codec) < kCodecNames.size();
}

}  // namespace paceline
