// Worlds of ranks with policies of coordination, all in one thread: a module of its own, which is not in the wheel.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <exception>

#include "failure/error.hpp"
#include "policy/plain_board.hpp"
#include "policy/policy_world.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace paceline {
namespace {

constexpr std::array<const char*, 5> kEvents = {"deliver", "look", "wake", "synchronise", "finish"};

PolicyWorld* make_world(const std::string& policy, const std::vector<int>& machine_of, std::uint64_t fusion_bytes,
                        std::uint32_t cache_capacity, std::uint32_t slots, std::size_t words) {
  PolicyOptions options;
  options.fusion_bytes = fusion_bytes;
  options.cache_capacity = cache_capacity;
  return new PolicyWorld(policy, options, machine_of,
                         [=](int, int ranks) { return std::make_unique<PlainBoard>(ranks, slots, words); });
}

Collective collective_of(const std::string& name) {
  for (std::size_t i = 0; i < kCollectiveNames.size(); ++i)
    if (kCollectiveNames[i] == name) return static_cast<Collective>(i);
  throw Failure(ErrorKind::invalid, "no such collective: " + name);
}

void check_rank(const PolicyWorld& world, int rank) {
  if (rank < 0 || rank >= world.size())
    throw Failure(ErrorKind::invalid,
                  "there is no rank " + std::to_string(rank) + " in a world of " + std::to_string(world.size()));
}

std::vector<std::tuple<std::string, int, int>> events(const PolicyWorld& world) {
  std::vector<std::tuple<std::string, int, int>> found;
  for (const WorldEvent& event : world.events())
    found.emplace_back(kEvents[static_cast<std::size_t>(event.kind)], event.rank, event.from);
  return found;
}

}  // namespace
}  // namespace paceline

NB_MODULE(_worlds, m) {
  using namespace paceline;
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const Failure& failure) {
      PyErr_SetString(PyExc_ValueError, failure.what());
    }
  });
  // What happens next is chosen by the caller. RuntimeError where a policy breaks its word, as PolicyWorld says.
  nb::class_<PolicyWorld>(m, "PolicyWorld")
      .def(nb::new_(&make_world), "policy"_a, "machine_of"_a, "fusion_bytes"_a = std::uint64_t{64} << 20,
           "cache_capacity"_a = 1024, "slots"_a = 64, "words"_a = 1 << 14)
      .def_prop_ro("size", &PolicyWorld::size)
      .def(
          "submit",
          [](PolicyWorld& self, int rank, const std::string& name, std::uint64_t count, const std::string& collective,
             int priority, std::uint64_t bundle, std::uint32_t bundle_size) {
            check_rank(self, rank);
            Request made;
            made.name = name;
            made.what = {count, -1, collective_of(collective), DType::float32, Op::sum};
            made.bytes = agreed_bytes(made);
            made.priority = priority;
            made.bundle = {bundle, bundle_size};
            self.submit(rank, std::make_shared<const Request>(std::move(made)));
          },
          "rank"_a, "name"_a, "count"_a = 1, "collective"_a = "all_reduce", "priority"_a = 0, "bundle"_a = 0,
          "bundle_size"_a = 0)
      .def("join",
           [](PolicyWorld& self, int rank) {
             check_rank(self, rank);
             self.join(rank);
           })
      .def("wait",
           [](PolicyWorld& self, int rank, const std::string& name) {
             check_rank(self, rank);
             self.await(rank, name);
           })
      .def("set_order",
           [](PolicyWorld& self, int rank, const std::vector<std::vector<std::string>>& buffers) {
             check_rank(self, rank);
             self.set_order(rank, buffers);
           })
      .def("use", &PolicyWorld::use, "name"_a, "buffers"_a = std::vector<std::vector<std::string>>{})
      .def("in_use",
           [](PolicyWorld& self, int rank) {
             check_rank(self, rank);
             const Policy::Use use = self.policy(rank).in_use();
             return nb::make_tuple(use.name, use.refused);
           })
      .def("events", &events)
      .def("happen",
           [](PolicyWorld& self, std::size_t number) {
             const auto found = self.events();
             if (number >= found.size())
               throw Failure(ErrorKind::invalid, "there is no event " + std::to_string(number));
             self.happen(found[number]);
           })
      .def("check_over", &PolicyWorld::check_over)
      .def("under_way",
           [](const PolicyWorld& self, int rank) {
             check_rank(self, rank);
             std::vector<std::string> names;
             for (const auto& [name, request] : self.rank(rank).under_way) names.push_back(name);
             return names;
           })
      .def("over",
           [](const PolicyWorld& self, int rank) {
             check_rank(self, rank);
             std::vector<std::tuple<std::string, std::string>> ended;
             for (const auto& [request, error] : self.rank(rank).over) ended.emplace_back(request->name, error);
             return ended;
           })
      .def("joining",
           [](const PolicyWorld& self, int rank) {
             check_rank(self, rank);
             return self.rank(rank).joining;
           })
      .def("joins", [](const PolicyWorld& self, int rank) {
        check_rank(self, rank);
        return self.rank(rank).joins;
      });
}
