#include "execute/lower.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace paceline {

Lowering::Lowering(Program& program, int rank, int size)
    : program_(program),
      rank_(rank),
      size_(size),
      sent_(static_cast<std::size_t>(size)),
      received_(static_cast<std::size_t>(size)) {
  program_.clear();
}

void Lowering::add_send(const std::byte* data, std::size_t bytes, int peer) {
  Instruction instruction{Instruction::Kind::send};
  instruction.from = data;
  instruction.bytes = bytes;
  instruction.peer = peer;
  instruction.tag = sent_[static_cast<std::size_t>(peer)]++;
  program_.instructions.push_back(instruction);
}

void Lowering::add_receive(std::byte* data, std::size_t bytes, int peer) {
  Instruction instruction{Instruction::Kind::receive};
  instruction.to = data;
  instruction.bytes = bytes;
  instruction.peer = peer;
  instruction.tag = received_[static_cast<std::size_t>(peer)]++;
  program_.instructions.push_back(instruction);
}

void Lowering::add_combine(std::byte* to, std::size_t bytes, const std::byte* own, std::span<const int> holders) {
  Instruction instruction{Instruction::Kind::combine};
  instruction.to = to;
  instruction.bytes = bytes;
  instruction.first_input = static_cast<std::uint32_t>(program_.inputs.size());
  instruction.inputs = static_cast<std::uint32_t>(holders.size());
  for (const int holder : holders) {
    if (holder == rank_) {
      program_.inputs.push_back({-1, own, 0});
    } else {
      program_.inputs.push_back({holder, nullptr, received_[static_cast<std::size_t>(holder)]++});
    }
  }
  program_.instructions.push_back(instruction);
}

void Lowering::add_local(Instruction::Kind kind, std::byte* to, const std::byte* from, std::size_t bytes,
                         double factor) {
  if (bytes == 0 || (kind == Instruction::Kind::copy && to == from)) return;
  Instruction instruction{kind};
  instruction.to = to;
  instruction.from = from;
  instruction.bytes = bytes;
  instruction.factor = factor;
  program_.instructions.push_back(instruction);
}

// Chunks differ by one element at most.
template <typename Lower>
void Lowering::cut(const Plan& plan, std::byte* data, std::size_t count, DType dtype, Lower&& lower) {
  program_.unasked = plan.chunk_bytes > 0;
  const std::size_t width = size_of(dtype);
  const auto chunks = static_cast<std::int64_t>(plan.chunks(count * width));
  for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
    const std::size_t begin = Fraction{chunk, chunks}.of(count);
    lower(data + begin * width, Fraction{chunk + 1, chunks}.of(count) - begin);
    program_.end_track();
  }
}

void Lowering::scatter_half(const Plan& plan, std::byte* data, std::size_t count, DType dtype) {
  const std::size_t width = size_of(dtype);
  for (const Level& level : plan.levels) {
    for (const Reduce& reduce : level) {
      const std::size_t begin = reduce.begin.of(count) * width;
      const std::size_t bytes = reduce.end.of(count) * width - begin;
      if (bytes == 0) continue;
      if (reduce.owner == rank_) {
        add_combine(data + begin, bytes, data + begin, reduce.holders);
      } else if (std::ranges::find(reduce.holders, rank_) != reduce.holders.end()) {
        add_send(data + begin, bytes, reduce.owner);
      }
    }
    program_.end_stage();
  }
}

void Lowering::gather_half(const Plan& plan, std::byte* data, std::size_t count, DType dtype, int root) {
  const std::size_t width = size_of(dtype);
  const auto actual = [&](int planned) { return (planned + root) % size_; };
  for (auto level = plan.levels.rbegin(); level != plan.levels.rend(); ++level) {
    for (const Reduce& reduce : *level) {
      const std::size_t begin = reduce.begin.of(count) * width;
      const std::size_t bytes = reduce.end.of(count) * width - begin;
      if (bytes == 0) continue;
      const int owner = actual(reduce.owner);
      for (const int planned : reduce.holders) {
        const int holder = actual(planned);
        if (holder == owner) continue;
        if (owner == rank_) add_send(data + begin, bytes, holder);
        if (holder == rank_) add_receive(data + begin, bytes, owner);
      }
    }
    program_.end_stage();
  }
}

void Lowering::turned_tree(const Plan& plan, std::byte* data, std::size_t bytes, int root) {
  if (bytes == 0) return;
  std::vector<bool> has(static_cast<std::size_t>(size_));
  const auto pass = [&](int from, int to) {
    if (from == rank_) add_send(data, bytes, to);
    if (to == rank_) add_receive(data, bytes, from);
    has[static_cast<std::size_t>(to)] = true;
  };
  int at = root;
  has[static_cast<std::size_t>(at)] = true;
  for (const Level& level : plan.levels) {
    const auto up = std::ranges::find_if(level, [&](const Reduce& reduce) {
      return reduce.owner != at && std::ranges::find(reduce.holders, at) != reduce.holders.end();
    });
    if (up != level.end()) pass(std::exchange(at, up->owner), up->owner);
    program_.end_stage();
  }
  for (auto level = plan.levels.rbegin(); level != plan.levels.rend(); ++level) {
    for (const Reduce& reduce : *level)
      for (const int holder : reduce.holders)
        if (!has[static_cast<std::size_t>(holder)]) pass(reduce.owner, holder);
    program_.end_stage();
  }
}

// The average is taken where each range was last combined, before it is sent on.
void Lowering::divide_owned(const Plan& plan, std::byte* data, std::size_t count, DType dtype) {
  const std::size_t width = size_of(dtype);
  std::vector<std::pair<std::size_t, std::size_t>> covered;  // by later levels; sorted, disjoint
  for (auto level = plan.levels.rbegin(); level != plan.levels.rend(); ++level) {
    if (covered.size() == 1 && covered[0] == std::pair<std::size_t, std::size_t>(0, count)) return;
    auto next = covered;
    for (const Reduce& reduce : *level) {
      std::size_t begin = reduce.begin.of(count);
      const std::size_t end = reduce.end.of(count);
      if (begin == end) continue;
      next.emplace_back(begin, end);
      if (reduce.owner != rank_) continue;
      for (const auto& [from, to] : covered) {
        if (to <= begin || from >= end) continue;
        if (from > begin)
          add_local(Instruction::Kind::divide, data + begin * width, nullptr, (from - begin) * width, size_);
        begin = std::max(begin, to);
      }
      if (begin < end)
        add_local(Instruction::Kind::divide, data + begin * width, nullptr, (end - begin) * width, size_);
    }
    std::ranges::sort(next);
    covered.clear();
    for (const auto& piece : next) {
      if (!covered.empty() && piece.first <= covered.back().second) {
        covered.back().second = std::max(covered.back().second, piece.second);
      } else {
        covered.push_back(piece);
      }
    }
  }
}

void Lowering::one_shot(std::byte* data, std::size_t bytes) {
  for (int peer = 0; peer < size_; ++peer)
    if (peer != rank_) add_send(data, bytes, peer);
  std::vector<int> everybody(static_cast<std::size_t>(size_));
  std::iota(everybody.begin(), everybody.end(), 0);
  add_combine(data, bytes, data, everybody);
  program_.combine_after_sends = true;
}

void Lowering::all_reduce(const Plan& plan, std::byte* data, std::size_t count, DType dtype, Op op, double factor) {
  const bool one_level = plan.one_shot || plan.levels.size() == 1;
  program_.fold = {dtype, op == Op::avg || op == Op::premul_sum ? Op::sum : op};
  if (op == Op::avg && one_level) program_.fold.divisor = size_;
  cut(plan, data, count, dtype, [&](std::byte* chunk, std::size_t elements) {
    const std::size_t bytes = elements * size_of(dtype);
    if (op == Op::premul_sum) add_local(Instruction::Kind::scale, chunk, chunk, bytes, factor);
    if (bytes == 0 || size_ == 1) return;
    if (plan.one_shot) return one_shot(chunk, bytes);
    scatter_half(plan, chunk, elements, dtype);
    if (op == Op::avg && !one_level) divide_owned(plan, chunk, elements, dtype);
    gather_half(plan, chunk, elements, dtype, 0);
  });
}

void Lowering::broadcast(const Plan& plan, std::byte* data, std::size_t count, DType dtype, int root) {
  cut(plan, data, count, dtype,
      [&](std::byte* chunk, std::size_t elements) { gather_half(plan, chunk, elements, dtype, root); });
}

void Lowering::turned_broadcast(const Plan& plan, std::byte* data, std::size_t count, DType dtype, int root) {
  cut(plan, data, count, dtype,
      [&](std::byte* chunk, std::size_t elements) { turned_tree(plan, chunk, elements * size_of(dtype), root); });
}

void Lowering::all_gather(const Plan& plan, const std::byte* source, std::byte* data, std::size_t count, DType dtype) {
  const std::size_t bytes = count * size_of(dtype);
  add_local(Instruction::Kind::copy, data + static_cast<std::size_t>(rank_) * bytes, source, bytes);
  gather_half(plan, data, count * static_cast<std::size_t>(size_), dtype, 0);
  program_.end_track();
}

void Lowering::reduce_scatter(const Plan& plan, const std::byte* source, std::byte* to, std::size_t count, DType dtype,
                              Op op, double factor, std::byte* scratch) {
  const std::size_t bytes = count * size_of(dtype);
  const std::size_t all = bytes * static_cast<std::size_t>(size_);
  std::byte* own = scratch + static_cast<std::size_t>(rank_) * bytes;
  program_.fold = {dtype, op == Op::avg || op == Op::premul_sum ? Op::sum : op};
  if (op == Op::premul_sum) {
    add_local(Instruction::Kind::scale, scratch, source, all, factor);
    source = scratch;
  }
  if (plan.levels.size() > 1) {
    add_local(Instruction::Kind::copy, scratch, source, all);
    scatter_half(plan, scratch, count * static_cast<std::size_t>(size_), dtype);
    if (op == Op::avg) add_local(Instruction::Kind::divide, own, nullptr, bytes, size_);
    add_local(Instruction::Kind::copy, to, own, bytes);
    program_.end_track();
    return;
  }
  if (op == Op::avg) program_.fold.divisor = size_;
  std::vector<int> everybody(static_cast<std::size_t>(size_));
  std::iota(everybody.begin(), everybody.end(), 0);
  if (bytes > 0) {
    for (int distance = 1; distance < size_; ++distance) {
      const int peer = (rank_ + distance) % size_;
      add_send(source + static_cast<std::size_t>(peer) * bytes, bytes, peer);
    }
    add_combine(to, bytes, source + static_cast<std::size_t>(rank_) * bytes, everybody);
  }
  program_.end_track();
}

void Lowering::reduce(std::byte* data, std::size_t count, DType dtype, Op op, double factor, int root,
                      std::byte* scratch) {
  const std::size_t bytes = count * size_of(dtype);
  program_.fold = {dtype, op == Op::avg || op == Op::premul_sum ? Op::sum : op,
                   op == Op::avg ? static_cast<double>(size_) : 1.0};
  const std::byte* source = data;
  if (op == Op::premul_sum) {
    add_local(Instruction::Kind::scale, scratch, data, bytes, factor);
    source = scratch;
  }
  if (bytes > 0) {
    if (rank_ != root) {
      add_send(source, bytes, root);
    } else {
      std::vector<int> everybody(static_cast<std::size_t>(size_));
      std::iota(everybody.begin(), everybody.end(), 0);
      add_combine(data, bytes, source, everybody);
    }
  }
  program_.end_track();
}

void Lowering::exchange(Collective collective, std::span<const Place> sends, std::span<const Place> recvs, int root) {
  const auto me = static_cast<std::size_t>(rank_);
  if (flows(collective, root, rank_, rank_))
    add_local(Instruction::Kind::copy, recvs[me].address, sends[me].address, sends[me].bytes);
  for (int distance = 1; distance < size_; ++distance) {
    const int to = (rank_ + distance) % size_;
    if (flows(collective, root, rank_, to)) {
      const Place& place = sends[static_cast<std::size_t>(to)];
      add_send(place.address, place.bytes, to);
    }
    const int from = (rank_ + size_ - distance) % size_;
    if (flows(collective, root, from, rank_)) {
      const Place& place = recvs[static_cast<std::size_t>(from)];
      add_receive(place.address, place.bytes, from);
    }
  }
  program_.end_track();
}

void Lowering::barrier() {
  for (int distance = 1; distance < size_; distance *= 2) {
    add_send(nullptr, 0, (rank_ + distance) % size_);
    add_receive(nullptr, 0, (rank_ + size_ - distance) % size_);
    program_.end_stage();
  }
  program_.end_track();
}

void Lowering::send(std::byte* data, std::size_t bytes, int peer, std::int32_t tag) {
  add_send(data, bytes, peer);
  program_.instructions.back().tag = tag;
  program_.end_track();
}

void Lowering::receive(std::byte* data, std::size_t bytes, int peer, std::int32_t tag) {
  Instruction instruction{Instruction::Kind::receive};
  instruction.to = data;
  instruction.bytes = bytes;
  instruction.peer = peer;  // -1: any source
  instruction.tag = tag;
  program_.instructions.push_back(instruction);
  program_.end_track();
}

}  // namespace paceline
