// The policy `switching`, which serves tuning: it uses one of several policies at a time, the same on all ranks. Rank 0
// chooses which, while requests are submitted.
//
// The policy in use comes to rest at one moment, the same on all ranks, between two batches (see Policy::rest).
// Requests that were submitted to it and not issued are submitted to the next policy. So no request is lost or issued
// twice, and batches come in the same order everywhere, whatever ranks were doing. Messages say how many policies their
// sender has had. A message from a rank that is ahead waits. A message from a rank that was behind when it sent it is
// about requests that all ranks have taken back since, and is dropped.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "policy/board_memory.hpp"
#include "policy/make.hpp"
#include "policy/policy.hpp"

namespace paceline {

class Switching : public Policy {
 public:
  // The policies are board, with which it begins, graph, and cycle, which yields while it waits.
  static constexpr std::array<const char*, 3> kNames = {"board", "graph", "cycle"};

  Switching(const PolicyOptions& options, const Seat& seat, BoardMemory& board, BoardMemory& graph);

  void use(const std::string& name, const std::vector<std::vector<std::string>>& buffers) override;
  Use in_use() const override { return {kNames[active_], refused_}; }

  void submit(RequestPtr request, double now) override;
  void join(double now) override;
  void receive(int from, std::span<const std::byte> message, double now) override;
  void synchronised(std::span<const std::uint64_t> words, double now) override;
  void wake(double now) override;
  void look(double now) override;
  void awaited(const Request& request, double now) override;
  void wanted(const Request& request, double now) override;
  void busy(std::uint64_t bytes) override;
  void tune(std::uint64_t fusion_bytes) override { active().tune(fusion_bytes); }
  std::optional<Action> next() override;
  std::vector<int> missing(const Request& request) const override { return active().missing(request); }
  bool sees_all() const override { return active().sees_all(); }
  bool polls() const override { return active().polls(); }
  Counters counters() const override;

  // No other policy takes over from this one.
  void rest(std::vector<std::uint64_t>) override {}
  std::optional<Rest> rested() override { return std::nullopt; }
  std::vector<RequestPtr> take_back() override { return {}; }
  void resume() override {}

 private:
  enum class Attention : std::uint8_t { wanted, awaited };

  Policy& active() { return *policies_[active_]; }
  const Policy& active() const { return *policies_[active_]; }
  void switch_to(std::span<const std::uint64_t> words);
  void attend(const Request& request, Attention how);

  const int rank_;
  const int size_;
  std::array<std::unique_ptr<Policy>, kNames.size()> policies_;
  std::size_t active_ = 0;
  std::uint64_t switches_ = 0;
  bool asked_ = false;  // on rank 0: it has asked for a switch that has not come yet
  bool refused_ = false;

  double now_ = 0;
  std::uint64_t busy_ = 0;
  bool sleeps_ = false;
  bool joining_ = false;
  std::unordered_map<const Request*, Attention> attended_;  // requests that callers wait for, and that are not issued
  // Messages from ranks that are ahead, by how many switches their senders have had.
  std::map<std::uint64_t, std::vector<std::pair<int, std::vector<std::byte>>>> early_;
};

}  // namespace paceline
