#include "progress/wait_graph.hpp"

#include <algorithm>
#include <ranges>

namespace paceline {
namespace {

constexpr std::size_t kStart = 0;
constexpr auto kNowhere = static_cast<std::size_t>(-1);

bool is_message(const CallId& call) { return call.kind != CallId::Kind::together; }

bool misses(const OwnWait& wait, const std::string& who) {
  return std::ranges::find(wait.missing, who) != wait.missing.end();
}

// Whether a wait is a rank's part in `call`. Of a message between two ranks, that is the other end.
bool is_part(const OwnWait& wait, const CallId& call, const std::string& by) {
  if (!is_message(call)) return wait.call == call;
  return wait.call.channel == call.channel && wait.call.number == call.number && is_message(wait.call) &&
         wait.call.kind != call.kind && misses(wait, by);
}

// Names of ranks in the order of their numbers: "rank 2 (a)" comes before "rank 10 (a)".
bool comes_before(const std::string& one, const std::string& other) {
  const auto length = [](const std::string& name) { return std::min(name.find(" ("), name.size()); };
  return std::pair(length(one), one) < std::pair(length(other), other);
}

}  // namespace

void WaitGraph::begin(const std::string& who, const std::vector<OwnWait>& waits, Clock::time_point now) {
  needed_.push_back({who, {}, {}, false, false});
  edges_.emplace_back();
  for (const OwnWait& wait : waits) connect(kStart, wait, now);
  for (std::size_t at = kStart + 1; at < needed_.size(); ++at) follow(at);
}

std::size_t WaitGraph::find(const std::string& who, const CallId& call, const std::string& by) {
  const auto [found, fresh] = places_.emplace(Key{who, call, is_message(call) ? by : std::string()}, needed_.size());
  if (fresh) {
    needed_.push_back({who, call, by, false, false});
    edges_.emplace_back();
  }
  return found->second;
}

void WaitGraph::connect(std::size_t at, const OwnWait& wait, Clock::time_point seen) {
  const std::string by = needed_[at].who;
  for (const std::string& who : wait.missing) {
    const std::size_t to = find(who, wait.call, by);
    edges_[at].push_back({to, seen - wait.age, seen});
  }
}

void WaitGraph::follow(std::size_t at) {
  const Needed one = needed_[at];
  const WaitReport* report = heard_(one.who);
  if (report == nullptr) {
    needed_[at].ends = true;
    return;
  }
  for (const OwnWait& wait : report->waits) {
    if (!is_part(wait, one.call, one.by)) continue;
    if (is_message(one.call)) return;  // both ends are there, and it moves on
    connect(at, wait, report->at);
    needed_[at].ends = edges_[at].empty();
    return;
  }
  for (const OwnWait& wait : report->waits)
    if (wait.called && wait.age >= settled_) connect(at, wait, report->at);
  needed_[at].elsewhere = !edges_[at].empty();
  needed_[at].ends = edges_[at].empty();
}

// Returns of each place whether a rank that is waited for from there on does not take part: else they move on, however
// slowly.
std::vector<bool> WaitGraph::held() const {
  std::vector<std::vector<std::size_t>> waiting(needed_.size());
  for (std::size_t at = 0; at < needed_.size(); ++at)
    for (const Edge& edge : edges_[at]) waiting[edge.to].push_back(at);
  std::vector<bool> found(needed_.size());
  std::vector<std::size_t> reached;
  const auto reach = [&](std::size_t at) {
    if (!found[at]) reached.push_back(at);
    found[at] = true;
  };
  for (std::size_t at = 0; at < needed_.size(); ++at)
    if (needed_[at].ends || needed_[at].elsewhere) reach(at);
  for (std::size_t i = 0; i < reached.size(); ++i) std::ranges::for_each(waiting[reached[i]], reach);
  return found;
}

// A rank whose program is elsewhere waits for nobody, either, if what it does there moves on.
WaitGraph::Ends WaitGraph::ends() const {
  Ends found;
  const std::vector<bool> held = this->held();
  const auto moves = [&](const Edge& edge) { return !held[edge.to]; };
  for (std::size_t at = 0; at < needed_.size(); ++at)
    found.push_back(needed_[at].ends || (needed_[at].elsewhere && std::ranges::all_of(edges_[at], moves)));
  return found;
}

// Returns for each place the one before it on a shortest way from the start.
std::vector<std::size_t> WaitGraph::ways(const Ends& ends) const {
  std::vector<std::size_t> before(needed_.size(), kNowhere);
  std::vector<std::size_t> reached{kStart};
  for (std::size_t i = 0; i < reached.size(); ++i) {
    if (ends[reached[i]]) continue;
    for (const Edge& edge : edges_[reached[i]]) {
      if (edge.to == kStart || before[edge.to] != kNowhere) continue;
      before[edge.to] = reached[i];
      reached.push_back(edge.to);
    }
  }
  return before;
}

Blame::Root WaitGraph::way_to(std::size_t at, const std::vector<std::size_t>& before) const {
  Blame::Root root{needed_[at].who, {}};
  for (std::size_t back = before[at]; back != kStart; back = before[back])
    if (needed_[back].elsewhere) root.by.insert(root.by.begin(), needed_[back].who);
  return root;
}

Blame WaitGraph::blame() const {
  const Ends over = ends();
  const auto before = ways(over);
  Blame blame;
  std::size_t entry = kNowhere;  // the first rank that is elsewhere
  for (std::size_t at = kStart + 1; at < needed_.size(); ++at) {
    if (before[at] == kNowhere) continue;
    auto root = way_to(at, before);
    if (!over[at]) {
      if (entry == kNowhere && needed_[at].elsewhere && root.by.empty()) entry = at;
      continue;
    }
    const auto same = std::ranges::find(blame.roots, root.who, &Blame::Root::who);
    if (same == blame.roots.end())
      blame.roots.push_back(std::move(root));
    else if (root.by.size() < same->by.size())
      *same = std::move(root);
  }
  if (!blame.roots.empty() || entry == kNowhere) return blame;
  return circle_from(entry);
}

// The way to the nearest rank whose program is elsewhere, as is that of `from`.
std::vector<WaitGraph::Edge> WaitGraph::way_to_next(std::size_t from) const {
  struct Step {
    const Edge* edge;
    std::size_t before;
  };
  std::vector<Step> steps;
  std::vector<bool> seen(needed_.size());
  const auto go_on = [&](std::size_t at, std::size_t before) {
    for (const Edge& edge : edges_[at]) {
      if (seen[edge.to]) continue;
      seen[edge.to] = true;
      steps.push_back({&edge, before});
    }
  };
  go_on(from, kNowhere);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const std::size_t at = steps[i].edge->to;
    if (!needed_[at].elsewhere) {
      go_on(at, i);
      continue;
    }
    std::vector<Edge> way;
    for (std::size_t back = i; back != kNowhere; back = steps[back].before) way.push_back(*steps[back].edge);
    return {way.rbegin(), way.rend()};
  }
  return {};
}

// All ranks from `at` on wait for each other. They do so for ever if there was a time at which each waited for the
// next.
Blame WaitGraph::circle_from(std::size_t at) const {
  std::vector<std::size_t> visited;
  std::vector<std::vector<Edge>> ways;
  while (std::ranges::find(visited, at) == visited.end()) {
    visited.push_back(at);
    ways.push_back(way_to_next(at));
    if (ways.back().empty()) return {};
    at = ways.back().back().to;
  }
  Blame blame{{{needed_[at].who, {}}}, {}};
  auto since = Clock::time_point::min();
  auto until = Clock::time_point::max();
  bool within = false;
  for (std::size_t i = 0; i < visited.size(); ++i) {
    within |= visited[i] == at;
    const std::string& name = needed_[visited[i]].who;
    auto& names = within ? blame.circle : blame.roots.front().by;
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    for (const Edge& edge : ways[i]) {
      if (within) since = std::max(since, edge.since);
      if (within) until = std::min(until, edge.until);
    }
  }
  if (blame.circle.size() < 2 || since > until) return {};
  // The way ends where it comes to one of them.
  auto& [who, by] = blame.roots.front();
  const auto arrives = std::ranges::find_first_of(by, blame.circle);
  if (arrives != by.end()) who = *arrives;
  by.erase(arrives, by.end());
  std::ranges::rotate(blame.circle, std::ranges::min_element(blame.circle, comes_before));
  return blame;
}

std::vector<std::string> WaitGraph::ranks() const {
  std::vector<std::string> found;
  for (const Needed& one : needed_ | std::views::drop(1))
    if (std::ranges::find(found, one.who) == found.end()) found.push_back(one.who);
  return found;
}

}  // namespace paceline
