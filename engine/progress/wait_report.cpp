#include "progress/wait_report.hpp"

#include <algorithm>
#include <chrono>
#include <string_view>

#include "execute/group.hpp"

namespace paceline {
namespace {

using Milliseconds = std::chrono::duration<std::uint32_t, std::milli>;

constexpr std::size_t kNameBytes = WaitReport::kLongest / 2;
constexpr std::size_t kWaitBytes = WaitReport::kLongest - kNameBytes;
constexpr std::size_t kMostNames = 255;
constexpr std::size_t kMostMissing = 64;  // of one wait

// Before the ranks that a wait misses, each of which is a place in the list of names.
struct Head {
  std::uint64_t channel;
  std::uint64_t number;
  std::uint32_t age;  // milliseconds
  std::uint8_t kind;
  std::uint8_t called;
  std::uint8_t missing;
  std::uint8_t unused;  // so that no byte is left undefined
};

template <typename Fixed>
void put(std::string& to, const Fixed& fixed) {
  to.append(reinterpret_cast<const char*>(&fixed), sizeof fixed);
}

// Takes what `put` wrote off the front; returns whether there was as much.
template <typename Fixed>
bool take(std::string_view& from, Fixed& fixed) {
  if (from.size() < sizeof fixed) return false;
  from.copy(reinterpret_cast<char*>(&fixed), sizeof fixed);
  from.remove_prefix(sizeof fixed);
  return true;
}

// Names of ranks, each once, as far as there is room for them.
class Names {
 public:
  // Returns the place of a name; none if there is no room for it.
  std::optional<std::uint8_t> place(const std::string& name) {
    const auto found = std::ranges::find(names_, name);
    if (found == names_.end()) {
      if (text_.size() + sizeof(std::uint16_t) + name.size() > kNameBytes || names_.size() == kMostNames)
        return std::nullopt;
      put(text_, static_cast<std::uint16_t>(name.size()));
      text_ += name;
      names_.push_back(name);
      return static_cast<std::uint8_t>(names_.size() - 1);
    }
    return static_cast<std::uint8_t>(found - names_.begin());
  }
  std::string encoded() const {
    std::string text(1, static_cast<char>(names_.size()));
    return text += text_;
  }

 private:
  std::vector<std::string> names_;
  std::string text_;
};

std::optional<std::vector<std::string>> names_in(std::string_view& text) {
  std::uint8_t count = 0;
  if (!take(text, count)) return std::nullopt;
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) {
    std::uint16_t size = 0;
    if (!take(text, size) || text.size() < size) return std::nullopt;
    names.emplace_back(text.substr(0, size));
    text.remove_prefix(size);
  }
  return names;
}

}  // namespace

CallId call_of(const Operation& operation) {
  const Collective what = operation.what.collective;
  const CallId::Kind kind = what == Collective::send   ? CallId::Kind::send
                            : what == Collective::recv ? CallId::Kind::recv
                                                       : CallId::Kind::together;
  return {operation.group->channel, operation.number(), kind};
}

std::string WaitReport::encoded() const {
  Names names;
  std::string text;
  for (const OwnWait& wait : waits) {
    if (text.size() + sizeof(Head) + kMostMissing > kWaitBytes) break;
    std::string places;
    for (const std::string& name : wait.missing)
      if (const auto place = names.place(name); place && places.size() < kMostMissing)
        places += static_cast<char>(*place);
    const auto age = std::chrono::duration_cast<Milliseconds>(
        std::clamp<Clock::duration>(wait.age, Clock::duration::zero(), Milliseconds::max()));
    put(text, Head{wait.call.channel, wait.call.number, age.count(), static_cast<std::uint8_t>(wait.call.kind),
                   static_cast<std::uint8_t>(wait.called), static_cast<std::uint8_t>(places.size()), 0});
    text += places;
  }
  return names.encoded() + text;
}

std::optional<WaitReport> WaitReport::decoded(std::span<const std::byte> payload, Clock::time_point at) {
  if (payload.size() > kLongest) return std::nullopt;
  std::string_view rest(reinterpret_cast<const char*>(payload.data()), payload.size());
  const auto names = names_in(rest);
  if (!names) return std::nullopt;
  WaitReport report{{}, at};
  while (!rest.empty()) {
    Head head;
    if (!take(rest, head) || head.kind > static_cast<std::uint8_t>(CallId::Kind::recv) || rest.size() < head.missing)
      return std::nullopt;
    OwnWait& wait = report.waits.emplace_back();
    wait.call = {head.channel, head.number, static_cast<CallId::Kind>(head.kind)};
    wait.called = head.called != 0;
    wait.age = Milliseconds(head.age);
    for (const char letter : rest.substr(0, head.missing)) {
      const auto place = static_cast<unsigned char>(letter);
      if (place >= names->size()) return std::nullopt;
      wait.missing.push_back((*names)[place]);
    }
    rest.remove_prefix(head.missing);
  }
  return report;
}

}  // namespace paceline
