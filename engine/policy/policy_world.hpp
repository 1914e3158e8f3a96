// Ranks of a job that live in one thread, each with its own policy: what happens next is chosen from outside, one event
// at a time. For tests, and for whoever wants to watch a policy.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "policy/board_memory.hpp"
#include "policy/make.hpp"
#include "policy/policy.hpp"

namespace paceline {

// Something that can happen to `rank`.
struct WorldEvent {
  enum class Kind : std::uint8_t {
    deliver,      // the oldest message from `from`
    look,         // somebody has rung
    wake,         // it has slept long enough
    synchronise,  // the outcome of what all ranks have given
    finish,       // the oldest batch of channel `from` that it has not finished
  };
  Kind kind = Kind::look;
  int rank = 0;
  int from = 0;

  bool operator==(const WorldEvent&) const = default;
};

class PolicyWorld {
 public:
  struct Batch {
    std::vector<RequestPtr> requests;
    std::string error;
    bool revocable = false;
  };
  struct Rank {
    std::unique_ptr<Policy> policy;
    std::map<std::uint32_t, std::vector<Batch>> issued;        // by channel
    std::map<std::uint32_t, std::size_t> finished;             // of those
    std::map<std::uint32_t, std::uint64_t> cancelled;          // from which number on
    std::map<std::string, RequestPtr, std::less<>> under_way;  // handed in and not over
    std::vector<std::pair<RequestPtr, std::string>> over;      // with their errors, empty if there is none
    std::vector<int> joins;                                    // the ranks that were last
    std::vector<std::string> said;
    std::deque<RequestPtr> waiting;  // handed in again before they were over
    bool joining = false;
    bool rung = false;
    bool sleeping = false;
    bool gave = false;         // its part of a synchronisation
    std::size_t outcomes = 0;  // of synchronisations that it was told
    double now = 0;
    double until = 0;
    std::vector<std::uint64_t> words;
    Synchronise::Combine combine = Synchronise::Combine::band;
  };
  using BoardMaker = std::function<std::unique_ptr<BoardMemory>(int machine, int ranks)>;

  PolicyWorld(const std::string& policy, const PolicyOptions& options, const std::vector<int>& machine_of,
              const BoardMaker& make_board);
  PolicyWorld(const PolicyWorld&) = delete;
  PolicyWorld& operator=(const PolicyWorld&) = delete;

  int size() const { return static_cast<int>(ranks_.size()); }
  const Rank& rank(int number) const { return ranks_[static_cast<std::size_t>(number)]; }
  Policy& policy(int number) { return *ranks_[static_cast<std::size_t>(number)].policy; }

  // What users do. A request whose name is under way on this rank waits its turn.
  void submit(int rank, RequestPtr request);
  void join(int rank);
  void await(int rank, const std::string& name);
  void set_order(int rank, const std::vector<std::vector<std::string>>& buffers);
  void tune(int rank, std::uint64_t fusion_bytes);
  void use(const std::string& name, const std::vector<std::vector<std::string>>& buffers);

  // What can happen by itself, and letting it happen. What users do and what happens throw std::logic_error if a policy
  // breaks its word: a rank issues what another has not issued in its place; or what it has not handed in, though it
  // has not joined; or takes back what was done.
  std::vector<WorldEvent> events() const;
  void happen(const WorldEvent& event);

  // Throws std::logic_error if anything was handed in and is not over, or issued and is not done.
  void check_over() const;

 private:
  Rank& at(int number) { return ranks_[static_cast<std::size_t>(number)]; }
  bool all_issued(std::uint32_t channel, std::size_t number) const;
  void drain(int number);
  void act(int number, Action action);
  void issue(int number, Issue issue);
  void settle_request(int number, const RequestPtr& request, const std::string& error);
  void tell_busy(int number);

  std::vector<int> machine_of_;
  std::map<int, std::vector<std::unique_ptr<BoardMemory>>> boards_;  // by machine
  std::vector<Rank> ranks_;
  std::map<std::pair<int, int>, std::deque<std::vector<std::byte>>> messages_;  // from, to
  std::vector<std::vector<std::uint64_t>> outcomes_;
};

}  // namespace paceline
