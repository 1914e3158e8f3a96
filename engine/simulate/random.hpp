// Random numbers that depend on what they are for, and not on what was drawn before. Two policies on the same job thus
// meet the same delays, and the difference between them has no noise that is not theirs.
#pragma once

#include <cmath>
#include <cstdint>

namespace paceline::simulate {

class Random {
 public:
  explicit Random(std::uint64_t seed) : seed_(mix(seed)) {}

  // In (0, 1], the same for the same three numbers.
  double uniform(std::uint64_t what, std::uint64_t rank, std::uint64_t turn) const {
    const std::uint64_t bits = mix(mix(mix(seed_ ^ what) + rank) + turn);
    return static_cast<double>((bits >> 11) + 1) * 0x1p-53;
  }
  double exponential(double mean, std::uint64_t what, std::uint64_t rank, std::uint64_t turn) const {
    return mean == 0 ? 0 : -mean * std::log(uniform(what, rank, turn));
  }

 private:
  // SplitMix64 (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators", figure 17).
  static std::uint64_t mix(std::uint64_t value) {
    value += 0x9e3779b97f4a7c15;
    value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
    value = (value ^ value >> 27) * 0x94d049bb133111eb;
    return value ^ value >> 31;
  }

  std::uint64_t seed_;
};

}  // namespace paceline::simulate
