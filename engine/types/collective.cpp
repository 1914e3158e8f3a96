#include "types/collective.hpp"

namespace paceline {

bool alike(DType one, std::uint64_t count, DType other, std::uint64_t others) {
  if (whole_of(one, count) == whole_of(other, others)) return true;
  const bool unsure = one >= DType::perhaps_parts || other >= DType::perhaps_parts;
  return unsure && parts_of(one, count) == parts_of(other, others);
}

std::string describe(const Fingerprint& f, std::uint32_t sequence) {
  std::string text(kCollectiveNames[static_cast<std::size_t>(f.collective)]);
  text += " #" + std::to_string(sequence);
  if (f.collective == Collective::barrier) return text;
  text += ' ';
  const Numbers whole = whole_of(f.dtype, f.count);
  text += name_of(whole.dtype);
  if (whole.count != 0) text += '[' + std::to_string(whole.count) + ']';
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

}  // namespace paceline
