#include "progress/collectives.hpp"

#include <cstring>

#include "calibration/messages.hpp"
#include "program/lower.hpp"
#include "program/lower_trees.hpp"
#include "progress/arguments.hpp"
#include "progress/exchanges.hpp"

namespace paceline {
namespace {

Fold fold_of(const Group& group, DType dtype, Op op) {
  return {dtype, op == Op::avg || op == Op::premul_sum ? Op::sum : op,
          op == Op::avg ? static_cast<double>(group.size()) : 1.0};
}

// Sets what this rank shows the others in one shot. All ranks give the same `bytes`, even one that shows nothing.
void give(OneShot& operation, const std::byte* data, std::size_t bytes, double factor = 1) {
  operation.algorithm = "one_shot";
  operation.given = data;
  operation.given_bytes = bytes;
  operation.factor = factor;
}

void combine(OneShot& operation, std::byte* to, std::size_t offset, std::size_t bytes, const Fold& fold) {
  operation.take = OneShot::Take::combined;
  operation.to = to;
  operation.offset = offset;
  operation.bytes = bytes;
  operation.fold = fold;
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

// A call that has been checked: what it comes to in its group.
struct Checked {
  const CollectiveCall& call;
  const Plan& plan;
  Numbers block;      // as kernels take them
  std::size_t part;   // bytes of a block
  std::size_t bytes;  // of all ranks' blocks
  Fingerprint what;
  Coding coding;

  double factor() const { return call.op == Op::premul_sum ? call.factor : 1; }
};

// How the messages of a collective are encoded.
Coding coding_of(const Group& group, const CollectiveCall& call, const Plan& plan, std::size_t bytes) {
  const Codec codec = codec_for(group, call, bytes);
  if (codec == Codec::none || plan.one_shot) return {};
  return {codec, group.machines, call.residual};
}

Checked check(const Group& group, const CollectiveCall& call, const char* plan_name) {
  if (call.combines()) check_reduction(call.dtype, call.op);
  if (call.has_root()) check_rank(group, call.root, "the root");
  check_buffer(call.given(), call.count);
  check_buffer(call.target, call.count);
  const std::size_t part = call.count * size_of(call.dtype);
  const std::size_t bytes = bytes_of(group, call);
  const Plan& plan = group.plan_for(plan_name, bytes);
  Checked found{call, plan, parts_of(call.dtype, call.count), part, bytes, call.fingerprint(), {}};
  found.coding = coding_of(group, call, plan, bytes);
  found.what.codec = found.coding.codec;
  return found;
}

// Runs an exchange in which each rank fetches its data from where the others have them.
template <typename Build>
Handle share(Engine& engine, Group& group, const Checked& c, Mode mode, Build&& build) {
  return engine.run<SharedExchange>(group, c.what, c.bytes, mode, [&](SharedExchange& operation) {
    operation.algorithm = "shared";
    build(operation);
  });
}

void lead(const Group& group, const Checked& c, LeaderAllReduce& operation) {
  const auto& [call, plan, block, part, bytes, what, coding] = c;
  const Op plain = call.op == Op::avg || call.op == Op::premul_sum ? Op::sum : call.op;
  operation.algorithm = plan.algorithm;
  operation.leads = group.rank == plan.leader;
  OneShot& gathering = operation.gathering;
  OneShot& showing = operation.showing;
  give(gathering, call.given(), bytes, c.factor());
  give(showing, operation.leads ? call.target : nullptr, bytes);
  gathering.root = showing.root = group.segment->place_of(plan.leader);
  gathering.everybody = operation.leads;
  showing.everybody = false;
  if (operation.leads) {
    combine(gathering, call.target, 0, bytes, fold_of(group, block.dtype, plain));
    Lowering(operation.between.program, group.rank, group.size())
        .all_reduce(plan, call.target, block.count, block.dtype, call.op == Op::premul_sum ? Op::sum : call.op, 1, 1);
  } else {
    showing.take = OneShot::Take::roots;
    showing.to = call.target;
    showing.bytes = bytes;
  }
}

Handle all_reduce(Engine& engine, Group& group, const CollectiveCall& call, Mode mode) {
  check_apart(call.given(), call.target, call.count * size_of(call.dtype));
  const Checked c = check(group, call, "all_reduce");
  const auto& [unused, plan, block, part, bytes, what, coding] = c;
  if (in_one_shot(group, plan, bytes)) {
    return engine.run<OneShot>(group, what, bytes, mode, [&](OneShot& operation) {
      give(operation, call.given(), bytes, c.factor());
      combine(operation, call.target, 0, bytes, fold_of(group, block.dtype, call.op));
    });
  }
  if (in_one_pass(group, plan, bytes)) {
    return engine.run<SharedAllReduce>(group, what, bytes, mode, [&](SharedAllReduce& operation) {
      operation.source = call.given();
      operation.to = call.target;
      operation.bytes = bytes;
      operation.factor = c.factor();
      operation.fold = fold_of(group, block.dtype, call.op);
    });
  }
  if (is_led(plan, bytes) && !coding.encodes()) {
    return engine.run<LeaderAllReduce>(group, what, bytes, mode,
                                       [&](LeaderAllReduce& operation) { lead(group, c, operation); });
  }
  if (engine.host().inherited()) engine.refuse_child();
  if (call.given() != call.target && call.count > 0)
    std::memcpy(call.target, call.given(), bytes);  // a network is slower than this
  return engine.run<MessageOperation>(group, what, bytes, mode, [&](MessageOperation& operation) {
    operation.algorithm = plan.algorithm;
    Lowering(operation.program, group.rank, group.size(), coding)
        .all_reduce(plan, call.target, block.count, block.dtype, call.op, call.factor);
  });
}

// In a network it matters where a rank is, and none can stand in for another.
bool is_turned(const Group& group, const CollectiveCall& call) {
  return call.root != 0 && group.plans.contains("turned_broadcast");
}

Handle broadcast(Engine& engine, Group& group, const CollectiveCall& call, Mode mode) {
  const bool turned = is_turned(group, call);
  const Checked c = check(group, call, turned ? "turned_broadcast" : "broadcast");
  const auto& [unused, plan, block, part, bytes, what, coding] = c;
  const bool is_root = group.rank == call.root;
  if (in_one_shot(group, plan, bytes)) {
    return engine.run<OneShot>(group, what, bytes, mode, [&](OneShot& operation) {
      give(operation, is_root ? call.target : nullptr, bytes);
      operation.everybody = false;
      operation.root = call.root;
      operation.take = is_root ? OneShot::Take::nothing : OneShot::Take::roots;
      operation.to = call.target;
      operation.bytes = bytes;
    });
  }
  if (group.on_one_machine() && plan.one_pass(group.size())) {
    return share(engine, group, c, mode, [&](SharedExchange& operation) {
      operation.sends.assign(static_cast<std::size_t>(group.size()), {call.target, bytes});
      operation.recvs = operation.sends;
    });
  }
  return engine.run<MessageOperation>(group, what, bytes, mode, [&](MessageOperation& operation) {
    operation.algorithm = plan.algorithm;
    if (turned) {
      TreeLowering(operation.program, group.rank, group.size(), coding)
          .broadcast(plan, call.target, block.count, block.dtype, call.root);
    } else {
      Lowering(operation.program, group.rank, group.size(), coding)
          .broadcast(plan, call.target, block.count, block.dtype, call.root);
    }
  });
}

Handle reduce(Engine& engine, Group& group, const CollectiveCall& call, Mode mode) {
  const Checked c = check(group, call, is_turned(group, call) ? "turned_broadcast" : "broadcast");
  const auto& [unused, tree, block, part, bytes, what, coding] = c;
  if (group.on_one_machine() && bytes <= group.one_shot_limit()) {
    return engine.run<OneShot>(group, what, bytes, mode, [&](OneShot& operation) {
      give(operation, call.target, bytes, c.factor());
      operation.everybody = group.rank == call.root;
      operation.root = call.root;
      if (operation.everybody) combine(operation, call.target, 0, bytes, fold_of(group, block.dtype, call.op));
    });
  }
  return engine.run<MessageOperation>(group, what, bytes, mode, [&](MessageOperation& operation) {
    // Between machines all copies would cross the root's link.
    if (bytes > calibration::kReducedAtOnce && group.plans.contains("turned_broadcast")) {
      operation.algorithm = tree.algorithm;
      const auto scratch = operation.scratch(TreeLowering::scratch_bytes(tree, block.count, block.dtype));
      return TreeLowering(operation.program, group.rank, group.size())
          .reduce(tree, call.target, block.count, block.dtype, call.op, call.factor, call.root, scratch);
    }
    operation.algorithm = "direct";
    const auto scratch = operation.scratch(call.op == Op::premul_sum ? bytes : 0);
    Lowering(operation.program, group.rank, group.size())
        .reduce(call.target, block.count, block.dtype, call.op, call.factor, call.root, scratch);
  });
}

Handle all_gather(Engine& engine, Group& group, const CollectiveCall& call, Mode mode) {
  check_buffer(call.source, call.count);
  check_part(group, call.source, call.target, call.count * size_of(call.dtype));
  const Checked c = check(group, call, "all_gather");
  const auto& [unused, plan, block, part, bytes, what, coding] = c;
  if (in_one_shot(group, plan, part)) {
    return engine.run<OneShot>(group, what, bytes, mode, [&](OneShot& operation) {
      give(operation, call.source, part);
      operation.take = OneShot::Take::everything;
      operation.to = call.target;
      operation.bytes = part;
    });
  }
  if (group.on_one_machine() && plan.one_pass(group.size())) {
    return share(engine, group, c, mode, [&](SharedExchange& operation) {
      const auto ranks = static_cast<std::size_t>(group.size());
      // The operation's type demands a source that it may write to, but it does not write.
      operation.sends.assign(ranks, {const_cast<std::byte*>(call.source), part});
      for (std::size_t rank = 0; rank < ranks; ++rank) operation.recvs.push_back({call.target + rank * part, part});
    });
  }
  return engine.run<MessageOperation>(group, what, bytes, mode, [&](MessageOperation& operation) {
    operation.algorithm = plan.algorithm;
    Lowering(operation.program, group.rank, group.size(), coding)
        .all_gather(plan, call.source, call.target, block.count, block.dtype);
  });
}

Handle reduce_scatter(Engine& engine, Group& group, const CollectiveCall& call, Mode mode) {
  check_buffer(call.source, call.count);
  check_part(group, call.target, call.source, call.count * size_of(call.dtype));
  const Checked c = check(group, call, "all_gather");
  const auto& [unused, plan, block, part, bytes, what, coding] = c;
  if (group.on_one_machine() && bytes <= group.one_shot_limit()) {
    return engine.run<OneShot>(group, what, bytes, mode, [&](OneShot& operation) {
      give(operation, call.source, bytes, c.factor());
      combine(operation, call.target, static_cast<std::size_t>(group.rank) * part, part,
              fold_of(group, block.dtype, call.op));
    });
  }
  return engine.run<MessageOperation>(group, what, bytes, mode, [&](MessageOperation& operation) {
    operation.algorithm = plan.levels.size() <= 1 ? "direct" : plan.algorithm;
    const auto scratch =
        operation.scratch(Lowering::scratch_bytes(plan, block.count, block.dtype, call.op, group.size()));
    Lowering(operation.program, group.rank, group.size(), coding)
        .reduce_scatter(plan, call.source, call.target, block.count, block.dtype, call.op, call.factor, scratch);
  });
}

}  // namespace

std::string cannot_encode(Codec codec, DType dtype, Op op) {
  const bool sums = op == Op::sum || op == Op::avg || op == Op::premul_sum;
  if (sums && encodes(codec, dtype)) return {};
  return std::string(kCodecNames[static_cast<std::size_t>(codec)]) + " encodes sums and means of float32, not " +
         std::string(kOpNames[static_cast<std::size_t>(op)]) + " of " + std::string(name_of(dtype));
}

Codec codec_for(const Group& group, const CollectiveCall& call, std::size_t bytes) {
  const bool all_reduces = call.collective == Collective::all_reduce;
  const Codec usual = all_reduces && bytes >= group.coded_from ? group.codec : Codec::none;
  const Codec codec = call.codec.value_or(usual);
  if (codec == Codec::none) return codec;
  const DType dtype = parts_of(call.dtype, 1).dtype;
  if (const std::string why = cannot_encode(codec, dtype, call.combines() ? call.op : Op::sum); !why.empty()) {
    if (!call.codec) return Codec::none;
    throw Failure(ErrorKind::invalid, why);
  }
  if (call.residual != nullptr && dtype != DType::float32)
    throw Failure(ErrorKind::invalid,
                  std::string("a residual keeps what is lost of float32, not of ") + std::string(name_of(dtype)));
  return group.machines.empty() || bytes < calibration::kEncodedFrom ? Codec::none : codec;
}

std::size_t bytes_of(const Group& group, const CollectiveCall& call) {
  const bool divided = call.collective == Collective::all_gather || call.collective == Collective::reduce_scatter;
  return call.count * size_of(call.dtype) * (divided ? static_cast<std::size_t>(group.size()) : 1);
}

Handle start(Engine& engine, Group& group, const CollectiveCall& call, Mode mode) {
  switch (call.collective) {
    case Collective::all_reduce: return all_reduce(engine, group, call, mode);
    case Collective::broadcast: return broadcast(engine, group, call, mode);
    case Collective::reduce: return reduce(engine, group, call, mode);
    case Collective::reduce_scatter: return reduce_scatter(engine, group, call, mode);
    case Collective::all_gather:
      if (call.sends.empty()) return all_gather(engine, group, call, mode);
      [[fallthrough]];
    case Collective::gather:
    case Collective::scatter:
    case Collective::all_to_all: return exchange(engine, group, call, mode);
    case Collective::barrier: return barrier(engine, group, call, mode);
    case Collective::send: return send(engine, group, call, mode);
    case Collective::recv: return receive(engine, group, call, mode, nullptr);
    case Collective::none: break;
  }
  throw Failure(ErrorKind::invalid, "this is no call");
}

Handle start_between(Engine& engine, Group& group, const Plan& between, const CollectiveCall& call, Mode mode) {
  const std::size_t bytes = bytes_of(group, call);
  const Coding coding = coding_of(group, call, between, bytes);
  Fingerprint what = call.fingerprint();
  what.codec = coding.codec;
  return engine.run<MessageOperation>(group, what, bytes, mode, [&](MessageOperation& operation) {
    operation.algorithm = between.algorithm;
    Lowering(operation.program, group.rank, group.size(), coding)
        .all_reduce(between, call.target, call.count, call.dtype, call.op, 1);
  });
}

std::size_t pieces_between(const Group& group, const Plan& between, const CollectiveCall& call) {
  const std::size_t bytes = bytes_of(group, call);
  return between.chunks(coding_of(group, call, between, bytes).carried(bytes)).count;
}

bool begins_together(const Group& group, std::size_t bytes) {
  const Plan& plan = group.plan_for("all_reduce", bytes);
  return in_one_shot(group, plan, bytes) || in_one_pass(group, plan, bytes);
}

}  // namespace paceline
