// Jobs in virtual time, for Python.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <tuple>
#include <utility>

#include "python/bindings.hpp"
#include "simulate/job.hpp"

namespace paceline {

using namespace nb::literals;
using namespace simulate;

namespace {

Synchronise::Wait wait_of(const std::string& name) {
  if (name == "spin") return Synchronise::Wait::spin;
  if (name == "yield") return Synchronise::Wait::yield;
  throw Failure(ErrorKind::invalid, "no such wait: " + name + "; there are spin and yield");
}

nb::dict figures_of(const StepFigures& figures) {
  nb::dict found;
  for (const auto& [name, seconds] : {std::pair{"seconds", figures.seconds},
                                      {"computation", figures.computation},
                                      {"delay", figures.delay},
                                      {"last_rank", figures.last_rank},
                                      {"negotiation", figures.negotiation},
                                      {"peers", figures.peers},
                                      {"transfer", figures.transfer},
                                      {"after", figures.after},
                                      {"spinning", figures.spinning},
                                      {"oversleep", figures.oversleep}})
    found[name] = seconds;
  found["cycles"] = figures.cycles;
  found["messages"] = figures.messages;
  found["batches"] = figures.batches;
  return found;
}

}  // namespace

void bind_simulate(nb::module_& m) {
  nb::class_<JobModel>(m, "JobModel")
      .def(nb::init<>())
      .def_rw("machine_of", &JobModel::machine_of)
      .def_rw("policy", &JobModel::policy)
      .def_rw("order", &JobModel::order)
      .def_rw("awaits", &JobModel::awaits)
      .def_rw("seed", &JobModel::seed)
      .def("add_gradient", [](JobModel& self, const std::string& name, std::uint64_t elements,
                              double ready) { self.gradients.push_back({name, elements, ready}); })
      .def(
          "set_options",
          [](JobModel& self, std::uint64_t fusion_bytes, double cycle_seconds, const std::string& wait) {
            self.options.fusion_bytes = fusion_bytes;
            self.options.cycle_seconds = cycle_seconds;
            self.options.wait = wait_of(wait);
          },
          "fusion_bytes"_a, "cycle_seconds"_a, "wait"_a)
      .def(
          "set_compute",
          [](JobModel& self, double seconds, std::vector<double> samples, std::vector<double> later, double delay,
             double after) { self.compute = {seconds, std::move(samples), std::move(later), delay, after}; },
          "seconds"_a, "samples"_a, "later"_a, "delay"_a, "after"_a)
      .def(
          "set_cores",
          [](JobModel& self, int cpus, int threads, double seconds, bool divided) {
            self.cores = {cpus, threads, seconds, divided};
          },
          "cpus"_a, "threads"_a, "seconds"_a, "divided"_a)
      .def(
          "set_thread",
          [](JobModel& self, double wake, double oversleeps, double oversleep, double ring, double message) {
            self.thread = {wake, oversleeps, oversleep, ring, message};
          },
          "wake"_a, "oversleeps"_a, "oversleep"_a, "ring"_a, "message"_a)
      .def(
          "set_transfer",
          [](JobModel& self, double synchronise, double latency, std::vector<std::pair<double, double>> all_reduce) {
            self.transfer = {synchronise, latency, std::move(all_reduce)};
          },
          "synchronise"_a, "latency"_a, "all_reduce"_a);
  nb::class_<Job>(m, "Job")
      .def(nb::init<JobModel>(), "model"_a)
      .def("timeline",
           [](const Job& self) {
             std::vector<std::tuple<double, double, double, std::uint64_t, std::uint64_t>> batches;
             for (const Carried& each : self.carried())
               batches.emplace_back(each.first, each.begun, each.over, each.bytes, each.requests);
             return std::make_tuple(self.began(), self.ready(), batches);
           })
      .def("step",
           [](Job& self) {
             StepFigures figures;
             {
               const WithoutGil no_gil;
               figures = self.step();
             }
             return figures_of(figures);
           })
      .def_prop_ro("events", &Job::events);
}

}  // namespace paceline
