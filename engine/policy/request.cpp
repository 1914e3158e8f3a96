#include "policy/request.hpp"

#include <cstdio>

namespace paceline {

namespace {

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

}  // namespace

std::string describe(const Request& request) {
  const Fingerprint& what = request.what;
  if (what.collective == Collective::barrier && !request.shape.empty()) return "nothing: " + request.shape;
  std::string text(kCollectiveNames[static_cast<std::size_t>(what.collective)]);
  if (what.collective != Collective::barrier) {
    text += ' ';
    text += name_of(what.dtype);
    if (!request.shape.empty())
      text += ' ' + request.shape;
    else if (what.count != 0)
      text += '[' + std::to_string(what.count) + ']';
  }
  if (what.collective == Collective::all_reduce || what.collective == Collective::reduce_scatter) {
    text += ' ';
    text += kOpNames[static_cast<std::size_t>(what.op)];
  }
  if (what.root >= 0) text += " root " + std::to_string(what.root);
  if (request.on_device) text += " on a device";
  if (what.codec != Codec::none) (text += " as ") += kCodecNames[static_cast<std::size_t>(what.codec)];
  if (request.prescale != 1) text += " prescale " + number(request.prescale);
  if (request.postscale != 1) text += " postscale " + number(request.postscale);
  if (request.bundle.id != 0)
    text += " in bundle " + std::to_string(request.bundle.id) + " of " + std::to_string(request.bundle.size);
  return text;
}

}  // namespace paceline
