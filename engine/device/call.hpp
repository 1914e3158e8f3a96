// A collective of device memory as a rank calls it: which of its memory is for whom, and where what comes belongs.
#pragma once

#include <cstddef>
#include <vector>

#include "device/cuda.hpp"
#include "types/collective.hpp"

namespace paceline::device {

// Elements that lie one behind the other.
struct Block {
  Address data = 0;
  std::size_t count = 0;
};

struct Call {
  Collective collective = Collective::all_reduce;
  // What this rank brings along: one block for whoever takes it, or one for each rank; none if it brings nothing.
  std::vector<Block> input = {};
  // Where what comes belongs: one block for the combination of what all bring, or for what the root brings; or one for
  // each rank's; none if nothing comes here.
  std::vector<Block> output = {};
  // Of an all_reduce: what is copied to `input`, one behind the other, before it, and back from `output` after it. One
  // without memory stands for zeros. None if that is not wanted.
  std::vector<Block> packed = {};
  std::size_t count = 0;  // elements of each block, on all ranks; 0 if `uneven`
  bool uneven = false;    // the blocks have counts of their own, which no other rank knows before they meet
  DType dtype = DType::uint8;
  DType of_caller = dtype;  // whose elements may be complex numbers, where those of `dtype` are their parts
  Op op = Op::sum;
  double factor = 1;
  Codec codec = Codec::none;         // of what crosses from one machine to another
  std::vector<Block> residual = {};  // like `input`, float32: what encoding has lost here so far; none: it is lost
  int root = -1;
  StreamHandle stream = nullptr;  // the caller's, after whose work the collective comes

  bool combines() const {
    return collective == Collective::all_reduce || collective == Collective::reduce ||
           collective == Collective::reduce_scatter;
  }
  // Whether a rank has a block of its own for every rank, on one side at least.
  bool has_block_for_each() const {
    return collective != Collective::all_reduce && collective != Collective::reduce &&
           collective != Collective::broadcast;
  }
  bool empty() const { return count == 0 && !uneven; }
  Block given_to(int rank) const {
    if (collective == Collective::reduce && rank != root) return {};
    if (collective == Collective::broadcast && rank == root) return {};
    return of(input, rank);
  }
  Block taken_from(int rank) const {
    if (collective == Collective::broadcast && rank != root) return {};
    return of(output, rank);
  }
  std::size_t bytes(const Block& block) const { return block.count * size_of(dtype); }
  Fingerprint fingerprint() const {
    const std::size_t elements = count * size_of(dtype) / size_of(of_caller);
    return {elements, root, collective, of_caller, combines() ? op : Op::sum, codec};
  }

 private:
  static Block of(const std::vector<Block>& blocks, int rank) {
    if (blocks.empty()) return {};
    return blocks.size() == 1 ? blocks[0] : blocks[static_cast<std::size_t>(rank)];
  }
};

inline Address address(const void* pointer) { return reinterpret_cast<Address>(pointer); }
inline std::byte* pointer(Address address) { return reinterpret_cast<std::byte*>(address); }

// A block for each of so many ranks, one behind the other.
inline std::vector<Block> blocks_at(Address data, std::size_t count, DType dtype, std::size_t ranks) {
  std::vector<Block> all;
  all.reserve(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) all.push_back({data + rank * count * size_of(dtype), count});
  return all;
}

}  // namespace paceline::device
