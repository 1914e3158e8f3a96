// A policy: how requests that ranks hand in in any order become batches that all ranks issue in one order.
//
// A pure state machine, one per rank: no clock, no socket, no thread. What happens to the rank comes in by the
// functions of the first part; what it wants done it gives out by `next`, one action at a time, until it has none.
// So the engine, the tests and a simulator drive the very same object. After every call the driver takes actions
// until there are none: several calls in a row are answered together, so that what they made ready is one batch.
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

// Carry these out together, in this order. On each channel the n-th Issue is the same on all ranks; channels do not
// wait for each other. Several requests together are all-reduces that may share a buffer (see can_fuse) and fit into
// `fusion_bytes`. Requests that this rank has not handed in are there too, for a rank that has joined: it gives zeros,
// or no rows. With an error nothing is carried out: these requests fail, each with that sentence, on all ranks, and
// everything else goes on.
struct Issue {
  std::vector<RequestPtr> requests;
  std::string error;
  std::uint32_t channel = 0;  // 0, but for `graph`, which takes a new number for each run through its order
  bool revocable = false;     // a Cancel may take it back: until it is done, nobody's memory may change
};

// Of the Issues on `channel`, those from number `from` on (the first is 0) are taken back: they are not done on any
// rank and never will be, nothing more comes on this channel, and their requests will be issued on another one. Those
// before `from` go on. This rank may not have issued that many.
struct Cancel {
  std::uint32_t channel = 0;
  std::uint64_t from = 0;
};

// Warns the user on this rank.
struct Warn {
  std::string sentence;
};

// All ranks have joined: the join is over, and everybody may hand in requests again.
struct Joined {
  int last = 0;  // the rank that joined last
};

// Bring this to another rank of the group. Messages between two ranks arrive in order.
struct Send {
  int to = 0;
  std::vector<std::byte> message;
};

// Combine these words over all ranks, bit by bit, and give the outcome to `synchronised`. Until then there is no
// further action, but for `test`. The number of words is the same on all ranks.
struct Synchronise {
  enum class Combine : std::uint8_t { band, min };
  enum class Wait : std::uint8_t {
    spin,   // the engine's thread does nothing else, and never sleeps
    yield,  // it gives its core to whoever wants it, and never sleeps
    test,   // it looks whether it is there when a Sleep is over, just before `wake`
  };
  std::vector<std::uint64_t> words;
  Combine combine = Combine::band;
  Wait wait = Wait::spin;
};

// Call `wake` at this time, in seconds of the clock that `now` is of, and not before; requests are noted meanwhile.
struct Sleep {
  double until = 0;
};

// Ring the bells of the ranks of this machine that sleep: there is something on the board.
struct Ring {};

using Action = std::variant<Issue, Joined, Send, Synchronise, Sleep, Ring, Cancel, Warn>;

// What a policy has done so far.
struct Counters {
  std::uint64_t cycles = 0;            // wake-ups of a polling policy
  std::uint64_t synchronisations = 0;  // of them, or of anybody
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

  // `now` is in seconds, of any one clock of this rank.
  // This rank hands in a request. Not again under the same name before that one is over on this rank. Throws Failure
  // (invalid) if there is no room, or the name is too long.
  virtual void submit(RequestPtr request, double now) = 0;
  // This rank has no more requests until everybody has joined. Those it has handed in are issued all the same.
  virtual void join(double now) = 0;
  // A message from another rank. Throws Failure (invalid) if it cannot be one of a policy's.
  virtual void receive(int from, std::span<const std::byte> message, double now) = 0;
  // The outcome of the last Synchronise.
  virtual void synchronised(std::span<const std::uint64_t> words, double now) = 0;
  // The time that Sleep named has come.
  virtual void wake(double now) = 0;
  // Somebody rang, or the engine's loop came by: look at what ranks share without messages (the board).
  virtual void look(double now) = 0;
  // A caller waits for this request, handed in before, and hands in nothing more until it is over.
  virtual void awaited(const Request& request, double now) = 0;
  // Somebody wants to hear of it when this request is over, though no caller is held up.
  virtual void wanted(const Request&, double /*now*/) {}
  // As many bytes of batches issued are not finished; a policy may gather more requests meanwhile. To be said at every
  // change: after an Issue before the next action is taken; and 0 lets go what was gathered.
  virtual void busy(std::uint64_t bytes) = 0;
  // For `graph`, on all ranks, with nothing under way: the names of each buffer, in the order in which buffers are
  // issued. Throws Failure (invalid) for an order that names something twice, and with other policies.
  virtual void set_order(const std::vector<std::vector<std::string>>& buffers);

  // On rank 0, at any time: requests that are issued from some moment on, the same on all ranks, go out in batches of
  // at most so many bytes. Throws Failure (invalid) on other ranks, and with policies other than `board`.
  virtual void tune(std::uint64_t fusion_bytes);

  virtual std::optional<Action> next() = 0;

  // So that another policy can take over (see Switching). On rank 0, at any time: comes to rest at one moment, the same
  // on all ranks between two Issues on channel 0. Once `next` has nothing more, each rank is told so by `rested`, with
  // the `words` that rank 0 gave; or rank 0 alone that it is refused, because somebody has joined. Then `take_back`
  // gives what this rank has handed in, until then, that was not issued, and forgets that, and any join. Nothing else
  // is called before `resume`: from there on, on all ranks, everything is as before.
  struct Rest {
    bool refused = false;
    std::vector<std::uint64_t> words = {};
  };
  virtual void rest(std::vector<std::uint64_t> words) = 0;
  virtual std::optional<Rest> rested() = 0;
  virtual std::vector<RequestPtr> take_back() = 0;
  virtual void resume() = 0;

  // For `switching`, on rank 0: another policy is used from some moment on, the same on all ranks, `graph` with this
  // order. Nothing happens if it is in use, or while another change is under way. It is refused if a rank has joined.
  struct Use {
    std::string name;
    bool refused = false;  // what was last asked for
  };
  virtual void use(const std::string& name, const std::vector<std::vector<std::string>>& buffers);
  virtual Use in_use() const { return {}; }

  // Whether it wakes up again and again, also when there is nothing to do.
  virtual bool polls() const { return false; }

  // Group ranks that, as far as this rank knows, have not handed in this request of its own.
  virtual std::vector<int> missing(const Request& request) const = 0;

  virtual Counters counters() const { return counters_; }

 protected:
  [[noreturn]] static void refuse_to_tune();

  Counters counters_;
};

}  // namespace paceline
