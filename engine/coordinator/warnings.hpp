// Sentences for the user of this rank, until Python takes them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "progress/loop_host.hpp"

namespace paceline {

class Warnings {
 public:
  explicit Warnings(LoopHost& loop) : loop_(loop), id_(loop.next_id()) {}

  // Engine::notifications returns this id when there are any, and once the coordinator is closed.
  std::uint64_t id() const { return id_; }
  void add(std::string sentence) {
    sentences_.push_back(std::move(sentence));
    report();
  }
  void report() const { loop_.report(id_); }
  std::vector<std::string> take() { return std::exchange(sentences_, {}); }

 private:
  LoopHost& loop_;
  const std::uint64_t id_;
  std::vector<std::string> sentences_;
};

}  // namespace paceline
