#include "progress/parking.hpp"

#include <array>

namespace paceline {

void Parking::park(Sleepers::Lock& lock, CpuMeter& meter, bool server) {
  const bool expecting = !operations_.empty() || peers_.any_waiting();
  if (sleepers_.listening()) {
    if (sleepers_.server_listens()) {
      sleepers_.wake_listener();  // peers do not ring for the server while callers wait: a caller takes its place
    } else if (expecting && has_news(meter, server)) {
      return;
    }
    sleepers_.wait_for_listener(lock);
    return;
  }
  if (expecting && has_news(meter, server)) return;
  sockets_.set_interest(!operations_.empty());
  if (expecting) sleepers_.wakeups().set_alarm(deadlines_.next());
  meter.count();
  std::array<epoll_event, 64> events;
  const int ready = sleepers_.listen(lock, events, server, !expecting);
  if (ready > 0) sockets_.handle(std::span(events).first(static_cast<std::size_t>(ready)));
  loop_.poll_links();
  loop_.step_operations(meter);
  deadlines_.check();
  operations_.retire();
}

// Asks peers to ring, then looks around: something may have come before they could know that this rank sleeps.
bool Parking::has_news(CpuMeter& meter, bool server) {
  const bool for_everything =
      operations_.any([](const Operation& operation) { return operation.awaits_acknowledgements(); });
  sleepers_.set_parked(for_everything                    ? Parked::for_everything
                       : server && operations_.patient() ? Parked::for_room
                                                         : Parked::for_news);
  const bool news = loop_.poll_links();
  const bool moved = loop_.step_operations(meter);
  if (!moved && !news) return false;
  sleepers_.set_parked(Parked::no);
  operations_.retire();
  return true;
}

void Parking::leave_to_server(bool work) {
  if (work || !sleepers_.listening()) {
    sleepers_.wake_server();
    return;
  }
  sockets_.set_interest(true);
  // The listener fell asleep with no operation in sight. An alarm will do: to wake it at once would cost a switch.
  if (sleepers_.idle_listener()) sleepers_.wakeups().set_alarm(deadlines_.next());
}

// While something that is not patient is under way, there is a thread that sees to it.
void Parking::leave_queues() {
  if (!peers_.any_waiting() || !operations_.patient()) return;
  if (!sleepers_.listening() || sleepers_.parked() == Parked::no) return sleepers_.wake_server();
  sockets_.set_interest(!operations_.empty());
}

void Parking::leave_patient() {
  if (!sleepers_.listening()) return;  // a server that does not sleep looks around before it does
  sleepers_.let_peers_wake(Parked::for_room);
  loop_.poll_links();
  if (sleepers_.idle_listener()) sleepers_.wakeups().set_alarm(deadlines_.next());
}

}  // namespace paceline
