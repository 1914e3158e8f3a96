// Decides how many bytes a stream from another machine may have under way while several share this machine's link.
#pragma once

#include <cstdint>
#include <limits>

namespace paceline {

class Pace {
 public:
  // See Link::set_pace.
  void set(int socket, double least, double most);

 private:
  void hold(int socket, double window);
  void let_go(int socket);

  bool held_ = false;
  std::uint32_t round_trip_us_ = std::numeric_limits<std::uint32_t>::max();  // the shortest one seen
};

}  // namespace paceline
