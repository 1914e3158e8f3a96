// A collective in shared memory, as one of the ways in which ranks carry it out: what each gives, and what it gets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "calibration/methods.hpp"
#include "shared/one_shot.hpp"
#include "shared/shared_all_reduce.hpp"
#include "shared/shared_exchange.hpp"

namespace paceline::test {

enum class Way : std::uint8_t { one_shot, in_place, staged, fetched, slots, offers, portions };

struct EndingCall {
  using Number = std::int64_t;

  Way way = Way::in_place;
  int ranks = 2;

  bool shared() const { return way == Way::in_place || way == Way::offers; }
  bool reduces() const { return way <= Way::fetched; }

  // How many numbers each rank gives, and how many its memory holds.
  std::size_t given() const {
    switch (way) {
      case Way::one_shot: return 512;
      case Way::slots: return 256;
      case Way::offers: return 1024;
      case Way::portions: return (kLargestSlot + kLargestSlot / 8) / sizeof(Number);
      case Way::fetched: return calibration::kMaybeFetchedBytes / sizeof(Number);
      default: return static_cast<std::size_t>(ranks) * 4096;
    }
  }
  std::size_t numbers() const { return reduces() ? given() : given() * static_cast<std::size_t>(ranks); }
  static Number given_by(int rank, std::size_t at) { return static_cast<Number>(at % 1000 * 16) + (1 << rank); }
  Number expected(std::size_t at) const {
    if (!reduces()) return given_by(static_cast<int>(at / given()), at % given());
    Number sum = 0;
    for (int rank = 0; rank < ranks; ++rank) sum += given_by(rank, at);
    return sum;
  }

  std::unique_ptr<SharedOperation> operation(std::byte* memory, int rank) const {
    const std::size_t bytes = given() * sizeof(Number);
    if (way == Way::one_shot) {
      auto made = std::make_unique<OneShot>();
      made->what = {given(), -1, Collective::all_reduce, DType::int64, Op::sum};
      made->given = made->to = memory;
      made->given_bytes = made->bytes = bytes;
      made->take = OneShot::Take::combined;
      made->fold = {DType::int64, Op::sum};
      return made;
    }
    if (reduces()) {
      auto made = std::make_unique<SharedAllReduce>();
      made->what = {given(), -1, Collective::all_reduce, DType::int64, Op::sum};
      made->source = made->to = memory;
      made->bytes = bytes;
      made->fold = {DType::int64, Op::sum};
      return made;
    }
    auto made = std::make_unique<SharedExchange>();
    made->what = {0, -1, Collective::all_gather, DType::int64, Op::sum};
    for (int other = 0; other < ranks; ++other) {
      made->sends.push_back({memory + static_cast<std::size_t>(rank) * bytes, bytes});
      made->recvs.push_back({memory + static_cast<std::size_t>(other) * bytes, bytes});
    }
    return made;
  }
};

}  // namespace paceline::test
