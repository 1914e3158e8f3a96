#include "simulate/job_model.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "failure/error.hpp"

namespace paceline::simulate {

void check(const JobModel& model) {
  const auto bad = [](const std::string& why) { throw Failure(ErrorKind::invalid, why); };
  if (model.machine_of.empty()) bad("a job needs at least one rank");
  int machines = 0;
  for (const int machine : model.machine_of) {
    if (machine < 0 || machine > machines)
      bad("machines must be numbered 0, 1, 2, ... in the order of their first ranks; " + std::to_string(machine) +
          " comes where " + std::to_string(machines) + " would be the next new one");
    machines += machine == machines;
  }
  if (model.gradients.empty()) bad("a job needs at least one gradient");
  std::set<std::string> names;
  for (const Gradient& gradient : model.gradients) {
    if (!names.insert(gradient.name).second) bad("two gradients are called \"" + gradient.name + "\"");
    if (!(gradient.ready >= 0 && gradient.ready <= 1))
      bad("\"" + gradient.name + "\" must be ready after a fraction of the computation from 0 to 1, got " +
          std::to_string(gradient.ready));
  }
  if (model.options.cycle_seconds == 0 && boards_of(model.policy) == 0)
    bad("the policy " + model.policy + " needs a cycle of more than 0 seconds, or virtual time would stand still");
  if (model.transfer.all_reduce.empty()) bad("the time of an all_reduce needs at least one point");
  double last = -1;
  for (const auto& [bytes, seconds] : model.transfer.all_reduce) {
    if (!(bytes > last) || !(seconds >= 0))
      bad("the points of an all_reduce's time must ascend in bytes, none below 0");
    last = bytes;
  }
  const auto& later = model.compute.later;
  if (!later.empty() && later.size() != model.machine_of.size())
    bad(std::to_string(later.size()) + " ranks are said to be later than others, or not, but there are " +
        std::to_string(model.machine_of.size()));
  for (const auto* seconds : {&model.compute.samples, &later})
    if (std::ranges::any_of(*seconds, [](double each) { return !(each >= 0 && std::isfinite(each)); }))
      bad("a measured time of computation is negative or not finite");
  if (model.compute.whole && (model.compute.samples.empty() || model.compute.samples.size() % model.machine_of.size()))
    bad(std::to_string(model.compute.samples.size()) + " measured times of computation are not whole steps of " +
        std::to_string(model.machine_of.size()) + " ranks");
  if (!std::ranges::all_of(model.compute.together, [](double each) { return std::isfinite(each); }))
    bad("by how much longer all ranks compute is not finite");
  const Compute& compute = model.compute;
  const Thread& thread = model.thread;
  const Cores& cores = model.cores;
  if (const int least = std::min(cores.cpus, cores.threads); least < 0)
    bad("a rank cannot have " + std::to_string(least) + " CPUs or threads");
  for (const double seconds :
       {compute.seconds, compute.delay, compute.after, cores.seconds, thread.wake, thread.oversleeps, thread.oversleep,
        thread.ring, thread.message, model.transfer.synchronise, model.transfer.latency})
    if (!(seconds >= 0 && std::isfinite(seconds)))
      bad("a time or a probability of the model is negative or not finite");
}

}  // namespace paceline::simulate
