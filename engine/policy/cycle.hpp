// The polling policies: `cycle`, which is that of Horovod v0.16.3, and its remedies `global_sleep` (GS) and
// `nonblocking` (NBCS), from "Load imbalance in data processing for large-scale deep learning", sections III-B and IV.
//
// In every cycle all ranks combine a vector of bits by AND. The bits say which requests of its response cache a rank
// has, and, inverted, whether it has others, or some that changed. Requests that all ranks have are issued in the order
// of the bits. If any rank has others, all ranks send theirs to rank 0, which answers with those that are ready
// everywhere. Between cycles ranks sleep for what is left of the cycle's time.
//
// global_sleep: every `sleep_every` cycles all ranks sleep for the least of their times.
// nonblocking: a rank looks at the combination only once per cycle, and goes on sleeping if it is not there.
//
// Joining, which v0.16.3 does not have, works as in later versions: a rank that has joined sets every bit. While any
// rank has joined, a second vector tells which bits other ranks want.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "policy/entry.hpp"
#include "policy/make.hpp"
#include "policy/policy.hpp"
#include "policy/response_cache.hpp"
#include "policy/window.hpp"

namespace paceline {

class Cycle : public Policy {
 public:
  enum class Remedy : std::uint8_t { none, global_sleep, nonblocking };

  Cycle(const PolicyOptions& options, const Seat& seat, Remedy remedy);

  void submit(RequestPtr request, double now) override;
  void join(double) override { wants_to_join_ = true; }
  void receive(int from, std::span<const std::byte> message, double now) override;
  void synchronised(std::span<const std::uint64_t> words, double now) override;
  void wake(double now) override;
  void look(double) override {}
  void awaited(const Request&, double) override {}
  void busy(std::uint64_t bytes) override { busy_ = bytes; }
  std::optional<Action> next() override;
  void rest(std::vector<std::uint64_t> words) override { rest_words_ = std::move(words); }
  std::optional<Rest> rested() override { return std::exchange(rested_, std::nullopt); }
  std::vector<RequestPtr> take_back() override;
  void resume() override { at_rest_ = false; }
  bool polls() const override { return true; }
  std::vector<int> missing(const Request& request) const override;
  bool sees_all() const override { return rank_ == 0; }

 private:
  enum class Phase : std::uint8_t {
    carrying_out,   // the batches that the last cycle issued are carried out
    measuring,      // global_sleep: the cycle is over, and its time is taken
    agreeing,       // global_sleep: ranks agree on the time to sleep
    sleeping,       // the rank sleeps until the next cycle
    synchronising,  // ranks combine their bits
    invalidating,   // ranks combine the bits of requests that changed
    gathering,      // rank 0 waits for the requests that are not in caches
    ordered,        // other ranks wait for its answer
  };

  struct Queued {
    RequestPtr request;
    ResponseCache::Place place = ResponseCache::kNowhere;  // where it was in the cache when it was last looked for
  };

  // What rank 0 knows of a request that is not in the cache.
  struct Pending {
    std::vector<RequestPtr> descriptions;
    std::vector<int> number;  // by rank: the number of its description, -1 if it has not submitted the request
    int submitted = 0;
    std::int32_t priority = 0;
  };

  void begin_cycle(double now);
  void begin_synchronisation();
  void take_queue();
  void synchronise(Phase phase, std::vector<std::uint64_t> words);
  void outcome();
  void conclude();
  void part_taken();
  void gather();
  void count(int from, const RequestPtr& request, std::int32_t priority);
  void answer();
  void put_ready(const std::string& name);
  void put_rest();
  void let_in_held();
  void carry_out_hits();
  void obey(std::span<const std::uint64_t> words);
  void obey_entry(std::span<const std::uint64_t> entry);
  void end_cycle(bool anything);
  void send(int to, const Words& words);
  RequestPtr take_own(std::string_view name);

  const PolicyOptions options_;
  const Remedy remedy_;
  const int rank_;
  const int size_;
  ResponseCache cache_;
  Window window_;
  Phase phase_ = Phase::carrying_out;
  double began_ = 0;  // when the cycle began, after its sleep
  std::uint64_t busy_ = 0;

  std::vector<Queued> queue_;                    // requests submitted since a cycle has begun
  std::vector<RequestPtr> held_;                 // on rank 0: requests submitted after `rest`, for the next policy
  std::vector<Queued> taken_;                    // requests that cycles have taken, and that not all ranks have
  std::uint64_t looked_at_ = 0;                  // the changes of the cache when they were looked for
  std::vector<std::uint64_t> have_;              // the bits of those
  std::vector<RequestPtr> unknown_;              // requests that this cycle has not found in the cache
  std::map<std::string_view, RequestPtr> sent_;  // requests that rank 0 has been sent, and that are not issued yet
  std::vector<std::uint32_t> hits_;              // bits that all ranks have
  std::vector<RequestPtr> own_;                  // for each of those bits: the request of this rank
  std::vector<std::uint32_t> invalid_;           // bits of requests that changed here
  std::vector<std::uint64_t> given_;             // what this rank gives to the synchronisation under way
  std::vector<std::uint64_t> outcome_;           // the outcome of that
  bool has_outcome_ = false;
  bool uncached_ = false;

  std::map<std::string, Pending, std::less<>> pending_;  // on rank 0
  std::vector<std::string> ready_;
  std::vector<Words> lists_;  // on rank 0, by rank: what the cycle's gathering brought
  int lists_missing_ = 0;
  Words order_;

  bool wants_to_join_ = false;  // this rank wants to join, and has not told rank 0 yet
  std::vector<bool> joined_;    // the ranks that have joined, as rank 0 has told all
  int joins_ = 0;
  int joins_before_ = 0;  // how many ranks had joined when the cycle began
  int last_joined_ = 0;
  std::optional<std::vector<std::uint64_t>> rest_words_;  // on rank 0: the words of a rest that it has yet to tell
  Words resting_;
  bool at_rest_ = false;
  std::optional<Rest> rested_;
  std::vector<Issue> batches_;
  std::deque<Action> actions_;
};

}  // namespace paceline
