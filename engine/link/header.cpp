#include "link/header.hpp"

namespace paceline {

std::string describe(const Fingerprint& f, std::uint32_t sequence) {
  std::string text(kCollectiveNames[static_cast<std::size_t>(f.collective)]);
  text += " #" + std::to_string(sequence);
  if (f.collective == Collective::barrier) return text;
  text += ' ';
  text += kDTypeNames[static_cast<std::size_t>(f.dtype)];
  if (f.count != 0) text += '[' + std::to_string(f.count) + ']';
  const bool reduces = f.collective == Collective::all_reduce || f.collective == Collective::reduce ||
                       f.collective == Collective::reduce_scatter;
  if (reduces) {
    text += ' ';
    text += kOpNames[static_cast<std::size_t>(f.op)];
  }
  if (f.root >= 0) text += " root " + std::to_string(f.root);
  if (f.codec != Codec::none) (text += " as ") += kCodecNames[static_cast<std::size_t>(f.codec)];
  return text;
}

bool is_sane(const Header& header) {
  return header.frame <= Frame::answer && header.collective <= Collective::recv && header.dtype <= DType::boolean &&
         header.op <= Op::bxor && static_cast<std::size_t>(header.codec) < kCodecNames.size();
}

}  // namespace paceline
