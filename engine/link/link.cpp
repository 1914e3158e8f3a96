#include "link/link.hpp"

namespace paceline {

void Link::acknowledge(const Arrival& offer) {
  Header ack = offer.header;
  ack.frame = Frame::ack;
  ack.length = 0;
  control(ack);
}

}  // namespace paceline
