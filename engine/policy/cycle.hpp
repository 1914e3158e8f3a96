// The polling policies: `cycle` (Horovod v0.16.3), `global_sleep` and `nonblocking` (its remedies GS and NBCS, from
// "Load imbalance in data processing for large-scale deep learning", sections III-B and IV).
//
// Every cycle all ranks combine a vector of bits by AND: which requests of their response caches they have, and
// inverted whether they have others, or some that changed. What all have is issued in the order of the bits. If anybody
// has others, all send those to rank 0, which answers with what is ready everywhere. Between cycles ranks sleep for
// what is left of the cycle's time.
//
// global_sleep: every `sleep_every` cycles all sleep for the least of their times.
// nonblocking: the combination is only looked at once per cycle, and the cycle goes on sleeping if it is not there.
//
// Joining, of which v0.16.3 knows nothing, works as in later versions: a rank that has joined has every bit. While any
// has, a second vector tells which bits somebody wants.
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

 private:
  enum class Phase : std::uint8_t {
    carrying_out,   // what the last cycle issued
    measuring,      // global_sleep: the cycle is over now
    agreeing,       // global_sleep: on the time to sleep
    sleeping,       // until the next cycle
    synchronising,  // bits
    invalidating,   // the bits of requests that changed
    gathering,      // rank 0: what is not in the cache
    ordered,        // other ranks: the answer
  };

  // What rank 0 knows of a request that is not in the cache.
  struct Pending {
    std::vector<RequestPtr> descriptions;
    std::vector<int> number;  // by rank: of its description, -1 if it has not handed it in
    int handed_in = 0;
    std::int32_t priority = 0;
  };

  void begin_cycle(double now);
  void begin_synchronisation();
  void synchronise(Phase phase, std::vector<std::uint64_t> words);
  void outcome();
  void conclude();
  void gather();
  void take_list(int from, std::span<const std::uint64_t> words);
  void count(int from, const RequestPtr& request, std::int32_t priority);
  void answer();
  void put_ready(const std::string& name);
  void put_rest();
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
  double began_ = 0;  // the cycle, after its sleep
  std::uint64_t busy_ = 0;

  std::vector<RequestPtr> queue_;
  std::vector<RequestPtr> held_;                 // on rank 0, handed in after `rest`: they wait for what comes then
  std::vector<RequestPtr> taken_;                // from it, by this cycle
  std::map<std::string_view, RequestPtr> sent_;  // to rank 0, not issued yet
  std::vector<std::uint32_t> hits_;              // bits that all ranks have
  std::vector<RequestPtr> own_;                  // by bit: handed in by this rank
  std::vector<std::uint32_t> invalid_;           // bits of requests that changed here
  std::vector<std::uint64_t> given_;             // to the synchronisation under way
  std::vector<std::uint64_t> outcome_;           // of it
  bool has_outcome_ = false;
  bool uncached_ = false;

  std::map<std::string, Pending, std::less<>> pending_;  // on rank 0
  std::vector<std::string> ready_;
  std::vector<Words> lists_;  // on rank 0, by rank: what the cycle's gathering brought
  int lists_missing_ = 0;
  Words order_;

  bool wants_to_join_ = false;  // rank 0 was not told yet
  std::vector<bool> joined_;    // as rank 0 has told everybody
  int joins_ = 0;
  int joins_before_ = 0;  // when the cycle began
  int last_joined_ = 0;
  std::optional<std::vector<std::uint64_t>> rest_words_;  // on rank 0: not said yet
  Words resting_;
  bool at_rest_ = false;
  std::optional<Rest> rested_;
  std::vector<Issue> batches_;
  std::deque<Action> actions_;
};

}  // namespace paceline
