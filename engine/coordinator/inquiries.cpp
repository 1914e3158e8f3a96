#include "coordinator/inquiries.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "progress/times.hpp"

namespace paceline {
namespace {

constexpr auto kPatience = std::chrono::seconds(1);
constexpr std::size_t kQuestions = 8;  // to all ranks, in one round

// What a rank says that waits itself: an answer to this question, when it had seen the end of so much.
struct Await {
  std::uint64_t asked;
  std::uint64_t ended;
};

template <typename Fixed>
std::vector<std::byte> message_of(const Fixed& fixed, std::string_view text) {
  std::vector<std::byte> message(sizeof fixed + text.size());
  std::memcpy(message.data(), &fixed, sizeof fixed);
  std::ranges::copy(std::as_bytes(std::span(text)), message.begin() + sizeof fixed);
  return message;
}

// Reads what `message_of` wrote; returns false if the message is too short for it.
template <typename Fixed>
bool read(std::span<const std::byte> message, Fixed& fixed, std::string_view& text) {
  if (message.size() < sizeof fixed) return false;
  std::memcpy(&fixed, message.data(), sizeof fixed);
  text = {reinterpret_cast<const char*>(message.data()) + sizeof fixed, message.size() - sizeof fixed};
  return true;
}

}  // namespace

Clock::duration Inquiries::patience() const {
  return std::min<Clock::duration>(kPatience, on_clock(control_.timeout) / 4);
}

void Inquiries::ask(Clock::time_point now) const {
  std::size_t left = kQuestions;
  bool first_known = true;
  const int here = seat_.machine_of[static_cast<std::size_t>(seat_.rank)];
  for (PendingRequest* pending : requests_.oldest_first()) {
    if (pending->issued || now < pending->started + patience()) continue;
    const auto question = message_of(pending->id, pending->join ? std::string_view() : pending->request->name);
    const bool fits = question.size() <= Correspondence::kMost;
    if (const auto known = absentees_.known(*pending); !known.empty()) {
      const bool first = std::exchange(first_known, false);
      if (!fits) continue;
      for (const int rank : known) {
        const bool far = seat_.machine_of[static_cast<std::size_t>(rank)] != here;
        if ((first && far) || pending->waiter != 0) correspondence_.tell(rank, Correspondence::ask, question);
      }
      continue;
    }
    if (left-- == 0) return;
    if (pending->submitted.empty()) {
      pending->submitted.resize(static_cast<std::size_t>(control_.size()));
      pending->submitted[static_cast<std::size_t>(seat_.rank)] = true;
    }
    if (!fits) continue;
    for (int rank = 0; rank < control_.size(); ++rank)
      if (!pending->submitted[static_cast<std::size_t>(rank)])
        correspondence_.tell(rank, Correspondence::ask, question);
  }
}

void Inquiries::answer(int from, std::span<const std::byte> question, bool joins, std::uint64_t ended) const {
  std::uint64_t asked = 0;
  std::string_view name;
  if (!read(question, asked, name)) return;
  if (joins || requests_.has(name))
    return correspondence_.tell(from, Correspondence::have, question.first(sizeof asked));
  const auto waits = std::ranges::find_if(requests_.under_way(), [](const PendingRequest* pending) {
    return !pending->issued && !pending->join && pending->waiter != 0;
  });
  if (waits == requests_.under_way().end()) return;
  const auto message = message_of(Await{asked, ended}, (*waits)->request->name);
  if (message.size() <= Correspondence::kMost) correspondence_.tell(from, Correspondence::await, message);
}

void Inquiries::hear_of_submission(int from, std::span<const std::byte> answer) const {
  std::uint64_t asked = 0;
  std::string_view nothing;
  if (!read(answer, asked, nothing)) return;
  for (PendingRequest* pending : requests_.under_way())
    if (pending->id == asked && !pending->submitted.empty()) pending->submitted[static_cast<std::size_t>(from)] = true;
}

// A caller of this rank waits for what another rank has not submitted, and a caller there for what this rank has not:
// both wait in vain, unless they have other threads. It has to be so twice, patience() apart, when both ranks have seen
// the end of the same batches: so it is nothing that one of them has yet to hear of.
void Inquiries::hear_of_wait(int from, std::span<const std::byte> answer, bool joins, std::uint64_t ended) const {
  Await await{};
  std::string_view name;
  if (!read(answer, await, name)) return;
  const auto& all = requests_.under_way();
  const auto found = std::ranges::find_if(all, [&](const PendingRequest* one) { return one->id == await.asked; });
  if (found == all.end()) return;
  PendingRequest& pending = **found;
  if (pending.issued || pending.join || pending.waiter == 0 || await.ended != ended || joins || requests_.has(name)) {
    pending.in_vain.clear();
  } else if (pending.in_vain != name) {
    pending.in_vain = name;
  } else if (!std::exchange(pending.told_in_vain, true)) {
    warnings_.add(pending.description() + " waits for " + control_.name_of(from) +
                  ", which has not submitted it and waits for \"" + pending.in_vain + "\", which this rank, " +
                  control_.name_of(seat_.rank) + ", has not submitted: neither ends unless another thread does");
  }
}

}  // namespace paceline
