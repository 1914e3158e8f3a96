// Collectives that move data between ranks and combine nothing, each rank with amounts of its own, and messages between
// two ranks.
#include "program/lower.hpp"
#include "progress/arguments.hpp"
#include "progress/collectives.hpp"

namespace paceline {
namespace {

void check_peer(const Group& group, int peer) {
  check_rank(group, peer, "the peer");
  if (peer == group.rank) throw Failure(ErrorKind::invalid, "a rank cannot send to or receive from itself");
}

std::size_t total(const std::vector<Buffer>& buffers) {
  std::size_t count = 0;
  for (const Buffer& buffer : buffers) count += buffer.count;
  return count;
}

std::vector<Place> places(const std::vector<Buffer>& buffers, DType dtype) {
  std::vector<Place> result;
  result.reserve(buffers.size());
  for (const Buffer& buffer : buffers) {
    check_buffer(buffer.data, buffer.count);
    result.push_back({buffer.data, buffer.count * size_of(dtype)});
  }
  return result;
}

void address(PointToPoint& operation, std::byte* data, std::size_t bytes, int peer, std::int32_t tag) {
  operation.algorithm = "direct";
  operation.data = data;
  operation.bytes = bytes;
  operation.peer = peer;
  operation.tag = tag;
}

}  // namespace

Handle exchange(Engine& engine, Group& group, Collective collective, const std::vector<Buffer>& sends,
                const std::vector<Buffer>& recvs, DType dtype, int root, Mode mode) {
  check_exchange(group, collective, sends, recvs, dtype, root);
  const auto out = places(sends, dtype);
  const auto in = places(recvs, dtype);
  check_blocks_apart(group, collective, out, in, root);
  const std::size_t bytes = (total(sends) + total(recvs)) / 2 * size_of(dtype);
  const Fingerprint what{0, has_root(collective) ? root : -1, collective, dtype, Op::sum};
  if (group.on_one_machine()) {
    return engine.run<SharedExchange>(group, what, bytes, mode, [&](SharedExchange& operation) {
      operation.algorithm = "shared";
      operation.sends = out;
      operation.recvs = in;
    });
  }
  return engine.run<MessageOperation>(group, what, bytes, mode, [&](MessageOperation& operation) {
    operation.algorithm = "direct";
    Lowering(operation.program, group.rank, group.size()).exchange(collective, out, in, root);
  });
}

Handle barrier(Engine& engine, Group& group, Mode mode) {
  const Fingerprint what{0, -1, Collective::barrier, DType::uint8, Op::sum};
  if (group.on_one_machine()) {
    return engine.run<OneShot>(group, what, 0, mode, [](OneShot& operation) { operation.algorithm = "one_shot"; });
  }
  return engine.run<MessageOperation>(group, what, 0, mode, [&](MessageOperation& operation) {
    operation.algorithm = "dissemination";
    Lowering(operation.program, group.rank, group.size()).barrier();
  });
}

Handle send(Engine& engine, Group& group, std::byte* data, std::size_t count, DType dtype, int peer, std::int32_t tag,
            Mode mode) {
  check_peer(group, peer);
  check_buffer(data, count);
  const std::size_t bytes = count * size_of(dtype);
  const Fingerprint what{count, -1, Collective::send, dtype, Op::sum};
  return engine.run<PointToPoint>(group, what, bytes, mode,
                                  [&](PointToPoint& operation) { address(operation, data, bytes, peer, tag); });
}

Handle receive(Engine& engine, Group& group, std::byte* data, std::size_t count, DType dtype, int peer,
               std::int32_t tag, Mode mode, int* sender) {
  if (peer != -1) check_peer(group, peer);
  check_buffer(data, count);
  const std::size_t bytes = count * size_of(dtype);
  const Fingerprint what{count, -1, Collective::recv, dtype, Op::sum};
  return engine.run<PointToPoint>(group, what, bytes, mode, [&](PointToPoint& operation) {
    address(operation, data, bytes, peer, tag);
    operation.sender = sender;
  });
}

// Either message may have to wait for the other, so none is waited for before both are under way.
void send_and_receive(Engine& engine, Group& group, Buffer source, DType sent_as, int to, Buffer target,
                      DType received_as, int from, std::int32_t tag) {
  check_peer(group, from);
  const std::byte* const end_of_source = source.data + source.count * size_of(sent_as);
  const std::byte* const end_of_target = target.data + target.count * size_of(received_as);
  if (source.data < end_of_target && target.data < end_of_source)
    throw Failure(ErrorKind::invalid, "input and output overlap, and what comes would overwrite what is sent");
  const Handle sent = send(engine, group, source.data, source.count, sent_as, to, tag, Mode::async);
  try {
    receive(engine, group, target.data, target.count, received_as, from, tag, Mode::blocking);
  } catch (const Failure&) {
    // Whoever hears of this may free what is sent.
    if (sent != nullptr && !engine.is_over(*sent)) engine.abort(group, "a message of a pair has failed");
    throw;
  }
  if (sent != nullptr) engine.wait(*sent, std::chrono::duration<double>(-1));
}

}  // namespace paceline
