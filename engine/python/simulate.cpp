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

// The fields of the model's structs, in their order.
using GradientFields = std::tuple<std::string, std::uint64_t, double>;
using OptionFields = std::tuple<std::uint64_t, double, std::string>;
using ComputeFields =
    std::tuple<double, std::vector<double>, std::vector<double>, std::vector<double>, bool, double, double>;
using CoreFields = std::tuple<int, int, double, bool>;
using ThreadFields = std::tuple<double, double, double, double, double>;
using TransferFields = std::tuple<double, double, std::vector<std::pair<double, double>>>;

template <typename Struct, typename... Fields>
Struct made_of(const std::tuple<Fields...>& fields) {
  return std::apply([](const auto&... each) { return Struct{each...}; }, fields);
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
  nb::class_<Job>(m, "Job")
      .def(
          "__init__",
          [](Job* self, std::vector<int> machine_of, std::string policy, std::vector<std::vector<std::string>> order,
             bool awaits, std::uint64_t seed, const std::vector<GradientFields>& gradients, const OptionFields& options,
             const ComputeFields& compute, const CoreFields& cores, const ThreadFields& thread,
             const TransferFields& transfer) {
            JobModel model;
            model.machine_of = std::move(machine_of);
            model.policy = std::move(policy);
            model.order = std::move(order);
            model.awaits = awaits;
            model.seed = seed;
            for (const auto& gradient : gradients) model.gradients.push_back(made_of<Gradient>(gradient));
            std::string wait;
            std::tie(model.options.fusion_bytes, model.options.cycle_seconds, wait) = options;
            model.options.wait = wait_of(wait);
            model.compute = made_of<Compute>(compute);
            model.cores = made_of<Cores>(cores);
            model.thread = made_of<Thread>(thread);
            model.transfer = made_of<Transfer>(transfer);
            new (self) Job(std::move(model));
          },
          "machine_of"_a, "policy"_a, "order"_a, "awaits"_a, "seed"_a, "gradients"_a, "options"_a, "compute"_a,
          "cores"_a, "thread"_a, "transfer"_a)
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
