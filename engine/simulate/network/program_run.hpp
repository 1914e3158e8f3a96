// A collective in virtual time: the programs of all ranks, as the engine lowers them, on links that are shared fairly.
//
// A program is carried out as message/ does it: the messages of a stage are under way together, a stage begins when the
// one before it is complete, and so many tracks are under way at once. What computation takes is not modelled.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "program/plan.hpp"
#include "program/program.hpp"
#include "simulate/event_queue.hpp"
#include "simulate/network/fluid.hpp"
#include "simulate/network/tree.hpp"

namespace paceline::simulate {

// What messages cost beside the bytes that they carry, as in the planner's cost model (see paceline.calibration.plan).
struct MessageCost {
  double between = 0;         // seconds of a rank's time for one more message between machines, at either end
  double within = 0;          // the same within a machine
  double shared_between = 0;  // seconds of a CPU for a message between machines, where ranks share CPUs
  double shared_within = 0;   // the same within a machine
  double header = 0;          // bytes that a message between machines adds to its payload
};

// Returns the program of one rank for an all-reduce (a sum) of `count` float32 on `size` ranks, as the engine lowers
// it. Its addresses are not those of memory.
Program lowered(const Plan& plan, int rank, int size, std::size_t count);

class ProgramRun {
 public:
  // Throws Failure (invalid) for a tree that makes no sense, or programs for other ranks than it has.
  ProgramRun(Tree tree, std::vector<Program> programs, const MessageCost& message);

  // Carries out all programs; every rank begins at 0. Returns the seconds that each rank takes. Throws std::logic_error
  // if they stop before they are complete. To be called once.
  std::vector<double> run();

  // What has happened: messages that left, came and were taken in.
  std::uint64_t events() const { return events_; }
  std::uint64_t messages() const { return messages_; }
  // Bytes that have crossed each direction of a link, with headers.
  const std::vector<double>& carried() const { return fluid_.carried(); }

 private:
  enum class Kind : std::uint8_t { leave, arrive, take };
  struct Message {
    std::uint32_t stream = 0;
    std::uint32_t tag = 0;
    std::uint32_t track = 0;  // of the sender
    std::uint32_t stage = 0;
    double bytes = 0;  // with headers
  };
  struct What {
    Kind kind = Kind::leave;
    std::uint32_t message = 0;
  };
  // The messages from one rank to another, one after the other.
  struct Stream {
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    std::size_t number = 0;  // of the fluid's
    bool between = false;    // machines
    double latency = 0;      // seconds
    std::vector<std::uint32_t> queue;
    std::size_t first = 0;              // in the queue: under way
    std::vector<std::uint32_t> by_tag;  // at the receiver, see kHere
  };
  struct Track {
    std::size_t stage = 0;
    std::size_t end = 0;
    std::uint32_t awaited = 0;        // messages of this stage that have not been taken in
    std::uint32_t sends = 0;          // that have not left yet
    std::uint32_t earlier_sends = 0;  // those of stages before this one
    bool after_sends = false;         // this stage is not complete before those have left
  };
  struct Rank {
    Program program;
    std::vector<Track> tracks;
    std::size_t oldest = 0;
    std::size_t begun = 0;
    double sends_at = 0;  // seconds; its next message leaves no earlier
    double takes_at = 0;  // seconds; it takes in no other message earlier
    double over = -1;     // seconds
  };

  // In by_tag: nobody knows of the message yet, or it has been taken in; else one more than the track that awaits it.
  static constexpr std::uint32_t kUnknown = 0;
  static constexpr std::uint32_t kHere = ~0U;

  Stream& stream(std::size_t from, std::size_t to);
  std::uint32_t& of_tag(Stream& stream, std::int32_t tag);
  void begin_tracks(std::size_t rank);
  void post_stage(std::size_t rank, std::size_t track);
  void send(std::size_t rank, std::size_t track, const Instruction& instruction);
  void await(std::size_t rank, std::size_t track, int peer, std::int32_t tag);
  void advance(std::size_t rank, std::size_t track);
  void happen(const What& what);
  void left(std::size_t stream);
  void take(const Message& message);
  // The time from which on a rank may begin another message, which it is then busy with.
  double turn(std::size_t rank, bool between, double& free);

  const Tree tree_;
  const MessageCost cost_;
  Fluid fluid_;
  std::vector<Rank> ranks_;
  std::vector<Stream> streams_;
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> stream_of_;  // by sender and receiver
  std::vector<std::size_t> stream_of_fluid_;
  std::vector<std::vector<double>> cpus_;  // of each set: when each of its CPUs is free, in seconds
  std::vector<Message> all_;
  std::vector<std::uint32_t> free_messages_;
  EventQueue<What> queue_;
  double now_ = 0;
  std::size_t left_ = 0;  // ranks that are not over
  std::uint64_t events_ = 0;
  std::uint64_t messages_ = 0;
};

}  // namespace paceline::simulate
