#include "progress/collectives.hpp"

namespace paceline {
namespace {

void check_reduction(DType dtype, Op op) {
  if (supports(dtype, op)) return;
  throw Failure(ErrorKind::invalid, std::string(kOpNames[static_cast<std::size_t>(op)]) + " is not defined for " +
                                        std::string(kDTypeNames[static_cast<std::size_t>(dtype)]));
}

void check_rank(const Group& group, int rank, const char* role) {
  if (rank >= 0 && rank < group.size()) return;
  throw Failure(ErrorKind::invalid, std::string(role) + " must be a rank from 0 to " +
                                        std::to_string(group.size() - 1) + ", got " + std::to_string(rank));
}

void check_peer(const Group& group, int peer) {
  check_rank(group, peer, "the peer");
  if (peer == group.rank) throw Failure(ErrorKind::invalid, "a rank cannot send to or receive from itself");
}

void check_buffer(const void* data, std::size_t count) {
  if (data == nullptr && count > 0) throw Failure(ErrorKind::invalid, "the buffer is null but holds elements");
}

std::size_t total(const std::vector<Buffer>& buffers) {
  std::size_t count = 0;
  for (const Buffer& buffer : buffers) count += buffer.count;
  return count;
}

std::vector<Place> places(const std::vector<Buffer>& buffers, DType dtype) {
  std::vector<Place> result;
  for (const Buffer& buffer : buffers) {
    check_buffer(buffer.data, buffer.count);
    result.push_back({buffer.data, buffer.count * size_of(dtype)});
  }
  return result;
}

}  // namespace

Handle all_reduce(Engine& engine, Group& group, std::byte* data, std::size_t count, DType dtype, Op op, double factor,
                  Mode mode) {
  check_reduction(dtype, op);
  check_buffer(data, count);
  const std::size_t bytes = count * size_of(dtype);
  return engine.run(group, {count, -1, Collective::all_reduce, dtype, op}, bytes, mode, [&](Operation& operation) {
    const Plan& plan = group.plan_for("all_reduce", bytes);
    operation.algorithm = plan.algorithm;
    Lowering(operation.program, group.rank, group.size()).all_reduce(plan, data, count, dtype, op, factor);
  });
}

Handle broadcast(Engine& engine, Group& group, std::byte* data, std::size_t count, DType dtype, int root, Mode mode) {
  check_rank(group, root, "the root");
  check_buffer(data, count);
  const std::size_t bytes = count * size_of(dtype);
  return engine.run(group, {count, root, Collective::broadcast, dtype, Op::sum}, bytes, mode,
                    [&](Operation& operation) {
                      const Plan& plan = group.plan_for("broadcast", bytes);
                      operation.algorithm = plan.algorithm;
                      Lowering(operation.program, group.rank, group.size()).gather_half(plan, data, count, dtype, root);
                    });
}

Handle reduce(Engine& engine, Group& group, std::byte* data, std::size_t count, DType dtype, Op op, double factor,
              int root, Mode mode) {
  check_reduction(dtype, op);
  check_rank(group, root, "the root");
  check_buffer(data, count);
  const std::size_t bytes = count * size_of(dtype);
  return engine.run(group, {count, root, Collective::reduce, dtype, op}, bytes, mode, [&](Operation& operation) {
    operation.algorithm = "direct";
    if (op == Op::premul_sum) operation.scratch.resize(bytes);
    Lowering(operation.program, group.rank, group.size())
        .reduce(data, count, dtype, op, factor, root, operation.scratch.data());
  });
}

Handle all_gather(Engine& engine, Group& group, const std::byte* source, std::byte* data, std::size_t count,
                  DType dtype, Mode mode) {
  check_buffer(source, count);
  check_buffer(data, count);
  const std::size_t bytes = count * size_of(dtype) * static_cast<std::size_t>(group.size());
  return engine.run(group, {count, -1, Collective::all_gather, dtype, Op::sum}, bytes, mode, [&](Operation& operation) {
    const Plan& plan = group.plan_for("all_gather", bytes);
    operation.algorithm = plan.algorithm;
    Lowering(operation.program, group.rank, group.size()).all_gather(plan, source, data, count, dtype);
  });
}

Handle reduce_scatter(Engine& engine, Group& group, const std::byte* source, std::byte* to, std::size_t count,
                      DType dtype, Op op, double factor, Mode mode) {
  check_reduction(dtype, op);
  check_buffer(source, count);
  check_buffer(to, count);
  const std::size_t bytes = count * size_of(dtype) * static_cast<std::size_t>(group.size());
  return engine.run(group, {count, -1, Collective::reduce_scatter, dtype, op}, bytes, mode, [&](Operation& operation) {
    operation.algorithm = "direct";
    if (op == Op::premul_sum) operation.scratch.resize(bytes);
    Lowering(operation.program, group.rank, group.size())
        .reduce_scatter(source, to, count, dtype, op, factor, operation.scratch.data());
  });
}

Handle exchange(Engine& engine, Group& group, Collective collective, const std::vector<Buffer>& sends,
                const std::vector<Buffer>& recvs, DType dtype, int root, Mode mode) {
  const bool rooted = collective == Collective::gather || collective == Collective::scatter;
  if (!rooted && collective != Collective::all_gather && collective != Collective::all_to_all)
    throw Failure(ErrorKind::invalid, "exchange serves all_gather, gather, scatter and all_to_all");
  if (rooted) check_rank(group, root, "the root");
  const auto size = static_cast<std::size_t>(group.size());
  if (sends.size() != size || recvs.size() != size)
    throw Failure(ErrorKind::invalid, "an exchange needs one buffer per rank, got " + std::to_string(sends.size()) +
                                          " to send and " + std::to_string(recvs.size()) +
                                          " to receive in a group of " + std::to_string(size));
  const auto out = places(sends, dtype);
  const auto in = places(recvs, dtype);
  const auto me = static_cast<std::size_t>(group.rank);
  const bool keeps_own = !rooted || group.rank == root;
  if (keeps_own && out[me].bytes != in[me].bytes)
    throw Failure(ErrorKind::invalid, "this rank sends itself " + std::to_string(out[me].bytes) +
                                          " bytes but expects " + std::to_string(in[me].bytes));
  const std::size_t bytes = (total(sends) + total(recvs)) / 2 * size_of(dtype);
  return engine.run(group, {0, rooted ? root : -1, collective, dtype, Op::sum}, bytes, mode, [&](Operation& operation) {
    operation.algorithm = "direct";
    Lowering(operation.program, group.rank, group.size()).exchange(collective, out, in, root);
  });
}

Handle barrier(Engine& engine, Group& group, Mode mode) {
  return engine.run(group, {0, -1, Collective::barrier, DType::uint8, Op::sum}, 0, mode, [&](Operation& operation) {
    operation.algorithm = "dissemination";
    Lowering(operation.program, group.rank, group.size()).barrier();
  });
}

Handle send(Engine& engine, Group& group, std::byte* data, std::size_t count, DType dtype, int peer, std::int32_t tag,
            Mode mode) {
  check_peer(group, peer);
  check_buffer(data, count);
  const std::size_t bytes = count * size_of(dtype);
  return engine.run(group, {count, -1, Collective::send, dtype, Op::sum}, bytes, mode, [&](Operation& operation) {
    operation.algorithm = "direct";
    Lowering(operation.program, group.rank, group.size()).send(data, bytes, peer, tag);
  });
}

Handle receive(Engine& engine, Group& group, std::byte* data, std::size_t count, DType dtype, int peer,
               std::int32_t tag, Mode mode) {
  if (peer != -1) check_peer(group, peer);
  check_buffer(data, count);
  const std::size_t bytes = count * size_of(dtype);
  return engine.run(group, {count, -1, Collective::recv, dtype, Op::sum}, bytes, mode, [&](Operation& operation) {
    operation.algorithm = "direct";
    Lowering(operation.program, group.rank, group.size()).receive(data, bytes, peer, tag);
  });
}

}  // namespace paceline
