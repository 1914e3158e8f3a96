// Questions that the programs of ranks on different machines ask each other outside of any group, such as for their
// figures. Nothing is kept of a peer but its newest question and its newest answer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "link/header.hpp"
#include "memory/descriptor.hpp"
#include "progress/peers.hpp"

namespace paceline {

// A question of a peer. `number` is the asker's, and goes back with the answer.
struct Question {
  int peer = -1;
  std::uint64_t number = 0;
  std::string words;
};

// What a peer has answered last to this rank's question `number`; 0 if to none yet. The peer is `gone` if it has been
// lost since.
struct Answer {
  std::string who;
  std::uint64_t number = 0;
  bool gone = false;
  std::vector<std::byte> content;
};

class Questions {
 public:
  static constexpr std::size_t kLongestQuestion = 100;                 // bytes
  static constexpr std::size_t kLongestAnswer = std::size_t{1} << 20;  // bytes

  // Throws std::system_error.
  explicit Questions(Peers& peers);

  // Asks all peers on other machines. Returns the number of the question, which is larger than those before.
  std::uint64_t ask(std::string_view words);
  // The newest answer of every peer that was asked.
  std::vector<Answer> answers() const;
  // The questions that peers have asked since the last call.
  std::vector<Question> take();
  // May answer the newest question again: a peer that leaves has last words.
  void answer(const Question& question, std::string_view content);

  // Is readable while there are questions to take.
  int descriptor() const { return news_.get(); }

  void hear_question(int peer, const Header& header, std::span<const std::byte> words);
  void hear_answer(int peer, const Header& header, std::span<const std::byte> content);
  void forget_after_fork() { news_.reset(); }

 private:
  Peers& peers_;
  Descriptor news_;
  std::map<int, Question> asked_;  // by peer
  std::uint64_t number_ = 0;       // of the newest question of this rank
  std::map<int, Answer> answers_;  // by peer
};

}  // namespace paceline
