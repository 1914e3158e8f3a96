// Follows from rank to rank who waits for whom, in whichever group or message that is, to those who wait for nobody.
//
// A rank that is waited for in an operation either takes part in it, and then waits for those whom it misses there; or
// it has not come to it yet, because a thread of its program waits in other operations. One that does not answer, or
// whose program waits in no operation, waits for nobody, whatever it has under way.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "progress/wait_report.hpp"

namespace paceline {

// Whom an operation waits for in the end.
struct Blame {
  struct Root {
    std::string who;
    std::vector<std::string> by;  // the ranks in between that wait in other operations, the nearest first
  };
  std::vector<Root> roots;
  // Ranks of which each waits for the next, and the last for the first: nobody is to blame. The root is one of them.
  std::vector<std::string> circle;
};

class WaitGraph {
 public:
  // Returns what a rank has said lately, or null if it has not.
  using Heard = std::function<const WaitReport*(const std::string& who)>;

  // settled: a rank that has waited for less than that goes on with its program, as far as is known.
  WaitGraph(Heard heard, Clock::duration settled) : heard_(std::move(heard)), settled_(settled) {}

  // Adds what `who` waits for in operations of its own.
  void begin(const std::string& who, const std::vector<OwnWait>& waits, Clock::time_point now);
  // Empty if all of them move on together.
  Blame blame() const;
  // All ranks that are waited for, the nearest first.
  std::vector<std::string> ranks() const;

 private:
  // A rank that is waited for in an operation.
  struct Needed {
    std::string who;
    CallId call;
    std::string by;          // the other end of a message
    bool elsewhere = false;  // it has not come to the operation
    bool ends = false;       // it waits for nobody
  };
  // A rank waits for another, as was so between these times.
  struct Edge {
    std::size_t to;
    Clock::time_point since;
    Clock::time_point until;
  };
  using Key = std::tuple<std::string, CallId, std::string>;
  using Ends = std::vector<bool>;  // by place

  std::size_t find(const std::string& who, const CallId& call, const std::string& by);
  void follow(std::size_t at);
  void connect(std::size_t at, const OwnWait& wait, Clock::time_point seen);
  std::vector<bool> held() const;
  Ends ends() const;
  std::vector<std::size_t> ways(const Ends& ends) const;
  std::vector<Edge> way_to_next(std::size_t from) const;
  Blame::Root way_to(std::size_t at, const std::vector<std::size_t>& before) const;
  Blame circle_from(std::size_t at) const;

  Heard heard_;
  Clock::duration settled_;
  std::vector<Needed> needed_;
  std::vector<std::vector<Edge>> edges_;  // of each of these
  std::map<Key, std::size_t> places_;
};

}  // namespace paceline
