#include "progress/collectives.hpp"

#include <cstring>

#include "calibration/messages.hpp"
#include "program/lower.hpp"
#include "program/lower_trees.hpp"
#include "progress/arguments.hpp"

namespace paceline {
namespace {

Fold fold_of(const Group& group, DType dtype, Op op) {
  return {dtype, op == Op::avg || op == Op::premul_sum ? Op::sum : op,
          op == Op::avg ? static_cast<double>(group.size()) : 1.0};
}

// Turns elements into the numbers that they consist of.
void take_apart(DType& dtype, std::size_t& count) {
  const Numbers parts = parts_of(dtype, count);
  dtype = parts.dtype;
  count = parts.count;
}

// Sets what this rank shows the others in one shot. All ranks give the same `bytes`, even one that shows nothing.
void give(OneShot& operation, const std::byte* data, std::size_t bytes, Op op = Op::sum, double factor = 1) {
  operation.algorithm = "one_shot";
  operation.given = data;
  operation.given_bytes = bytes;
  operation.factor = op == Op::premul_sum ? factor : 1;
}

void combine(const Group& group, OneShot& operation, std::byte* to, std::size_t offset, std::size_t bytes, DType dtype,
             Op op) {
  operation.take = OneShot::Take::combined;
  operation.to = to;
  operation.offset = offset;
  operation.bytes = bytes;
  operation.fold = fold_of(group, dtype, op);
}

// Returns whether a collective goes in one shot if every rank shows `bytes`.
bool in_one_shot(const Group& group, const Plan& plan, std::size_t bytes) {
  return group.on_one_machine() && plan.one_shot && bytes <= kOneShotBytes;
}

bool in_one_pass(const Group& group, const Plan& plan, std::size_t bytes) {
  return group.on_one_machine() && bytes > 0 && plan.one_pass(group.size());
}

bool is_led(const Plan& plan, std::size_t bytes) {
  return plan.leader >= 0 && bytes <= kOneShotBytes && plan.chunks(bytes).count == 1;
}

void lead(const Group& group, const Plan& plan, LeaderAllReduce& operation, const std::byte* source, std::byte* to,
          std::size_t count, DType dtype, Op op, double factor) {
  const std::size_t bytes = count * size_of(dtype);
  const Op plain = op == Op::avg || op == Op::premul_sum ? Op::sum : op;
  operation.algorithm = plan.algorithm;
  operation.leads = group.rank == plan.leader;
  OneShot& gathering = operation.gathering;
  OneShot& showing = operation.showing;
  give(gathering, source, bytes, op, factor);
  give(showing, operation.leads ? to : nullptr, bytes);
  gathering.root = showing.root = group.segment->place_of(plan.leader);
  gathering.everybody = operation.leads;
  showing.everybody = false;
  if (operation.leads) {
    combine(group, gathering, to, 0, bytes, dtype, plain);
    Lowering(operation.between.program, group.rank, group.size())
        .all_reduce(plan, to, count, dtype, op == Op::premul_sum ? Op::sum : op, 1, 1);
  } else {
    showing.take = OneShot::Take::roots;
    showing.to = to;
    showing.bytes = bytes;
  }
}

// How the messages of a collective are encoded.
Coding coding_of(const Group& group, const Wanted& wanted, Collective collective, const Plan& plan, std::size_t bytes,
                 DType dtype, Op op) {
  const Codec codec = codec_for(group, wanted, collective, bytes, dtype, op);
  if (codec == Codec::none || plan.one_shot) return {};
  return {codec, group.machines, wanted.residual};
}

// Runs an exchange in which each rank fetches its data from where the others have them.
template <typename Build>
Handle share(Engine& engine, Group& group, const Fingerprint& what, std::size_t bytes, Mode mode, Build&& build) {
  return engine.run<SharedExchange>(group, what, bytes, mode, [&](SharedExchange& operation) {
    operation.algorithm = "shared";
    build(operation);
  });
}

}  // namespace

std::string cannot_encode(Codec codec, DType dtype, Op op) {
  const bool sums = op == Op::sum || op == Op::avg || op == Op::premul_sum;
  if (sums && encodes(codec, dtype)) return {};
  return std::string(kCodecNames[static_cast<std::size_t>(codec)]) + " encodes sums and means of float32, not " +
         std::string(kOpNames[static_cast<std::size_t>(op)]) + " of " + std::string(name_of(dtype));
}

Codec codec_for(const Group& group, const Wanted& wanted, Collective collective, std::size_t bytes, DType dtype,
                Op op) {
  const Codec usual = collective == Collective::all_reduce && bytes >= group.coded_from ? group.codec : Codec::none;
  const Codec codec = wanted.codec.value_or(usual);
  if (codec == Codec::none) return codec;
  if (const std::string why = cannot_encode(codec, dtype, op); !why.empty()) {
    if (!wanted.codec) return Codec::none;
    throw Failure(ErrorKind::invalid, why);
  }
  if (wanted.residual != nullptr && dtype != DType::float32)
    throw Failure(ErrorKind::invalid,
                  std::string("a residual keeps what is lost of float32, not of ") + std::string(name_of(dtype)));
  return group.machines.empty() || bytes < calibration::kEncodedFrom ? Codec::none : codec;
}

Handle all_reduce(Engine& engine, Group& group, const std::byte* source, std::byte* to, std::size_t count, DType dtype,
                  Op op, double factor, Mode mode, const Wanted& wanted) {
  check_reduction(dtype, op);
  check_buffer(source, count);
  check_buffer(to, count);
  const std::size_t bytes = count * size_of(dtype);
  check_apart(source, to, bytes);
  const Plan& plan = group.plan_for("all_reduce", bytes);
  Fingerprint what{count, -1, Collective::all_reduce, dtype, op};
  take_apart(dtype, count);
  const Coding coding = coding_of(group, wanted, Collective::all_reduce, plan, bytes, dtype, op);
  what.codec = coding.codec;
  if (in_one_shot(group, plan, bytes)) {
    return engine.run<OneShot>(group, what, bytes, mode, [&](OneShot& operation) {
      give(operation, source, bytes, op, factor);
      combine(group, operation, to, 0, bytes, dtype, op);
    });
  }
  if (in_one_pass(group, plan, bytes)) {
    return engine.run<SharedAllReduce>(group, what, bytes, mode, [&](SharedAllReduce& operation) {
      operation.source = source;
      operation.to = to;
      operation.bytes = bytes;
      operation.factor = op == Op::premul_sum ? factor : 1;
      operation.fold = fold_of(group, dtype, op);
    });
  }
  if (is_led(plan, bytes) && !coding.encodes()) {
    return engine.run<LeaderAllReduce>(group, what, bytes, mode, [&](LeaderAllReduce& operation) {
      lead(group, plan, operation, source, to, count, dtype, op, factor);
    });
  }
  if (engine.host().inherited()) engine.refuse_child();
  if (source != to && count > 0) std::memcpy(to, source, bytes);  // a network is slower than this
  return engine.run<MessageOperation>(group, what, bytes, mode, [&](MessageOperation& operation) {
    operation.algorithm = plan.algorithm;
    Lowering(operation.program, group.rank, group.size(), coding).all_reduce(plan, to, count, dtype, op, factor);
  });
}

Handle all_reduce_between(Engine& engine, Group& group, const Plan& between, std::byte* data, std::size_t count,
                          DType dtype, Op op, Mode mode, const Wanted& wanted) {
  const std::size_t bytes = count * size_of(dtype);
  const Coding coding = coding_of(group, wanted, Collective::all_reduce, between, bytes, dtype, op);
  const Fingerprint what{count, -1, Collective::all_reduce, dtype, op, coding.codec};
  return engine.run<MessageOperation>(group, what, bytes, mode, [&](MessageOperation& operation) {
    operation.algorithm = between.algorithm;
    Lowering(operation.program, group.rank, group.size(), coding).all_reduce(between, data, count, dtype, op, 1);
  });
}

std::size_t pieces_between(const Group& group, const Plan& between, std::size_t count, DType dtype, Op op,
                           const Wanted& wanted) {
  const std::size_t bytes = count * size_of(dtype);
  return between.chunks(coding_of(group, wanted, Collective::all_reduce, between, bytes, dtype, op).carried(bytes))
      .count;
}

bool begins_together(const Group& group, std::size_t bytes) {
  const Plan& plan = group.plan_for("all_reduce", bytes);
  return in_one_shot(group, plan, bytes) || in_one_pass(group, plan, bytes);
}

Handle broadcast(Engine& engine, Group& group, std::byte* data, std::size_t count, DType dtype, int root, Mode mode,
                 const Wanted& wanted) {
  check_rank(group, root, "the root");
  check_buffer(data, count);
  const std::size_t bytes = count * size_of(dtype);
  // In a network it matters where a rank is, and none can stand in for another.
  const bool turned = root != 0 && group.plans.contains("turned_broadcast");
  const Plan& plan = group.plan_for(turned ? "turned_broadcast" : "broadcast", bytes);
  Fingerprint what{count, root, Collective::broadcast, dtype, Op::sum};
  take_apart(dtype, count);
  const Coding coding = coding_of(group, wanted, Collective::broadcast, plan, bytes, dtype, Op::sum);
  what.codec = coding.codec;
  if (in_one_shot(group, plan, bytes)) {
    return engine.run<OneShot>(group, what, bytes, mode, [&](OneShot& operation) {
      give(operation, group.rank == root ? data : nullptr, bytes);
      operation.everybody = false;
      operation.root = root;
      operation.take = group.rank == root ? OneShot::Take::nothing : OneShot::Take::roots;
      operation.to = data;
      operation.bytes = bytes;
    });
  }
  if (group.on_one_machine() && plan.one_pass(group.size())) {
    return share(engine, group, what, bytes, mode, [&](SharedExchange& operation) {
      operation.sends.assign(static_cast<std::size_t>(group.size()), {data, bytes});
      operation.recvs = operation.sends;
    });
  }
  return engine.run<MessageOperation>(group, what, bytes, mode, [&](MessageOperation& operation) {
    operation.algorithm = plan.algorithm;
    if (turned) {
      TreeLowering(operation.program, group.rank, group.size(), coding).broadcast(plan, data, count, dtype, root);
    } else {
      Lowering(operation.program, group.rank, group.size(), coding).broadcast(plan, data, count, dtype, root);
    }
  });
}

Handle reduce(Engine& engine, Group& group, std::byte* data, std::size_t count, DType dtype, Op op, double factor,
              int root, Mode mode) {
  check_reduction(dtype, op);
  check_rank(group, root, "the root");
  check_buffer(data, count);
  const std::size_t bytes = count * size_of(dtype);
  const Fingerprint what{count, root, Collective::reduce, dtype, op};
  take_apart(dtype, count);
  if (group.on_one_machine() && bytes <= group.one_shot_limit()) {
    return engine.run<OneShot>(group, what, bytes, mode, [&](OneShot& operation) {
      give(operation, data, bytes, op, factor);
      operation.everybody = group.rank == root;
      operation.root = root;
      if (group.rank == root) combine(group, operation, data, 0, bytes, dtype, op);
    });
  }
  return engine.run<MessageOperation>(group, what, bytes, mode, [&](MessageOperation& operation) {
    // Between machines all copies would cross the root's link.
    if (bytes > calibration::kReducedAtOnce && group.plans.contains("turned_broadcast")) {
      const Plan& tree = group.plan_for(root == 0 ? "broadcast" : "turned_broadcast", bytes);
      operation.algorithm = tree.algorithm;
      const auto scratch = operation.scratch(TreeLowering::scratch_bytes(tree, count, dtype));
      return TreeLowering(operation.program, group.rank, group.size())
          .reduce(tree, data, count, dtype, op, factor, root, scratch);
    }
    operation.algorithm = "direct";
    const auto scratch = operation.scratch(op == Op::premul_sum ? bytes : 0);
    Lowering(operation.program, group.rank, group.size()).reduce(data, count, dtype, op, factor, root, scratch);
  });
}

Handle all_gather(Engine& engine, Group& group, const std::byte* source, std::byte* data, std::size_t count,
                  DType dtype, Mode mode, const Wanted& wanted) {
  check_buffer(source, count);
  check_buffer(data, count);
  check_part(group, source, data, count * size_of(dtype));
  const std::size_t bytes = count * size_of(dtype) * static_cast<std::size_t>(group.size());
  const Plan& plan = group.plan_for("all_gather", bytes);
  Fingerprint what{count, -1, Collective::all_gather, dtype, Op::sum};
  take_apart(dtype, count);
  const Coding coding = coding_of(group, wanted, Collective::all_gather, plan, bytes, dtype, Op::sum);
  what.codec = coding.codec;
  if (in_one_shot(group, plan, count * size_of(dtype))) {
    return engine.run<OneShot>(group, what, bytes, mode, [&](OneShot& operation) {
      const std::size_t part = count * size_of(dtype);
      give(operation, source, part);
      operation.take = OneShot::Take::everything;
      operation.to = data;
      operation.bytes = part;
    });
  }
  if (group.on_one_machine() && plan.one_pass(group.size())) {
    return share(engine, group, what, bytes, mode, [&](SharedExchange& operation) {
      const auto ranks = static_cast<std::size_t>(group.size());
      const std::size_t part = count * size_of(dtype);
      // The operation's type demands a source that it may write to, but it does not write.
      operation.sends.assign(ranks, {const_cast<std::byte*>(source), part});
      for (std::size_t rank = 0; rank < ranks; ++rank) operation.recvs.push_back({data + rank * part, part});
    });
  }
  return engine.run<MessageOperation>(group, what, bytes, mode, [&](MessageOperation& operation) {
    operation.algorithm = plan.algorithm;
    Lowering(operation.program, group.rank, group.size(), coding).all_gather(plan, source, data, count, dtype);
  });
}

Handle reduce_scatter(Engine& engine, Group& group, const std::byte* source, std::byte* to, std::size_t count,
                      DType dtype, Op op, double factor, Mode mode, const Wanted& wanted) {
  check_reduction(dtype, op);
  check_buffer(source, count);
  check_buffer(to, count);
  check_part(group, to, source, count * size_of(dtype));
  const std::size_t bytes = count * size_of(dtype) * static_cast<std::size_t>(group.size());
  const Plan& plan = group.plan_for("all_gather", bytes);
  Fingerprint what{count, -1, Collective::reduce_scatter, dtype, op};
  take_apart(dtype, count);
  const Coding coding = coding_of(group, wanted, Collective::reduce_scatter, plan, bytes, dtype, op);
  what.codec = coding.codec;
  if (group.on_one_machine() && bytes <= group.one_shot_limit()) {
    return engine.run<OneShot>(group, what, bytes, mode, [&](OneShot& operation) {
      const std::size_t part = count * size_of(dtype);
      give(operation, source, bytes, op, factor);
      combine(group, operation, to, static_cast<std::size_t>(group.rank) * part, part, dtype, op);
    });
  }
  return engine.run<MessageOperation>(group, what, bytes, mode, [&](MessageOperation& operation) {
    operation.algorithm = plan.levels.size() <= 1 ? "direct" : plan.algorithm;
    const auto scratch = operation.scratch(Lowering::scratch_bytes(plan, count, dtype, op, group.size()));
    Lowering(operation.program, group.rank, group.size(), coding)
        .reduce_scatter(plan, source, to, count, dtype, op, factor, scratch);
  });
}

}  // namespace paceline
