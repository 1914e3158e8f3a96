// Programs and networks in virtual time, for Python.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "failure/error.hpp"
#include "python/bindings.hpp"
#include "python/plans.hpp"
#include "simulate/network/program_run.hpp"

namespace paceline {

using namespace nb::literals;
using namespace simulate;

namespace {

// (parent, up, down, latency, burst)
using WireNode = std::tuple<int, double, double, double, double>;
// (track, stage, whether it is sent, peer, tag, bytes)
using WireMessage = std::tuple<std::size_t, std::size_t, bool, int, std::int32_t, std::size_t>;

Plan plan_of(const WirePlan& wire, int size) {
  Plan plan = plans_from({{"all_reduce", {wire}}}).at("all_reduce").front();
  for (const Level& level : plan.levels)
    for (const Reduce& reduce : level) {
      const auto known = [size](int rank) { return rank >= 0 && rank < size; };
      if (!known(reduce.owner) || !std::ranges::all_of(reduce.holders, known))
        throw Failure(ErrorKind::invalid, "the plan has ranks beyond the " + std::to_string(size) + " that there are");
    }
  return plan;
}

// The messages of a program, as its stages have them.
std::vector<WireMessage> messages_of(const Program& program) {
  std::vector<WireMessage> found;
  for (std::size_t track = 0; track < program.track_ends.size(); ++track)
    for (std::size_t stage = program.first_stage(track); stage < program.track_ends[track]; ++stage)
      for (std::uint32_t i = program.first_instruction(stage); i < program.stage_ends[stage]; ++i) {
        const Instruction& each = program.instructions[i];
        const std::size_t place = stage - program.first_stage(track);
        if (each.kind == Instruction::Kind::send || each.kind == Instruction::Kind::receive)
          found.emplace_back(track, place, each.kind == Instruction::Kind::send, each.peer, each.tag, each.bytes);
        for (std::uint32_t k = 0; k < each.inputs; ++k)
          if (const Input& input = program.inputs[each.first_input + k]; input.peer >= 0)
            found.emplace_back(track, place, false, input.peer, input.tag, each.bytes);
      }
  return found;
}

}  // namespace

void bind_programs(nb::module_& m) {
  nb::class_<Tree>(m, "Tree").def(
      "__init__",
      [](Tree* self, const std::vector<WireNode>& nodes, std::vector<int> leaves, std::vector<int> machine_of,
         std::vector<int> cpus_of, std::vector<int> cpus) {
        new (self) Tree{{}, std::move(leaves), std::move(machine_of), std::move(cpus_of), std::move(cpus)};
        self->nodes.reserve(nodes.size());
        for (const auto& [parent, up, down, latency, burst] : nodes)
          self->nodes.push_back({parent, up, down, latency, burst});
      },
      "nodes"_a, "leaves"_a, "machine_of"_a, "cpus_of"_a, "cpus"_a);
  m.def(
      "program",
      [](const WirePlan& wire, int rank, int size, std::size_t count) {
        if (rank < 0 || rank >= size) throw Failure(ErrorKind::invalid, "there is no rank " + std::to_string(rank));
        const Program program = lowered(plan_of(wire, size), rank, size, count);
        return std::pair{program.in_flight, messages_of(program)};
      },
      "plan"_a, "rank"_a, "size"_a, "count"_a);
  m.def(
      "run_programs",
      [](const Tree& tree, const WirePlan& wire, std::size_t count, double between, double within,
         double shared_between, double shared_within, double header) {
        const WithoutGil no_gil;
        const int size = static_cast<int>(tree.leaves.size());
        const Plan plan = plan_of(wire, size);
        std::vector<Program> programs;
        programs.reserve(tree.leaves.size());
        for (int rank = 0; rank < size; ++rank) programs.push_back(lowered(plan, rank, size, count));
        ProgramRun run(tree, std::move(programs), {between, within, shared_between, shared_within, header});
        auto seconds = run.run();
        return std::tuple{std::move(seconds), run.messages(), run.events(), run.carried()};
      },
      "tree"_a, "plan"_a, "count"_a, "between"_a, "within"_a, "shared_between"_a, "shared_within"_a, "header"_a);
}

}  // namespace paceline
