#include "program/lower_trees.hpp"

#include <algorithm>

#include "program/passes.hpp"

namespace paceline {
namespace {

// Returns the way from `root` to the plan's own root: where the data are before each level, and after the last one.
std::vector<int> climbed(const Plan& plan, int root) {
  std::vector<int> at{root};
  for (const Level& level : plan.levels) {
    const auto up = std::ranges::find_if(
        level, [&](const Reduce& reduce) { return reduce.owner != at.back() && reduce.holds(at.back()); });
    at.push_back(up != level.end() ? up->owner : at.back());
  }
  return at;
}

bool contains(const std::vector<int>& ranks, int rank) { return std::ranges::find(ranks, rank) != ranks.end(); }

}  // namespace

void TreeLowering::turned_tree(const Plan& plan, std::byte* data, std::size_t bytes, int root) {
  if (bytes == 0) return;
  Passes passes;
  const auto pass = [&](int from, int to) {
    if (coding_.encodes()) return passes.back().push_back({from, to, 0, bytes});
    if (from == rank_) add_send(data, bytes, to);
    if (to == rank_) add_receive(data, bytes, from);
  };
  const std::vector<int> at = climbed(plan, root);
  for (std::size_t level = 0; level < plan.levels.size(); ++level) {
    if (coding_.encodes()) passes.emplace_back();
    if (at[level] != at[level + 1]) pass(at[level], at[level + 1]);
    end_stage();
  }
  for (auto level = plan.levels.rbegin(); level != plan.levels.rend(); ++level) {
    if (coding_.encodes()) passes.emplace_back();
    for (const Reduce& reduce : *level)
      for (const int holder : reduce.holders)
        if (holder != reduce.owner && !contains(at, holder)) pass(reduce.owner, holder);
    end_stage();
  }
  pass_on(*this, passes, data, nullptr, {bytes, 0});
}

void TreeLowering::turned_reduction(const Plan& plan, std::byte* to, const std::byte* own, std::size_t bytes,
                                    int root) {
  if (bytes == 0) return;
  const auto gather = [&](int owner, const std::vector<int>& others) {
    if (contains(others, rank_)) add_send(own, bytes, owner);
    if (owner != rank_ || others.empty()) return;
    std::vector<int> all{rank_};
    all.insert(all.end(), others.begin(), others.end());
    add_combine(to, bytes, own, all);
    own = to;
  };
  const std::vector<int> at = climbed(plan, root);
  for (const Level& level : plan.levels) {
    for (const Reduce& reduce : level) {
      std::vector<int> others = reduce.holders;
      std::erase_if(others, [&](int holder) { return holder == reduce.owner || contains(at, holder); });
      gather(reduce.owner, others);
    }
    end_stage();
  }
  for (std::size_t level = plan.levels.size(); level-- > 0;) {
    if (at[level] != at[level + 1]) gather(at[level], {at[level + 1]});
    end_stage();
  }
}

void TreeLowering::broadcast(const Plan& plan, std::byte* data, std::size_t count, DType dtype, int root) {
  const std::size_t width = size_of(dtype);
  set_fold(dtype);
  cut(plan, chunks_of(plan, count * width), count, [&](std::size_t begin, std::size_t elements) {
    turned_tree(plan, data + begin * width, elements * width, root);
  });
}

std::size_t TreeLowering::scratch_bytes(const Plan& plan, std::size_t count, DType dtype) {
  const Chunks chunks = plan.chunks(count * size_of(dtype));
  return chunks.in_flight * ((count + chunks.count - 1) / chunks.count) * size_of(dtype);
}

// A rank that is not the root combines into `scratch`, so that its own data stay as they are.
void TreeLowering::reduce(const Plan& plan, std::byte* data, std::size_t count, DType dtype, Op op, double factor,
                          int root, std::span<std::byte> scratch) {
  const std::size_t width = size_of(dtype);
  const Chunks chunks = plan.chunks(count * width);
  const std::size_t room = scratch.size() / chunks.in_flight;
  set_fold(dtype, op);
  cut(plan, chunks, count, [&](std::size_t begin, std::size_t elements) {
    const std::size_t bytes = elements * width;
    std::byte* const chunk = data + begin * width;
    std::byte* const to = rank_ == root ? chunk : scratch.data() + tracks() % chunks.in_flight * room;
    if (op == Op::premul_sum) add_scale(to, chunk, bytes, factor);
    turned_reduction(plan, to, op == Op::premul_sum ? to : chunk, bytes, root);
    if (op == Op::avg && rank_ == root) add_divide(to, bytes, size_);
  });
}

}  // namespace paceline
