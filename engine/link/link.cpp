#include "link/link.hpp"

#include <cstring>

#include "calibration/messages.hpp"
#include "kernel/streaming.hpp"

namespace paceline {

int Link::read(const Arrival& offer, std::size_t offset, std::byte* to, std::size_t size) {
  if (offer.view == nullptr) return read(offer.address + offset, to, size);
  if (offer.header.length >= calibration::kLeastStreamedMessage) {
    stream(to, offer.view + offset, size);
  } else {
    std::memcpy(to, offer.view + offset, size);
  }
  return 0;
}

void Link::acknowledge(const Arrival& offer) {
  Header ack = offer.header;
  ack.frame = Frame::ack;
  ack.length = 0;
  control(ack);
}

}  // namespace paceline
