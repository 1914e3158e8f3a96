#include "progress/questions.hpp"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "failure/error.hpp"

namespace paceline {

Questions::Questions(Peers& peers) : peers_(peers), news_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!news_) throw std::system_error(errno, std::generic_category(), "eventfd");
}

std::uint64_t Questions::ask(std::string_view words) {
  if (words.size() > kLongestQuestion)
    throw Failure(ErrorKind::invalid, "a question of " + std::to_string(words.size()) + " bytes is longer than the " +
                                          std::to_string(kLongestQuestion) + " that a rank reads");
  Header header;
  header.frame = Frame::question;
  header.length = words.size();
  header.id = ++number_;
  for (Link* link : peers_.tcp_links()) {
    const Peer& peer = peers_[link->peer()];
    if (peer.lost) continue;
    answers_[link->peer()].who = peer.description;
    link->control(header, words);
  }
  return number_;
}

std::vector<Answer> Questions::answers() const {
  std::vector<Answer> found;
  for (const auto& [handle, answer] : answers_) {
    found.push_back(answer);
    found.back().gone = !peers_.has(handle) || peers_[handle].lost;
  }
  return found;
}

std::vector<Question> Questions::take() {
  std::uint64_t count = 0;
  [[maybe_unused]] const auto got = ::read(news_.get(), &count, sizeof count);
  std::vector<Question> taken;
  for (auto& [handle, question] : std::exchange(asked_, {})) taken.push_back(std::move(question));
  return taken;
}

void Questions::answer(const Question& question, std::string_view content) {
  if (content.size() > kLongestAnswer)
    throw Failure(ErrorKind::invalid, "an answer of " + std::to_string(content.size()) + " bytes is longer than the " +
                                          std::to_string(kLongestAnswer) + " that a rank reads");
  if (!peers_.has(question.peer) || peers_[question.peer].lost) return;
  Header header;
  header.frame = Frame::answer;
  header.length = content.size();
  header.id = question.number;
  peers_[question.peer].link->control(header, content);
}

void Questions::hear_question(int peer, const Header& header, std::span<const std::byte> words) {
  if (words.size() > kLongestQuestion) return;
  std::string text(words.size(), ' ');
  std::ranges::transform(words, text.begin(), [](std::byte byte) { return static_cast<char>(byte); });
  asked_[peer] = {peer, header.id, std::move(text)};
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto wrote = ::write(news_.get(), &one, sizeof one);
}

void Questions::hear_answer(int peer, const Header& header, std::span<const std::byte> content) {
  const auto found = answers_.find(peer);
  if (found == answers_.end() || header.id > number_ || header.id < found->second.number) return;
  found->second.number = header.id;
  found->second.content.assign(content.begin(), content.end());
}

}  // namespace paceline
