#include "program/lower.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "program/passes.hpp"

namespace paceline {

const std::byte* Lowering::own(Copy& copy, std::size_t begin, std::size_t bytes) {
  if (copy.source == nullptr) return copy.data + begin;
  const auto missing = copy.combined.gaps(begin, begin + bytes);
  if (missing.size() == 1 && missing[0].end - missing[0].begin == bytes) return copy.source + copy.rows.at(begin);
  for (const auto& part : missing)
    add_copy(copy.data + part.begin, copy.source + copy.rows.at(part.begin), part.end - part.begin);
  copy.combined.add(begin, begin + bytes);
  return copy.data + begin;
}

void Lowering::scatter_half(std::span<const Level> levels, Copy& copy, std::size_t count, DType dtype) {
  const std::size_t width = size_of(dtype);
  for (const Level& level : levels) {
    for (const Reduce& reduce : level) {
      const bool holds = reduce.holds(rank_);
      if (!holds && reduce.owner != rank_) continue;
      copy.rows.split(reduce.begin.of(count) * width, reduce.end.of(count) * width, [&](auto begin, auto bytes) {
        const std::byte* mine = holds ? own(copy, begin, bytes) : nullptr;
        if (coding_.crosses(rank_, reduce.owner)) {
          std::byte* const residual = copy.residual != nullptr ? copy.residual + copy.rows.at(begin) : nullptr;
          return add_encoded_send(add_encode(mine, bytes, residual), reduce.owner);
        }
        if (reduce.owner != rank_) return add_send(mine, bytes, reduce.owner);
        // This rank may have given its own copy away.
        add_combine(copy.data + begin, bytes, mine, reduce.holders, !holds);
        copy.combined.add(begin, begin + bytes);
      });
    }
    end_stage();
  }
}

void Lowering::gather_half(std::span<const Level> levels, std::byte* data, Rows rows, std::size_t count, DType dtype,
                           int root, std::byte* residual) {
  const std::size_t width = size_of(dtype);
  const auto actual = [&](int planned) { return (planned + root) % size_; };
  Passes passes;
  for (auto level = levels.rbegin(); level != levels.rend(); ++level) {
    if (coding_.encodes()) passes.emplace_back();
    for (const Reduce& reduce : *level) {
      const int owner = actual(reduce.owner);
      for (const int planned : reduce.holders) {
        const int holder = actual(planned);
        if (holder == owner) continue;
        if (coding_.encodes()) {
          passes.back().push_back({owner, holder, reduce.begin.of(count) * width, reduce.end.of(count) * width});
          continue;
        }
        if (holder != rank_ && owner != rank_) continue;
        rows.split(reduce.begin.of(count) * width, reduce.end.of(count) * width, [&](auto begin, auto bytes) {
          if (owner == rank_) return add_send(data + rows.at(begin), bytes, holder);
          add_receive(data + rows.at(begin), bytes, owner);
        });
      }
    }
    end_stage();
  }
  pass_on(*this, passes, data, residual, rows);
}

// The rank that combines a range last takes the average, before it sends the range on.
void Lowering::divide_last(const Plan& plan, std::byte* data, std::size_t count, DType dtype) {
  const std::size_t width = size_of(dtype);
  Intervals later;  // the ranges that later levels combine
  for (auto level = plan.levels.rbegin(); level != plan.levels.rend() && !later.gaps(0, count).empty(); ++level) {
    Intervals all = later;
    const bool at_once = plan.one_shot && level == plan.levels.rbegin();
    for (const Reduce& reduce : *level) {
      const std::size_t begin = reduce.begin.of(count);
      const std::size_t end = reduce.end.of(count);
      all.add(begin, end);
      if (at_once ? !reduce.holds(rank_) : reduce.owner != rank_) continue;
      for (const auto& part : later.gaps(begin, end))
        add_divide(data + part.begin * width, (part.end - part.begin) * width, size_);
    }
    later = std::move(all);
  }
}

void Lowering::one_shot(const Level& level, std::byte* data, std::size_t count, DType dtype) {
  const std::size_t width = size_of(dtype);
  const auto mine = [&](auto&& each) {
    for (const Reduce& reduce : level) {
      const std::size_t begin = reduce.begin.of(count) * width;
      const std::size_t bytes = reduce.end.of(count) * width - begin;
      if (bytes > 0 && reduce.holds(rank_)) each(reduce, data + begin, bytes);
    }
    end_stage();
  };
  mine([&](const Reduce& reduce, std::byte* part, std::size_t bytes) {
    for (const int peer : reduce.holders)
      if (peer != rank_) add_send(part, bytes, peer);
  });
  mine([&](const Reduce& reduce, std::byte* part, std::size_t bytes) {
    add_combine(part, bytes, part, reduce.holders, true);
  });
}

void Lowering::all_reduce(const Plan& plan, std::byte* data, std::size_t count, DType dtype, Op op, double factor,
                          std::size_t first) {
  const auto levels = std::span(plan.levels).subspan(first);
  const bool one_level = levels.size() == 1;
  const bool at_once = plan.one_shot && !levels.empty();
  const auto owned = levels.first(levels.size() - (at_once ? 1 : 0));
  const std::size_t width = size_of(dtype);
  const bool divided = op == Op::avg && (!one_level || coding_.encodes());  // only once all of it is decoded
  set_fold(dtype, op, op == Op::avg && !divided);
  cut(plan, chunks_of(plan, count * width), count, [&](std::size_t begin, std::size_t elements) {
    std::byte* chunk = data + begin * width;
    const std::size_t bytes = elements * width;
    if (op == Op::premul_sum) add_scale(chunk, chunk, bytes, factor);
    if (bytes == 0 || size_ == 1) return;
    std::byte* const residual = coding_.residual_at(begin * width);
    Copy copy{chunk, nullptr, {bytes, 0}, residual, {}};
    scatter_half(owned, copy, elements, dtype);
    if (at_once) one_shot(levels.back(), chunk, elements, dtype);
    if (divided) divide_last(plan, chunk, elements, dtype);
    gather_half(owned, chunk, {bytes, 0}, elements, dtype, 0, residual);
  });
}

void Lowering::broadcast(const Plan& plan, std::byte* data, std::size_t count, DType dtype, int root) {
  const std::size_t width = size_of(dtype);
  set_fold(dtype);
  cut(plan, chunks_of(plan, count * width), count, [&](std::size_t begin, std::size_t elements) {
    gather_half(plan.levels, data + begin * width, {elements * width, 0}, elements, dtype, root);
  });
}

void Lowering::all_gather(const Plan& plan, const std::byte* source, std::byte* data, std::size_t count, DType dtype) {
  const std::size_t width = size_of(dtype);
  const std::size_t block = count * width;
  const auto size = static_cast<std::size_t>(size_);
  set_fold(dtype);
  cut(plan, plan.levels.size() <= 1 ? Chunks{} : chunks_of(plan, block * size), count,
      [&](std::size_t begin, std::size_t elements) {
        std::byte* const chunk = data + begin * width;
        const std::size_t bytes = elements * width;
        add_copy(chunk + static_cast<std::size_t>(rank_) * block, source + begin * width, bytes);
        gather_half(plan.levels, chunk, {bytes, block}, elements * size, dtype, 0);
      });
}

std::size_t Lowering::scratch_bytes(const Plan& plan, std::size_t count, DType dtype, Op op, int size) {
  const std::size_t bytes = count * size_of(dtype) * static_cast<std::size_t>(size);
  if (plan.levels.size() <= 1) return op == Op::premul_sum ? bytes : 0;
  const Chunks chunks = plan.chunks(bytes);
  return chunks.in_flight * ((count + chunks.count - 1) / chunks.count) * (bytes / std::max<std::size_t>(1, count));
}

void Lowering::reduce_scatter(const Plan& plan, const std::byte* source, std::byte* to, std::size_t count, DType dtype,
                              Op op, double factor, std::span<std::byte> scratch) {
  const std::size_t width = size_of(dtype);
  const auto size = static_cast<std::size_t>(size_);
  const auto me = static_cast<std::size_t>(rank_);
  const std::size_t block = count * width;
  const bool at_once = plan.levels.size() <= 1;
  const bool divided = op == Op::avg && (!at_once || coding_.encodes());
  set_fold(dtype, op, op == Op::avg && !divided);
  if (at_once) {
    if (op == Op::premul_sum) {
      add_scale(scratch.data(), source, block * size, factor);
      source = scratch.data();
    }
    if (block > 0) scatter_at_once(source, to, block);
    end_stage();
    if (divided) add_divide(to, block, size_);
    end_track();
    return;
  }
  const Chunks chunks = plan.chunks(block * size);
  const std::size_t room = scratch.size() / chunks.in_flight;
  cut(plan, chunks, count, [&](std::size_t begin, std::size_t elements) {
    const std::size_t bytes = elements * width;
    Copy copy{scratch.data() + tracks() % chunks.in_flight * room,
              source + begin * width,
              {bytes, block},
              coding_.residual_at(begin * width),
              {}};
    if (op == Op::premul_sum) {
      for (std::size_t rank = 0; rank < size; ++rank)
        add_scale(copy.data + rank * bytes, copy.source + rank * block, bytes, factor);
      copy.source = nullptr;
    }
    scatter_half(plan.levels, copy, elements * size, dtype);
    std::byte* own = copy.data + me * bytes;
    if (divided) add_divide(own, bytes, size_);
    add_copy(to + begin * width, own, bytes);
  });
}

void Lowering::scatter_at_once(const std::byte* source, std::byte* to, std::size_t bytes) {
  std::vector<int> everybody(static_cast<std::size_t>(size_));
  std::iota(everybody.begin(), everybody.end(), 0);
  for (int distance = 1; distance < size_; ++distance) {
    const int peer = (rank_ + distance) % size_;
    const std::size_t place = static_cast<std::size_t>(peer) * bytes;
    const std::byte* const block = source + place;
    if (coding_.crosses(rank_, peer)) {
      add_encoded_send(add_encode(block, bytes, coding_.residual_at(place)), peer);
    } else {
      add_send(block, bytes, peer);
    }
  }
  add_combine(to, bytes, source + static_cast<std::size_t>(rank_) * bytes, everybody);
}

void Lowering::reduce(std::byte* data, std::size_t count, DType dtype, Op op, double factor, int root,
                      std::span<std::byte> scratch) {
  const std::size_t bytes = count * size_of(dtype);
  set_fold(dtype, op, op == Op::avg);
  const std::byte* source = data;
  if (op == Op::premul_sum) {
    add_scale(scratch.data(), data, bytes, factor);
    source = scratch.data();
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
  end_track();
}

void Lowering::exchange(Collective collective, std::span<const Place> sends, std::span<const Place> recvs, int root) {
  const auto me = static_cast<std::size_t>(rank_);
  if (flows(collective, root, rank_, rank_)) add_copy(recvs[me].address, sends[me].address, sends[me].bytes);
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
  end_track();
}

void Lowering::barrier() {
  for (int distance = 1; distance < size_; distance *= 2) {
    add_send(nullptr, 0, (rank_ + distance) % size_);
    add_receive(nullptr, 0, (rank_ + size_ - distance) % size_);
    end_stage();
  }
  end_track();
}

}  // namespace paceline
