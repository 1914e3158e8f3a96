#include "simulate/network/fluid.hpp"

#include <algorithm>

namespace paceline::simulate {

namespace {

// Bytes per second through an open bucket, and of a link that limits nothing: more than any link carries.
constexpr double kUnlimited = 1e15;
// Bytes of a packet. A bucket that is empty lets nothing through before it has so many.
constexpr double kPacket = 1500;
// Seconds below which two ends are one: far more than rounding makes, far less than anything takes.
constexpr double kMoment = 1e-12;
// The root has no link: a stream that crosses none has that one.
constexpr int kNoLink = 0;

std::vector<double> capacities(const Tree& tree) {
  std::vector<double> found;
  found.reserve(2 * tree.nodes.size());
  for (const Node& node : tree.nodes)
    for (const double speed : {node.up, node.down}) {
      const bool limited = node.parent >= 0 && node.burst * speed < kPacket;
      found.push_back(limited ? std::min(speed, kUnlimited) : kUnlimited);
    }
  return found;
}

}  // namespace

Fluid::Fluid(const Tree& tree)
    : links_(2 * tree.nodes.size()),
      buckets_(links_.size()),
      carried_(links_.size()),
      shares_(capacities(tree)),
      ends_(links_.size()),
      turns_(links_.size()) {
  for (std::size_t link = 2; link < links_.size(); ++link) {
    const Node& node = tree.nodes[link / 2];
    Bucket& bucket = buckets_[link];
    bucket.speed = std::min(link % 2 == 0 ? node.up : node.down, kUnlimited);
    if (const double depth = node.burst * bucket.speed; depth >= kPacket) bucket.depth = bucket.tokens = depth;
  }
}

std::size_t Fluid::add(const std::vector<int>& links) {
  Stream& stream = streams_.emplace_back();
  stream.links = links.empty() ? std::vector{kNoLink} : links;
  return shares_.add(stream.links);
}

void Fluid::start(std::size_t number, double bytes) {
  const auto each = static_cast<Shares::Number>(number);
  Stream& stream = streams_[number];
  stream.bytes = stream.end = bytes;
  stream.order = starts_++;
  shares_.begin(each);
  stream.clock = shares_.holder(each);
  if (stream.clock == Shares::kNone) return;
  Link& link = links_[stream.clock];  // which has not let it go since it ended, at this moment
  stream.end += link.served_at(now_);
  link.first = std::min(link.first, stream.end);
  plan_end(stream.clock);
}

double Fluid::next() {
  if (!shares_.fair()) share();
  return std::min(ends_.value(), turns_.value());
}

void Fluid::advance(double to, std::vector<std::size_t>& ended) {
  const double change = next();
  now_ = to;
  if (to < change) return;
  const auto before = static_cast<std::ptrdiff_t>(ended.size());
  while (ends_.value() <= to + kMoment) end_first(static_cast<Shares::Number>(ends_.where()), ended);
  while (turns_.value() <= to + kMoment) turn(static_cast<Shares::Number>(turns_.where()));
  std::sort(ended.begin() + before, ended.end(),
            [&](std::size_t one, std::size_t other) { return streams_[one].order < streams_[other].order; });
}

void Fluid::share() {
  shares_.share();
  for (const Shares::Number number : shares_.relevelled()) {
    Link& link = links_[number];
    link.served = link.served_at(now_);
    link.since = now_;
    link.level = shares_.held(number).empty() ? 0 : shares_.level(number);
  }
  for (const Shares::Number link : shares_.relevelled()) hold_anew(link);
  for (const Shares::Number link : shares_.touched())
    if (buckets_[link].depth > 0) plan_turn(link);
}

// The streams that a link holds now count with it.
void Fluid::hold_anew(Shares::Number number) {
  Link& link = links_[number];
  link.first = kNever;
  for (const Shares::Number each : shares_.held(number)) {
    Stream& stream = streams_[each];
    if (stream.clock != number) {
      stream.end += link.served - (stream.clock == Shares::kNone ? 0 : links_[stream.clock].served);
      stream.clock = number;
    }
    link.first = std::min(link.first, stream.end);
  }
  plan_end(number);
}

void Fluid::plan_end(Shares::Number number) {
  const Link& link = links_[number];
  ends_.set(number, link.first == kNever ? kNever : now_ + (link.first - link.served_at(now_)) / link.level);
}

void Fluid::end_first(Shares::Number number, std::vector<std::size_t>& ended) {
  Link& link = links_[number];
  const double over = std::max(link.first, link.served_at(now_) + link.level * kMoment);
  link.first = kNever;
  for (const Shares::Number each : shares_.held(number)) {
    Stream& stream = streams_[each];
    if (stream.end > over) {
      link.first = std::min(link.first, stream.end);
      continue;
    }
    ended.push_back(each);
    for (const int crossed : stream.links) carried_[static_cast<std::size_t>(crossed)] += stream.bytes;
    stream.end = kNever;
    shares_.end(each);
  }
  plan_end(number);
}

void Fluid::plan_turn(Shares::Number number) {
  Bucket& bucket = buckets_[number];
  bucket.tokens = std::clamp(bucket.tokens + (bucket.speed - bucket.load) * (now_ - bucket.since), 0.0, bucket.depth);
  bucket.since = now_;
  bucket.load = shares_.load(number);
  const double drain = bucket.load - bucket.speed;
  if (bucket.open)
    turns_.set(number, drain > 0 ? now_ + bucket.tokens / drain : kNever);
  else
    turns_.set(number, drain < 0 ? now_ + (kPacket - bucket.tokens) / -drain : kNever);
}

void Fluid::turn(Shares::Number number) {
  Bucket& bucket = buckets_[number];
  bucket.open = !bucket.open;
  bucket.tokens = bucket.open ? kPacket : 0;
  bucket.since = now_;
  shares_.limit(number, bucket.open ? kUnlimited : bucket.speed);
  turns_.set(number, kNever);
}

}  // namespace paceline::simulate
