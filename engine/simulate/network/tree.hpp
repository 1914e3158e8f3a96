// A network as a tree of links, each with a direction upwards and one downwards.
#pragma once

#include <cstddef>
#include <vector>

namespace paceline::simulate {

// A node and the link to its parent. Speeds are bytes per second, infinite where nothing limits them.
struct Node {
  int parent = -1;  // comes before its children; -1 for the root, which has no link
  double up = 0;
  double down = 0;
  double latency = 0;  // seconds that a message needs to cross the link
  double burst = 0;    // seconds of traffic that cross the link at once after a pause
};

struct Tree {
  std::vector<Node> nodes;
  std::vector<int> leaves;      // the node of every rank
  std::vector<int> machine_of;  // by rank: those with equal numbers share one
  std::vector<int> cpus_of;     // by rank: the set of CPUs that it shares with too many others, or -1
  std::vector<int> cpus;        // the number of CPUs of each set

  bool crosses(int from, int to) const {
    return machine_of[static_cast<std::size_t>(from)] != machine_of[static_cast<std::size_t>(to)];
  }
};

// Directions of links are numbered 2 * node for upwards and 2 * node + 1 for downwards.
struct Path {
  std::vector<int> links;
  double latency = 0;  // seconds
};

// Returns the way from one rank to another: up to their common ancestor and down from there.
Path path(const Tree& tree, int from, int to);

// Throws Failure (invalid) for what is no tree, or for speeds and times that make no sense.
void check(const Tree& tree);

}  // namespace paceline::simulate
