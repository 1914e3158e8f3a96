#include "coordinator/pending_request.hpp"

#include "coordinator/coordinator.hpp"

namespace paceline {

std::string PendingRequest::description() const {
  if (join) return "join";
  const Fingerprint& f = request->what;
  std::string text(kCollectiveNames[static_cast<std::size_t>(f.collective)]);
  text += " \"" + request->name + '"';
  if (f.collective == Collective::barrier) return text;
  text += ' ';
  text += name_of(f.dtype);
  if (!request->shape.empty()) {
    text += '[' + request->shape + ']';
  } else if (f.count != 0) {
    text += '[' + std::to_string(f.count) + ']';
  }
  if (f.collective == Collective::all_reduce || f.collective == Collective::reduce_scatter) {
    text += ' ';
    text += kOpNames[static_cast<std::size_t>(f.op)];
  }
  if (f.root >= 0) text += " root " + std::to_string(f.root);
  if (request->on_device) text += " on a device";
  if (f.codec != Codec::none) (text += " as ") += kCodecNames[static_cast<std::size_t>(f.codec)];
  return text;
}

std::vector<int> PendingRequest::missing() const { return coordinator.missing(*this); }
std::vector<const Operation*> PendingRequest::parts() const { return coordinator.parts(*this); }

// All ranks compute the same, whatever their libraries do with strings (FNV-1a).
std::uint64_t PendingRequest::number() const {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char letter : tensor()) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
  return hash;
}

void PendingRequest::awaited() { coordinator.awaited(*this); }

}  // namespace paceline
