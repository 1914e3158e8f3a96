// The requests of this rank: each is handed to the policy once the one before it of the same name is over.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "coordinator/agreement.hpp"
#include "coordinator/device_calls.hpp"
#include "coordinator/pending_request.hpp"
#include "coordinator/request_arguments.hpp"
#include "progress/loop_host.hpp"

namespace paceline {

class Requests {
 public:
  Requests(LoopHost& loop, std::shared_ptr<Group> control, Agreement& agreement, DeviceCalls& device_calls)
      : loop_(loop), control_(std::move(control)), agreement_(agreement), device_calls_(device_calls) {}

  // Takes a request on. Returns whether the policy has it already. Throws what the policy throws.
  bool submit(const std::shared_ptr<PendingRequest>& pending, const RequestArguments& arguments, Clock::time_point now);
  // Takes on the join of this rank.
  void join(PendingRequest& pending, Clock::time_point now);
  // The policy has issued the request of this name: notes that and when. Returns it; null if this rank has none.
  std::shared_ptr<PendingRequest> issue(std::string_view name, std::uint64_t batch, Clock::time_point now);
  // Ends a request, well, or with this error.
  void settle(PendingRequest& pending, const Error& error = {});
  // Ends all requests with this error; no other has its turn any more.
  void fail_all(const Error& error);

  // Whether the policy has a request of this name.
  bool has(std::string_view name) const;
  // The requests that are not over, in any order.
  const std::vector<PendingRequest*>& under_way() const { return under_way_; }
  std::vector<PendingRequest*> oldest_first() const;
  // Returns the records with numbers above `after`, in the order in which requests ended; old ones are forgotten.
  std::vector<Record> records(std::uint64_t after) const;

 private:
  static constexpr std::size_t kRecords = 8192;
  static constexpr std::size_t kNamesKept = 4096;
  struct Name {
    RequestPtr request;                                   // the last one, kept to be used again
    std::shared_ptr<PendingRequest> current;              // the one that the policy has
    std::deque<std::shared_ptr<PendingRequest>> waiting;  // the ones that wait for their turn
    bool issued_before = false;                           // all ranks have heard of this name
  };
  struct NameHash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  using Names = std::unordered_map<std::string, Name, NameHash, std::equal_to<>>;

  void submit_now(Name& name, std::shared_ptr<PendingRequest> pending, Clock::time_point now);
  void submit_next(const PendingRequest& ended, Clock::time_point now);
  void add(PendingRequest& pending, Clock::time_point now);
  void remove(const PendingRequest& pending);
  void record(Record&& record);

  LoopHost& loop_;
  const std::shared_ptr<Group> control_;
  Agreement& agreement_;
  DeviceCalls& device_calls_;
  Names names_;
  std::vector<PendingRequest*> under_way_;
  std::vector<Record> records_;
  std::size_t next_record_ = 0;
  bool failing_ = false;
};

}  // namespace paceline
