// What the simulator must know of a training job, and what it answers. All times are seconds.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "policy/make.hpp"
#include "simulate/cores.hpp"

namespace paceline::simulate {

// A tensor that every rank submits once in every step.
struct Gradient {
  std::string name;
  std::uint64_t elements = 0;  // float32
  double ready = 1;            // the fraction of the step's computation after which it is submitted
};

// How long ranks compute. A rank submits its last gradient `seconds` after the step began, or one of the measured
// `samples` if there are any, plus one of `together` that is the same for all ranks, plus an exponential delay. The
// delay has the mean `delay`; where a thread that spins has taken CPU time from the program in the last step, it is
// longer (see Cores::slower).
struct Compute {
  double seconds = 0;
  std::vector<double> samples;
  std::vector<double> later;  // by rank, none if all are alike: how much longer it computes than others in every step
  std::vector<double> together;  // how much longer or, below 0, shorter all ranks compute in a step
  bool whole = false;  // samples has a value for each rank of a step, and ranks draw their own of the same step
  double delay = 0;
  double after = 0;  // from the end of communication to the next step
};

// What the thread that runs a policy takes, beside its CPU (see Cores). A sleep lasts too long by `wake`, or, with the
// probability `oversleeps`, by an exponential time with the mean `oversleep`.
struct Thread {
  double wake = 0;
  double oversleeps = 0;
  double oversleep = 0;
  double ring = 0;     // until a rank of this machine has heard a bell
  double message = 0;  // the thread's own time for a message between machines, at either end
};

// What the network takes.
struct Transfer {
  double synchronise = 0;                             // a Synchronise, from the last rank's part on
  double latency = 0;                                 // a message between machines
  std::vector<std::pair<double, double>> all_reduce;  // (bytes, seconds), ascending: straight lines between them
};

struct JobModel {
  std::vector<int> machine_of;  // by rank
  std::vector<Gradient> gradients;
  std::string policy;
  PolicyOptions options;
  std::vector<std::vector<std::string>> order;  // buffers, for `graph`
  bool awaits = true;                           // a caller waits for the gradients once all are submitted
  Compute compute;
  Cores cores;
  Thread thread;
  Transfer transfer;
  std::uint64_t seed = 0;
};

// Throws Failure (invalid), with one sentence, for a model that makes no sense.
void check(const JobModel& model);

// A batch that was carried out, at times since the job began.
struct Carried {
  double first = 0;  // the first rank issued it
  double begun = 0;  // all ranks had issued it, and the one before it was over
  double over = 0;
  std::uint64_t bytes = 0;
  std::uint64_t requests = 0;
};

// One step of all ranks. All but `seconds` are means over ranks, and add up to it with the step's computation.
struct StepFigures {
  double seconds = 0;          // from the beginning to the next step's
  double computation = 0;      // without the delay
  double delay = 0;            // until the rank has submitted its last gradient
  double last_rank = 0;        // from there until all ranks have, unless the last batch goes out before
  double negotiation = 0;      // until this rank issues the last batch, while no batch is under way
  double peers = 0;            // until the last batch begins, as others issue it later, while none is under way
  double transfer = 0;         // of the last batch, and of earlier ones once all ranks have submitted everything
  double after = 0;            // until the next step
  double spinning = 0;         // of the thread, at any time of the step; part of the above
  double oversleep = 0;        // beyond what was asked for, at any time of the step; part of the above
  std::uint64_t cycles = 0;    // of all ranks' policies
  std::uint64_t messages = 0;  // between ranks
  std::uint64_t batches = 0;
};

}  // namespace paceline::simulate
