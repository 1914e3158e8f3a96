// A training job in virtual time: the engine's own policies, one object a rank, driven by events.
//
// The stochastic part is a model of what "Load imbalance in data processing for large-scale deep learning" (section
// III-D) found on 24 576 GPUs: ranks do not compute equally long, and threads share CPUs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "policy/board_memory.hpp"
#include "policy/policy.hpp"
#include "simulate/event_queue.hpp"
#include "simulate/job_model.hpp"
#include "simulate/meetings.hpp"
#include "simulate/post.hpp"
#include "simulate/random.hpp"
#include "simulate/traffic.hpp"

namespace paceline::simulate {

class Job {
 public:
  // Throws Failure (invalid) for a model that makes no sense.
  explicit Job(JobModel model);
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // The next step of all ranks.
  StepFigures step();

  // The batches of the last step, in the order in which they were carried out.
  const std::vector<Carried>& carried() const { return traffic_.carried(); }
  // When each rank had submitted its last gradient of the last step.
  std::vector<double> ready() const;
  // When the last step began.
  double began() const { return began_; }

  // Events that have happened: for each rank every request that it submitted and every one that was answered, and its
  // messages, bells, wake-ups and outcomes of synchronisations.
  std::uint64_t events() const { return events_; }
  int size() const { return static_cast<int>(ranks_.size()); }

 private:
  enum class Kind : std::uint8_t { submit, wake, look, deliver, outcome, batch_over };
  struct What {
    Kind kind = Kind::look;
    std::int32_t rank = 0;
    std::uint32_t detail = 0;  // wake: which Sleep; deliver: the place of the message
  };
  struct Rank {
    std::unique_ptr<Policy> policy;
    double free = 0;          // its thread is busy until then
    double until = 0;         // of the Sleep
    std::uint32_t sleep = 0;  // counts Sleeps; only the wake-up of the last one counts
    std::uint64_t turn = 0;   // of its random numbers
    double gave_at = 0;       // words to a synchronisation, the last time
    Synchronise::Wait wait = Synchronise::Wait::spin;
    bool synchronising = false;
    bool submitted = false;  // all of this step
    std::size_t next = 0;    // the first gradient that it has not submitted
    std::uint64_t busy = 0;  // bytes of batches issued and not over
    double seconds = 0;      // of this step's computation
    double ready = 0;        // it submitted the last gradient
    double issued = 0;       // the last batch so far
    double spinning = 0;     // in this step
    double oversleep = 0;    // in this step
    double contended = 0;    // in this step: spinning that took a CPU from the program
  };

  Rank& at(int number) { return ranks_[static_cast<std::size_t>(number)]; }
  void make_ranks();
  void fetch(int number) const;
  void happen(const EventQueue<What>::Event& event);
  double submitted_at(const Rank& rank, std::size_t gradient) const { return began_ + ready_[gradient] * rank.seconds; }
  void plan_submission(int number);
  void catch_up(int number, double now);
  void submit(int number, double now);
  void hear_outcome(int number, double now);
  void wake(int number, double now);
  void end_batch(double now);
  void await_oldest(int number, double now);
  void drain(int number, double now);
  void carry_out(int number, Action& action, double now);
  void synchronise(int number, Synchronise& action, double now);
  void sleep(int number, double until, double now);
  void send(int number, Send& action, double now);
  void ring(int number, double now);
  void issue(int number, Issue& action, double now);
  double computes(int number);

  const JobModel model_;
  const Random random_;
  std::vector<RequestPtr> requests_;  // by gradient, as they are submitted
  std::vector<double> ready_;         // by gradient, ascending
  std::unordered_map<const Request*, std::size_t> index_;
  std::map<int, std::vector<int>> locals_;
  std::map<int, std::unique_ptr<BoardMemory>> boards_;
  std::vector<Rank> ranks_;
  EventQueue<What> queue_;
  Post post_;
  Meetings meetings_;
  Traffic traffic_;

  double now_ = 0;
  double began_ = 0;   // this step
  double begins_ = 0;  // the next step
  std::uint64_t steps_ = 0;
  std::size_t left_ = 0;    // gradients of this step that are not over
  std::vector<bool> over_;  // by gradient
  std::size_t oldest_ = 0;  // of those that are not over
  std::uint64_t events_ = 0;
};

}  // namespace paceline::simulate
