#include "simulate/network/fluid.hpp"

#include <algorithm>
#include <cmath>

namespace paceline::simulate {

namespace {

// Bytes per second through an open bucket, and of a stream that nothing limits: more than any link carries.
constexpr double kUnlimited = 1e15;
// Bytes of a packet. A bucket that is empty lets nothing through before it has so many.
constexpr double kPacket = 1500;
// Seconds below which two ends are one: far more than rounding makes, far less than anything takes.
constexpr double kMoment = 1e-12;
// Shares that differ by less, relatively, are equal.
constexpr double kEqual = 1e-12;

}  // namespace

Fluid::Fluid(const Tree& tree) : carried_(2 * tree.nodes.size()) {
  links_.reserve(2 * tree.nodes.size());
  for (const Node& node : tree.nodes)
    for (const double speed : {node.up, node.down}) {
      Link& link = links_.emplace_back();
      link.speed = std::min(speed, kUnlimited);
      link.depth = link.tokens = node.burst * link.speed;
      link.open = link.tokens >= kPacket;
      if (link.depth > 0) buckets_.push_back(links_.size() - 1);
    }
}

std::size_t Fluid::add(const std::vector<int>& links) {
  streams_.emplace_back().links.assign(links.begin(), links.end());
  return streams_.size() - 1;
}

void Fluid::start(std::size_t stream, double bytes) {
  settle();
  streams_[stream].left = bytes;
  active_.push_back(stream);
  shared_ = false;
}

// Progressive filling: all rates grow together until a link is full, whose streams then keep their rates.
void Fluid::share() {
  for (const std::size_t number : used_) links_[number].used = 0;
  used_.clear();
  for (const std::size_t each : active_) {
    streams_[each].rate = -1;
    for (const std::size_t number : streams_[each].links) {
      Link& link = links_[number];
      if (link.streams.empty()) {
        used_.push_back(number);
        link.left = link.open ? kUnlimited : link.speed;
      }
      link.streams.push_back(each);
    }
  }
  for (const std::size_t number : used_) links_[number].undecided = links_[number].streams.size();
  for (std::vector<std::size_t> filling = used_; !filling.empty();) {
    double least = kUnlimited;
    for (const std::size_t number : filling) {
      const Link& link = links_[number];
      least = std::min(least, std::max(0.0, link.left) / static_cast<double>(link.undecided));
    }
    for (const std::size_t number : filling) {
      Link& full = links_[number];
      if (full.undecided == 0 || full.left > least * static_cast<double>(full.undecided) * (1 + kEqual)) continue;
      for (const std::size_t each : full.streams) {
        Stream& stream = streams_[each];
        if (stream.rate >= 0) continue;
        stream.rate = least;
        for (const std::size_t crossed : stream.links) {
          links_[crossed].left -= least;
          --links_[crossed].undecided;
          links_[crossed].used += least;
        }
      }
    }
    std::erase_if(filling, [&](std::size_t number) { return links_[number].undecided == 0; });
  }
  for (const std::size_t number : used_) links_[number].streams.clear();
  for (const std::size_t each : active_)
    if (streams_[each].rate < 0) streams_[each].rate = kUnlimited;  // it crosses no link
  shared_ = true;
}

double Fluid::next() {
  if (!shared_) {
    share();
    next_ = soonest();
  }
  return next_;
}

double Fluid::soonest() const {
  double wait = kNever;
  for (const std::size_t each : active_) wait = std::min(wait, streams_[each].left / streams_[each].rate);
  for (const std::size_t number : used_)
    if (const Link& link = links_[number]; link.open && link.used > link.speed)
      wait = std::min(wait, link.tokens / (link.used - link.speed));
  return now_ + wait;
}

void Fluid::settle() {
  const double passed = now_ - settled_;
  settled_ = now_;
  if (passed == 0) return;
  for (const std::size_t each : active_) streams_[each].left -= streams_[each].rate * passed;
  for (const std::size_t number : used_) carried_[number] += links_[number].used * passed;
  for (const std::size_t number : buckets_) {
    Link& link = links_[number];
    link.tokens = std::clamp(link.tokens + (link.speed - link.used) * passed, 0.0, link.depth);
    link.open = link.open ? link.tokens > link.speed * kMoment : link.tokens >= kPacket;
  }
}

void Fluid::advance(double to, std::vector<std::size_t>& ended) {
  const double change = next();
  now_ = to;
  if (to < change) return;
  settle();
  shared_ = false;
  std::erase_if(active_, [&](std::size_t each) {
    const bool over = streams_[each].left <= streams_[each].rate * kMoment;
    if (over) ended.push_back(each);
    return over;
  });
}

}  // namespace paceline::simulate
