#include "coordinator/data_group.hpp"

#include <vector>

namespace paceline {

std::shared_ptr<Group> make_data_group(LoopHost& loop, std::uint64_t channel, const Group& like) {
  std::vector<int> peers;
  peers.reserve(like.members.size());
  for (const Member& member : like.members) peers.push_back(member.peer);
  auto made = loop.make_group(channel, like.rank, peers, like.timeout, like.plans);
  made->use = Group::Use::data;
  made->machines = like.machines;
  made->codec = like.codec;
  made->coded_from = like.coded_from;
  return made;
}

}  // namespace paceline
