// A policy: how requests that ranks submit in any order become batches that all ranks issue in one order.
//
// A policy is a pure state machine, one per rank: it has no clock, no socket and no thread. Its driver tells it what
// happens by the functions of the first part, and takes the actions that it wants from `next`, one at a time, until
// there are none. So the engine, the tests and a simulator drive the very same object. Several calls may come before
// the driver takes actions: what they have made ready then becomes one batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "policy/request.hpp"

namespace paceline {

// Carry these requests out together, in this order. On each channel the n-th Issue is the same on all ranks; channels
// do not wait for each other. Several requests in one Issue are all-reduces that may share a buffer (see can_fuse) and
// fit into `fusion_bytes`. A rank that has joined gets requests that it has not submitted, and gives zeros or no rows.
// With an error nothing is carried out: these requests fail on all ranks, each with that sentence, and everything else
// goes on.
struct Issue {
  std::vector<RequestPtr> requests;
  std::string error;
  std::uint32_t channel = 0;  // `graph` takes a new number for each run through its order; 0 for other policies
  bool revocable = false;     // a Cancel may take it back, so no caller's memory may change until it is done
};

// Take back the Issues on `channel` from number `from` on (the first is 0): no rank has done them or ever will, nothing
// more comes on this channel, and their requests will be issued on another one. Issues before `from` go on. This rank
// may not have issued that many.
struct Cancel {
  std::uint32_t channel = 0;
  std::uint64_t from = 0;
};

// Warns the user on this rank.
struct Warn {
  std::string sentence;
};

// All ranks have joined: the join is over, and all ranks may submit requests again.
struct Joined {
  int last = 0;  // the rank that joined last
};

// Bring this message to another rank of the group. Messages between two ranks must arrive in order.
struct Send {
  int to = 0;
  std::vector<std::byte> message;
};

// Combine these words over all ranks, bit by bit, and give the outcome to `synchronised`. Until then there is no
// further action, unless the wait is `test`. The number of words is the same on all ranks.
struct Synchronise {
  enum class Combine : std::uint8_t { band, min };
  enum class Wait : std::uint8_t {
    spin,   // the engine's thread does nothing else, and never sleeps
    yield,  // it gives its core to any thread that wants it, and never sleeps
    test,   // it looks for the outcome only when a Sleep is over, just before `wake`
  };
  std::vector<std::uint64_t> words;
  Combine combine = Combine::band;
  Wait wait = Wait::spin;
};

// Call `wake` at this time, in seconds of the same clock as `now`, and not before. Requests are noted meanwhile.
struct Sleep {
  double until = 0;
};

// Ring the bells of the ranks of this machine that sleep: there is something on the board.
struct Ring {};

using Action = std::variant<Issue, Joined, Send, Synchronise, Sleep, Ring, Cancel, Warn>;

// What a policy has done so far.
struct Counters {
  std::uint64_t cycles = 0;            // wake-ups of a polling policy
  std::uint64_t synchronisations = 0;  // of all ranks
  std::uint64_t messages = 0;          // sent
  std::uint64_t cache_hits = 0;        // requests that needed no description
  std::uint64_t cache_misses = 0;
  std::uint64_t issues = 0;      // batches
  std::uint64_t issued = 0;      // requests in them
  std::uint64_t deviations = 0;  // times that `graph` fell back to negotiation

  Counters& operator+=(const Counters& other);
};

class Policy {
 public:
  Policy() = default;
  virtual ~Policy() = default;
  Policy(const Policy&) = delete;
  Policy& operator=(const Policy&) = delete;

  // `now` is in seconds of one clock of this rank, which may be any.
  // This rank submits a request. It may use the same name again once that request is over on this rank. Throws Failure
  // (invalid) if there is no room, or the name is too long.
  virtual void submit(RequestPtr request, double now) = 0;
  // This rank has no more requests until all ranks have joined. The requests that it has submitted are still issued.
  virtual void join(double now) = 0;
  // A message has come from another rank. Throws Failure (invalid) if no policy can have sent it.
  virtual void receive(int from, std::span<const std::byte> message, double now) = 0;
  // The outcome of the last Synchronise is there.
  virtual void synchronised(std::span<const std::uint64_t> words, double now) = 0;
  // The time that the last Sleep named has come.
  virtual void wake(double now) = 0;
  // A rank has rung, or the engine's loop comes by: look at what ranks share without messages, which is the board.
  virtual void look(double now) = 0;
  // A caller waits for this request, which it has submitted before, and submits nothing more until it is over.
  virtual void awaited(const Request& request, double now) = 0;
  // A completion callback is registered for this request; no caller is blocked.
  virtual void wanted(const Request&, double /*now*/) {}
  // So many bytes of issued batches are not finished, and a policy may gather more requests meanwhile. The driver calls
  // this at every change: after an Issue, before it takes the next action; with 0 it lets go what was gathered.
  virtual void busy(std::uint64_t bytes) = 0;
  // Gives `graph` the names of each buffer, in the order in which buffers are issued. All ranks call this, with nothing
  // under way. Throws Failure (invalid) for an order that names something twice, and with other policies.
  virtual void set_order(const std::vector<std::vector<std::string>>& buffers);

  // Rank 0 may call this at any time: requests that are issued from some moment on, the same on all ranks, go out in
  // batches of at most so many bytes. Throws Failure (invalid) on other ranks, and with policies other than `board`.
  virtual void tune(std::uint64_t fusion_bytes);

  virtual std::optional<Action> next() = 0;

  // Lets another policy take over (see Switching). Rank 0 may call `rest` at any time: the policy comes to rest at one
  // moment, the same on all ranks, between two Issues on channel 0. Once `next` has nothing more, `rested` tells each
  // rank so, with the `words` that rank 0 gave; or it tells rank 0 alone that the rest is refused, because a rank has
  // joined. Then `take_back` gives the requests of this rank that were not issued, and forgets them and any join.
  // Nothing else is called before `resume`, after which everything is as before, on all ranks.
  struct Rest {
    bool refused = false;
    std::vector<std::uint64_t> words = {};
  };
  virtual void rest(std::vector<std::uint64_t> words) = 0;
  virtual std::optional<Rest> rested() = 0;
  virtual std::vector<RequestPtr> take_back() = 0;
  virtual void resume() = 0;

  // Has `switching` use another policy from some moment on, the same on all ranks; `graph` gets this order. Rank 0
  // alone calls this. Nothing happens if that policy is in use, or while another change is under way. The change is
  // refused if a rank has joined.
  struct Use {
    std::string name;
    bool refused = false;  // whether the change that was last asked for was refused
  };
  virtual void use(const std::string& name, const std::vector<std::vector<std::string>>& buffers);
  virtual Use in_use() const { return {}; }

  // Whether it wakes up again and again, even if there is nothing to do.
  virtual bool polls() const { return false; }

  // The group ranks that, as far as this rank knows, have not submitted this request, which is one of its own.
  virtual std::vector<int> missing(const Request& request) const = 0;
  // Whether `missing` tells of all ranks. Otherwise this rank hears nothing of some of them.
  virtual bool sees_all() const = 0;

  virtual Counters counters() const { return counters_; }

 protected:
  [[noreturn]] static void refuse_to_tune();

  Counters counters_;
};

}  // namespace paceline
