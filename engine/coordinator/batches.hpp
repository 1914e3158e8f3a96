// The batches that a policy has issued, one after the other on each channel.
//
// Every channel has a group of its own: if batches are taken back, no rank can end in that group what others have
// begun. A new channel takes the place of the last one, unless that is channel 0, whose batches are never taken back.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "coordinator/batch_work.hpp"
#include "coordinator/device_calls.hpp"
#include "policy/policy.hpp"
#include "progress/loop_host.hpp"

namespace paceline {

class Batches {
 public:
  using Finished = std::function<void(PendingRequest&)>;

  // `data` carries the batches of channel 0, and shows how to make the others. `moved` is called, with the engine's
  // lock held, when there may be something to `advance` for another reason than that the engine's loop has come
  // further.
  Batches(const std::shared_ptr<Engine>& engine, std::shared_ptr<Group> data, Finished finished,
          std::function<void()> moved);

  // Engine::notifications returns this id once channel 0 has stopped before a large batch: see LargeCalls.
  std::uint64_t stops_id() const { return stops_id_; }
  // The next number on a channel is that of a batch that carries nothing.
  void skip(std::uint32_t channel) { ++stream_of(channel).issued; }
  void add(std::uint32_t channel, std::vector<Carried> batch, std::uint64_t bytes);
  // This rank does not take part any more in batches from that number on, even if other ranks have begun some. It does
  // take part in those before, even if it has yet to begin on the channel.
  void cancel(const Cancel& what);
  // Moves them on. A caller that submits a request leaves the packing of large batches to the engine's thread. Returns
  // whether anything moved. Throws Failure, or std::bad_alloc.
  bool advance(bool submitting);

  // The bytes of the batches that are not over; each batch counts at least 1.
  std::uint64_t bytes() const { return bytes_; }
  // How many are over.
  std::uint64_t ended() const { return ended_; }
  // Whether there is something to do that does not wait for a collective.
  bool has_work() const;
  // The collectives under way.
  std::vector<Handle> moving() const;
  // Who starts batches whose memory is a device's: those of channel 0 alone.
  DeviceCalls& device_calls() { return device_calls_; }
  // The first error of a channel's group, or that of a device; null if there is none.
  const Error* error() const;

  void fail_groups(const Error& error);
  // Forgets them.
  void clear();
  // Leaves the groups.
  void drop();

 private:
  struct Batch {
    std::uint64_t number = 0;  // on its channel
    std::uint64_t bytes = 0;
    std::vector<Carried> carried;
    std::unique_ptr<BatchWork> work;  // null until its turn has come
    std::int64_t large = -1;          // its number in Group::large_calls, -1 if it is not counted there
  };
  struct Stream {
    Stream(Batches& owner, std::shared_ptr<Group> own_group, std::uint32_t own_channel);

    std::shared_ptr<Group> group;
    std::uint32_t channel;
    std::uint64_t issued = 0;
    bool stopped = false;  // it has stopped before its next batch, and this was reported
    FusionMemory fusion;
    BatchContext context;
    std::deque<Batch> queue;
    bool ending = false;    // no batch comes beyond those that are due
    std::uint64_t due = 0;  // batches in all; other ranks may have begun some that this one has yet to issue
  };

  // Channels that are used no more. They are used in the order of their numbers, and so few need be kept.
  class ClosedChannels {
   public:
    void add(std::uint32_t channel) {
      beyond_.insert(channel);
      while (beyond_.erase(first_open_) != 0) ++first_open_;
    }
    bool contains(std::uint32_t channel) const { return channel < first_open_ || beyond_.contains(channel); }

   private:
    std::uint32_t first_open_ = 1;  // channel 0 ends with its coordinator
    std::set<std::uint32_t> beyond_;
  };

  Stream* find_stream(std::uint32_t channel);
  Stream& stream_of(std::uint32_t channel);
  bool advance(Stream& stream, bool submitting);
  static bool stops(const Stream& stream);
  void report_stop(Stream& stream);
  static void begin(Stream& stream);
  void end(Stream& stream);
  static void abandon(const BatchWork& work);

  Engine& engine_;
  LoopHost& loop_;  // the same engine
  const Finished finished_;
  DeviceCalls device_calls_;
  const std::uint64_t stops_id_;
  ClosedChannels closed_;
  std::vector<std::unique_ptr<Stream>> streams_;  // the first one is that of channel 0
  std::uint64_t bytes_ = 0;
  std::uint64_t ended_ = 0;
};

}  // namespace paceline
