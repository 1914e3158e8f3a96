// The least of many numbers that change one at a time: a tournament, in which every number meets its neighbour, and the
// lesser one goes on. Infinity takes no part.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <limits>
#include <vector>

namespace paceline::simulate {

class Least {
 public:
  explicit Least(std::size_t count)
      : first_(std::bit_ceil(std::max<std::size_t>(count, 1))),
        tree_(2 * first_, std::numeric_limits<double>::infinity()) {}

  double operator[](std::size_t number) const { return tree_[first_ + number]; }
  void set(std::size_t number, double value) {
    std::size_t place = first_ + number;
    for (tree_[place] = value; place > 1; place /= 2) {
      const double lesser = std::min(tree_[place], tree_[place ^ 1]);
      if (tree_[place / 2] == lesser) return;
      tree_[place / 2] = lesser;
    }
  }

  double value() const { return tree_[1]; }
  // The first number that has this value.
  std::size_t where() const {
    std::size_t place = 1;
    while (place < first_) place = 2 * place + (tree_[2 * place] == tree_[place] ? 0 : 1);
    return place - first_;
  }

 private:
  std::size_t first_;  // of the numbers, behind what is made of them
  std::vector<double> tree_;
};

}  // namespace paceline::simulate
