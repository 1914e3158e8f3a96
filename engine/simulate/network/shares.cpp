#include "simulate/network/shares.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

namespace paceline::simulate {

namespace {

// Rates that differ by less, relatively, are equal: far more than rounding makes.
constexpr double kEqual = 1e-12;
// A link that carries more than its capacity by less, relatively, is full.
constexpr double kFull = 1e-11;

}  // namespace

Shares::Shares(const std::vector<double>& capacities) : links_(capacities.size()), next_(capacities.size()) {
  for (std::size_t i = 0; i < capacities.size(); ++i) links_[i].capacity = capacities[i];
}

Shares::Number Shares::add(const std::vector<int>& links) {
  const auto number = static_cast<Number>(streams_.size());
  Stream& stream = streams_.emplace_back();
  stream.first = static_cast<Number>(crossings_.size());
  for (const int link : links) crossings_.push_back({number, static_cast<Number>(link), 0});
  stream.last = static_cast<Number>(crossings_.size());
  return number;
}

void Shares::begin(Number stream) { change(stream, true); }
void Shares::end(Number stream) { change(stream, false); }

void Shares::change(Number number, bool carries) {
  Stream& stream = streams_[number];
  stream.carries = carries;
  if (!stream.changes) changes_.push_back(number);
  stream.changes = true;
}

void Shares::limit(Number link, double capacity) {
  if (capacity > links_[link].capacity) slack_.push_back(link);
  links_[link].capacity = capacity;
  limited_.push_back(link);
}

void Shares::share() {
  for (const Number link : touched_) links_[link].touched = false;
  for (const Number link : relevelled_) links_[link].relevelled = false;
  touched_.clear();
  relevelled_.clear();
  for (const Number link : limited_) {
    touch(link);
    rebound(link);
  }
  limited_.clear();
  for (const Number number : changes_) {
    Stream& stream = streams_[number];
    stream.changes = false;
    if (stream.carries && !stream.here) join(stream);
    if (!stream.carries && stream.here) leave(stream);
  }
  changes_.clear();
  release_slack();
  while (true) {
    for (const Number link : stale_) {
      links_[link].stale = false;
      next_.set(link, bound(links_[link]));
    }
    stale_.clear();
    const double least = next_.value();
    if (least == kFree) return;
    const auto full = static_cast<Number>(next_.where());
    if (links_[full].exact) {
      hold(full, least);
    } else {
      links_[full].exact = true;
      next_.set(full, fill(links_[full], least));
    }
  }
}

void Shares::join(Stream& stream) {
  stream.here = true;
  for (Number i = stream.first; i < stream.last; ++i) {
    Link& link = links_[crossings_[i].link];
    touch(crossings_[i].link);
    rebound(crossings_[i].link);
    crossings_[i].place = static_cast<Number>(link.crossings.size());
    link.crossings.push_back(i);
    link.rates.push_back(kFree);
    ++link.free;
  }
}

void Shares::leave(Stream& stream) {
  stream.here = false;
  drop(stream);
  for (Number i = stream.first; i < stream.last; ++i) {
    const Number number = crossings_[i].link;
    Link& link = links_[number];
    touch(number);
    link.load -= stream.rate;
    const Number place = crossings_[i].place;
    crossings_[link.crossings.back()].place = place;
    link.crossings[place] = link.crossings.back();
    link.rates[place] = link.rates.back();
    link.crossings.pop_back();
    link.rates.pop_back();
    slack_.push_back(number);
  }
  stream.rate = 0;
}

// The link that holds a stream does so no longer.
void Shares::drop(Stream& stream) {
  relevel(stream.holder);
  std::vector<Number>& held = links_[stream.holder].held;
  streams_[held.back()].place = stream.place;
  held[stream.place] = held.back();
  held.pop_back();
  stream.holder = kNone;
}

// The streams that a link holds may become faster: no link holds them.
void Shares::release(Number number) {
  if (links_[number].held.empty()) return;
  relevel(number);
  for (const Number each : links_[number].held) {
    Stream& stream = streams_[each];
    stream.holder = kNone;
    for (Number i = stream.first; i < stream.last; ++i) {
      Link& link = links_[crossings_[i].link];
      touch(crossings_[i].link);
      rebound(crossings_[i].link);
      link.load -= stream.rate;
      link.rates[crossings_[i].place] = kFree;
      ++link.free;
    }
  }
  links_[number].held.clear();
}

void Shares::release_slack() {
  for (const Number link : slack_) release(link);
  slack_.clear();
}

void Shares::touch(Number number) {
  Link& link = links_[number];
  if (!link.touched) touched_.push_back(number);
  link.touched = true;
  link.exact = false;
}

// The level at which a link is full may be lower than its bound.
void Shares::rebound(Number number) {
  if (!links_[number].stale) stale_.push_back(number);
  links_[number].stale = true;
}

void Shares::relevel(Number number) {
  if (!links_[number].relevelled) relevelled_.push_back(number);
  links_[number].relevelled = true;
}

double Shares::bound(const Link& link) {
  if (link.free > 0) return std::max(0.0, (link.capacity - link.load) / link.free * (1 - kFull));
  return link.load > link.capacity * (1 + kFull) ? 0 : kFree;
}

// Returns the level at which a link is full if no stream is faster than that, starting from one at which it is not.
// Each round is a step of Newton's method on the load, which is concave in the level.
double Shares::fill(const Link& link, double from) {
  double level = from;
  for (std::ptrdiff_t faster = 0, before = link.free;; before = faster) {
    faster = std::ranges::count_if(link.rates, [level](double rate) { return rate > level; });
    if (faster == 0) return kFree;
    const double slower = std::transform_reduce(link.rates.begin(), link.rates.end(), 0.0, std::plus{},
                                                [level](double rate) { return rate > level ? 0 : rate; });
    level = std::max(level, (link.capacity - slower) / static_cast<double>(faster));
    if (faster == before) return level;
  }
}

// A link is full: it holds all streams that are not slower.
void Shares::hold(Number number, double level) {
  Link& full = links_[number];
  relevel(number);
  touch(number);
  full.level = level;
  for (std::size_t k = 0; k < full.crossings.size(); ++k) {
    if (full.rates[k] <= level * (1 + kEqual)) continue;
    const Number each = crossings_[full.crossings[k]].stream;
    Stream& stream = streams_[each];
    const bool free = stream.holder == kNone;
    const bool slower = level < stream.rate * (1 - kEqual);
    for (Number i = stream.first; i < stream.last; ++i) {
      const Number crossed = crossings_[i].link;
      Link& link = links_[crossed];
      touch(crossed);
      link.load += free ? level : level - stream.rate;
      if (free && --link.free == 0) next_.set(crossed, std::max(next_[crossed], bound(link)));  // which only rises here
      link.rates[crossings_[i].place] = level;
      if (slower && crossed != number && !link.held.empty()) slack_.push_back(crossed);
    }
    stream.rate = level;
    if (stream.holder == number) continue;
    if (!free) drop(stream);
    stream.holder = number;
    stream.place = static_cast<Number>(full.held.size());
    full.held.push_back(each);
  }
  full.load = std::reduce(full.rates.begin(), full.rates.end());
  next_.set(number, kFree);
  release_slack();
}

}  // namespace paceline::simulate
