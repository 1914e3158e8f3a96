// A group of ranks with a channel of its own: its members, the links to them, and its last collectives.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "execute/large_calls.hpp"
#include "execute/operation.hpp"
#include "execute/receive.hpp"
#include "program/plan.hpp"
#include "segment/method_tuner.hpp"
#include "segment/segment.hpp"

namespace paceline {

class OperationPool;

struct Member {
  int peer = -1;            // engine-wide handle, -1 for this rank itself
  Link* link = nullptr;     // null for this rank itself, and once the group was closed
  std::string description;  // "rank 2 (host, pid)", by its rank in the whole job
};

// A message from one rank's coordinator to another's, or a part of it.
struct Note {
  int from = 0;
  std::int32_t tag = 0;
  std::vector<std::byte> message;
};

class Group {
 public:
  std::uint64_t channel = 0;
  int rank = 0;
  std::vector<Member> members;
  std::chrono::duration<double> timeout{};
  Plans plans;
  const char* link_name = "";
  std::vector<int> machines;   // of every rank: those with equal numbers share one; empty while that is unknown
  Codec codec = Codec::none;   // of all-reduces whose caller does not say
  std::size_t coded_from = 0;  // bytes of a buffer from which they have it
  double pace = 0;  // of each stream to this rank from another machine, see Link::set_pace; 0 if it is unknown
  std::vector<double> send_rates;  // to every rank, see Link::set_send_rate; empty while unknown
  Matcher matcher;
  Error error;          // the first one; every later operation fails with it
  bool raised = false;  // a call of this rank has failed with it
  // Warnings do not name operations in a coordinator's own groups: the coordinator names its requests.
  enum class Use : std::uint8_t { callers, control, data };
  Use use = Use::callers;
  std::vector<int> parted;                  // ranks that have closed it: nothing more comes from them
  std::vector<Note> notes;                  // for the coordinator, as they came
  std::unique_ptr<SharedSegment> segment;   // of the members on this machine, where there are several
  int sharing = 0;                          // their number, which callers read without the engine's lock
  MethodTuner method_tuner;                 // of large all-reduces there
  std::unique_ptr<LargeCalls> large_calls;  // where plans follow the network, else null
  std::shared_ptr<OperationPool> pool;      // made by the engine, which knows the kinds of operations

  int size() const { return static_cast<int>(members.size()); }
  bool on_one_machine() const { return sharing == size(); }
  std::uint32_t sequence() const { return next_sequence_; }
  int rank_of(int peer) const;  // -1 if not a member
  const Plan& plan_for(std::string_view collective, std::size_t bytes) const;
  // The most bytes that collectives without a plan of their own give in one shot; 0 if members are on other machines.
  std::size_t one_shot_limit() const;
  std::string name_of(int group_rank) const;
  // The same of a rank by its description, also if it is not a member.
  std::string name_of(const std::string& description) const;
  // Whether a rank on this machine takes part in the group no more: what it has offered here is void, even while the
  // reason is still on its way.
  bool has_ended(int group_rank) const;
  // The error if reading the memory of `group_rank` has failed with this errno.
  Error unreadable(int group_rank, int failure) const;

  // The last collective that this rank began.
  const Fingerprint& last() const { return history_[(next_sequence_ - 1) % kHistory].what; }
  // Whether that one may have ended well everywhere although ranks named different roots, see Parting. On one machine
  // the last rank to begin sees that.
  bool may_disagree() const {
    return use == Use::callers && next_sequence_ > 0 && last().root >= 0 && !on_one_machine();
  }
  // Returns the number of the collective that starts now.
  std::uint32_t begin(const Fingerprint& what);
  // Returns both sides' fingerprints, in words, if `header` from `from` disagrees with what this rank does or did; else
  // nothing.
  std::string disagreement(const Header& header, int from) const;
  // Returns the same sentence for what rank `from` does, as its collective number `its`, instead of `ours`.
  std::string disagreement(const Fingerprint& ours, std::uint32_t sequence, const Fingerprint& theirs,
                           std::uint32_t its, int from) const;
  // Returns the same for everything that has already come for collective `sequence`.
  std::string disagreement_about(std::uint32_t sequence) const;
  // A call of `from` has raised before it began, as its call number `sequence`. Returns no error if that of this rank
  // has raised, too, or has yet to come.
  Error hear_refusal(int from, std::uint32_t sequence, std::string reason);
  // Returns the error of a call that this rank has begun and another one has refused.
  Error refused_elsewhere() const;
  void remember_status(const Header& header, int from);
  // Notes that `from` has begun the collective of `header`; tells which ranks have not begun collective `sequence`.
  void heard(const Header& header, int from);
  std::vector<int> unheard(std::uint32_t sequence) const;

  // Gives a message to the Receive that waits for it, or keeps it. Returns what is wrong with it, or nothing.
  std::string take(int from, std::unique_ptr<Arrival> arrival);
  // A message and the Receive that waits for it have met. Returns what is wrong with it, or nothing.
  std::string meet(Receive& receive, std::unique_ptr<Arrival> arrival);
  // Returns the Receive that waits for this message, if its bytes can go to their place as they come in; else null.
  Receive* expect(const Header& header, int from);

 private:
  static constexpr std::size_t kHistory = 64;
  // Whether this rank has come to the collective.
  bool is_past(std::uint32_t sequence) const { return static_cast<std::int32_t>(next_sequence_ - sequence) > 0; }
  struct Started {
    std::uint32_t sequence;
    Fingerprint what;
  };

  std::uint32_t next_sequence_ = 0;
  std::array<Started, kHistory> history_{};
  std::map<int, Header> statuses_;
  struct Refusal {
    int from;
    std::uint32_t sequence;
    std::string reason;
  };
  Error disagreement(const Refusal& theirs) const;
  std::vector<Refusal> refusals_;     // of calls that this rank had yet to come to
  std::vector<std::uint32_t> begun_;  // by rank: how many collectives it has begun, as far as this rank has heard
};

}  // namespace paceline
