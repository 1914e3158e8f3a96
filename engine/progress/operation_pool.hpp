// Keeps operations of a group to use them again: to allocate one takes a good part of the time of a small collective.
#pragma once

#include <memory>
#include <tuple>

#include "message/message_operation.hpp"
#include "message/point_to_point.hpp"
#include "shared/leader_all_reduce.hpp"
#include "shared/one_shot.hpp"
#include "shared/shared_all_reduce.hpp"
#include "shared/shared_exchange.hpp"

namespace paceline {

class OperationPool {
 public:
  // Returns an operation of this kind that has not started: the last one, if nobody else holds it, or a new one. The
  // caller holds the engine's lock.
  template <typename Kind>
  std::shared_ptr<Kind> take() {
    auto& last = std::get<std::shared_ptr<Kind>>(last_);
    if (last && last.use_count() == 1) {
      last->reset();
    } else {
      last = std::make_shared<Kind>();
    }
    return last;
  }

 private:
  template <typename... Kinds>
  using LastOfEach = std::tuple<std::shared_ptr<Kinds>...>;

  LastOfEach<MessageOperation, PointToPoint, OneShot, SharedExchange, SharedAllReduce, LeaderAllReduce> last_;
};

}  // namespace paceline
