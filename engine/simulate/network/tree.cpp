#include "simulate/network/tree.hpp"

#include <cmath>
#include <string>

#include "failure/error.hpp"

namespace paceline::simulate {

Path path(const Tree& tree, int from, int to) {
  Path found;
  int up = tree.leaves[static_cast<std::size_t>(from)];
  int down = tree.leaves[static_cast<std::size_t>(to)];
  while (up != down) {  // parents have smaller numbers
    int& lower = up > down ? up : down;
    found.links.push_back(2 * lower + (&lower == &up ? 0 : 1));
    const Node& node = tree.nodes[static_cast<std::size_t>(lower)];
    found.latency += node.latency;
    lower = node.parent;
  }
  return found;
}

void check(const Tree& tree) {
  const auto bad = [](const std::string& why) { throw Failure(ErrorKind::invalid, why); };
  const auto count = [](const auto& each) { return static_cast<int>(each.size()); };
  for (int i = 0; i < count(tree.nodes); ++i) {
    const Node& node = tree.nodes[static_cast<std::size_t>(i)];
    if (i == 0 ? node.parent != -1 : node.parent < 0 || node.parent >= i)
      bad("node " + std::to_string(i) + " of a network must come after its parent, and only the first has none");
    if (i > 0 && !(node.up > 0 && node.down > 0))
      bad("the link of node " + std::to_string(i) + " must carry more than 0 bytes per second each way");
    if (!(node.latency >= 0 && std::isfinite(node.latency) && node.burst >= 0 && std::isfinite(node.burst)))
      bad("the latency or the burst of node " + std::to_string(i) + " is negative or not finite");
  }
  if (tree.leaves.empty() || tree.machine_of.size() != tree.leaves.size() || tree.cpus_of.size() != tree.leaves.size())
    bad("a network needs at least one rank, and for each rank its node, its machine and its CPUs");
  for (std::size_t rank = 0; rank < tree.leaves.size(); ++rank) {
    if (tree.leaves[rank] < 0 || tree.leaves[rank] >= count(tree.nodes))
      bad("rank " + std::to_string(rank) + " is at a node that the network does not have");
    if (tree.cpus_of[rank] < -1 || tree.cpus_of[rank] >= count(tree.cpus))
      bad("rank " + std::to_string(rank) + " has CPUs that the network does not have");
  }
  for (const int number : tree.cpus)
    if (number < 1) bad("ranks that share CPUs need at least 1");
}

}  // namespace paceline::simulate
