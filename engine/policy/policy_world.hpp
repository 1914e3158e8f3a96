// Ranks of a job that live in one thread, each with its own policy. The caller chooses what happens next, one event at
// a time. It serves tests, and anyone who wants to watch a policy.
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
    deliver,      // the oldest message from `from` arrives
    look,         // another rank has rung
    wake,         // it has slept long enough
    synchronise,  // it hears the outcome of what all ranks have given
    finish,       // it finishes the oldest batch of channel `from`
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
    std::map<std::uint32_t, std::size_t> finished;             // by channel: how many of those
    std::map<std::uint32_t, std::uint64_t> cancelled;          // by channel: from which number on
    std::map<std::string, RequestPtr, std::less<>> under_way;  // submitted and not over
    std::vector<std::pair<RequestPtr, std::string>> over;      // with their errors, empty if there was none
    std::vector<int> joins;                                    // the ranks that were last
    std::vector<std::string> said;
    std::deque<RequestPtr> waiting;  // requests whose names were submitted again before they were over
    bool joining = false;
    bool rung = false;
    bool sleeping = false;
    bool gave = false;         // it has given its part of a synchronisation
    std::size_t outcomes = 0;  // how many outcomes of synchronisations it was told
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

  // Return the events that can happen by themselves, and let one happen. These and the calls of users throw
  // std::logic_error if a policy breaks its contract: a rank issues something else than another rank in the same place,
  // or a request that it has not submitted although it has not joined, or takes back a batch that was done.
  std::vector<WorldEvent> events() const;
  void happen(const WorldEvent& event);

  // Throws std::logic_error if a request was submitted and is not over, or a batch was issued and is not done.
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
