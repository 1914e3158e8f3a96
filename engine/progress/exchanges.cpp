#include "progress/exchanges.hpp"

#include "program/lower.hpp"
#include "progress/arguments.hpp"

namespace paceline {
namespace {

void check_peer(const Group& group, int peer) {
  check_rank(group, peer, "the peer");
  if (peer == group.rank) throw Failure(ErrorKind::invalid, "a rank cannot send to or receive from itself");
}

std::size_t total(const std::vector<Elements>& blocks) {
  std::size_t count = 0;
  for (const Elements& block : blocks) count += block.count;
  return count;
}

std::vector<Place> places(const std::vector<Elements>& blocks, DType dtype) {
  std::vector<Place> result;
  result.reserve(blocks.size());
  for (const Elements& block : blocks) {
    check_buffer(block.data, block.count);
    result.push_back({block.data, block.count * size_of(dtype)});
  }
  return result;
}

void address(PointToPoint& operation, const CollectiveCall& call, std::size_t bytes) {
  operation.algorithm = "direct";
  // The operation's type demands memory that it may write to, but it only reads what it sends.
  operation.data = const_cast<std::byte*>(call.given());
  operation.bytes = bytes;
  operation.peer = call.peer;
  operation.tag = call.tag;
}

}  // namespace

Handle exchange(Engine& engine, Group& group, const CollectiveCall& call, Mode mode) {
  check_exchange(group, call);
  const auto out = places(call.sends, call.dtype);
  const auto in = places(call.receives, call.dtype);
  check_blocks_apart(group, call.collective, out, in, call.root);
  const std::size_t bytes = (total(call.sends) + total(call.receives)) / 2 * size_of(call.dtype);
  const Fingerprint what = call.fingerprint();
  if (group.on_one_machine()) {
    return engine.run<SharedExchange>(group, what, bytes, mode, [&](SharedExchange& operation) {
      operation.algorithm = "shared";
      operation.sends = out;
      operation.recvs = in;
    });
  }
  return engine.run<MessageOperation>(group, what, bytes, mode, [&](MessageOperation& operation) {
    operation.algorithm = "direct";
    Lowering(operation.program, group.rank, group.size()).exchange(call.collective, out, in, call.root);
  });
}

Handle barrier(Engine& engine, Group& group, const CollectiveCall& call, Mode mode) {
  const Fingerprint what = call.fingerprint();
  if (group.on_one_machine()) {
    return engine.run<OneShot>(group, what, 0, mode, [](OneShot& operation) { operation.algorithm = "one_shot"; });
  }
  return engine.run<MessageOperation>(group, what, 0, mode, [&](MessageOperation& operation) {
    operation.algorithm = "dissemination";
    Lowering(operation.program, group.rank, group.size()).barrier();
  });
}

Handle send(Engine& engine, Group& group, const CollectiveCall& call, Mode mode) {
  check_peer(group, call.peer);
  check_buffer(call.given(), call.count);
  const std::size_t bytes = call.count * size_of(call.dtype);
  return engine.run<PointToPoint>(group, call.fingerprint(), bytes, mode,
                                  [&](PointToPoint& operation) { address(operation, call, bytes); });
}

Handle receive(Engine& engine, Group& group, const CollectiveCall& call, Mode mode, int* sender) {
  if (call.peer != -1) check_peer(group, call.peer);
  check_buffer(call.target, call.count);
  const std::size_t bytes = call.count * size_of(call.dtype);
  return engine.run<PointToPoint>(group, call.fingerprint(), bytes, mode, [&](PointToPoint& operation) {
    address(operation, call, bytes);
    operation.sender = sender;
  });
}

// Either message may have to wait for the other, so none is waited for before both are under way.
void send_and_receive(Engine& engine, Group& group, const CollectiveCall& sent, const CollectiveCall& received) {
  check_peer(group, received.peer);
  const std::byte* const end_of_source = sent.given() + sent.count * size_of(sent.dtype);
  const std::byte* const end_of_target = received.target + received.count * size_of(received.dtype);
  if (sent.given() < end_of_target && received.target < end_of_source)
    throw Failure(ErrorKind::invalid, "input and output overlap, and what comes would overwrite what is sent");
  const Handle sending = send(engine, group, sent, Mode::async);
  try {
    receive(engine, group, received, Mode::blocking, nullptr);
  } catch (const Failure&) {
    // Whoever hears of this may free what is sent.
    if (sending != nullptr && !engine.is_over(*sending)) engine.abort(group, "a message of a pair has failed");
    throw;
  }
  if (sending != nullptr) engine.wait(*sending, std::chrono::duration<double>(-1));
}

}  // namespace paceline
