// Events in order, and jobs whose figures can be told beforehand.
#include "failure/error.hpp"
#include "simulate/event_queue.hpp"
#include "simulate/job.hpp"
#include "tests/check.hpp"

using namespace paceline;
using namespace paceline::simulate;

namespace {

JobModel model(const char* policy, std::vector<int> machine_of) {
  JobModel made;
  made.machine_of = std::move(machine_of);
  made.policy = policy;
  made.gradients = {{"a", 1000, 0.5}, {"b", 1000, 1}};
  made.order = {{"a"}, {"b"}};
  made.options.cycle_seconds = 1e-3;
  made.compute.seconds = 0.010;
  made.transfer.all_reduce = {{4000, 0.001}};
  return made;
}

bool near(double one, double other) { return one - other < 1e-12 && other - one < 1e-12; }

}  // namespace

TEST(events_happen_in_order_and_first_added_first) {
  EventQueue<int> queue;
  for (const auto& [at, what] : {std::pair{2.0, 3}, {1.0, 1}, {1.0, 2}, {0.5, 0}, {2.0, 4}}) queue.add(at, what);
  for (int expected = 0; expected < 5; ++expected) CHECK(queue.take().what == expected);
  CHECK(queue.empty());
  CHECK(queue.count() == 5);
}

TEST(random_numbers_depend_on_what_they_are_for_alone) {
  const Random random(7);
  CHECK(random.uniform(1, 2, 3) == Random(7).uniform(1, 2, 3));
  CHECK(random.uniform(1, 2, 3) != random.uniform(1, 3, 2));
  CHECK(random.uniform(1, 2, 3) != Random(8).uniform(1, 2, 3));
  double sum = 0;
  for (std::uint64_t turn = 0; turn < 10000; ++turn) sum += random.exponential(2, 0, 0, turn);
  CHECK(sum > 19000 && sum < 21000);
}

TEST(the_first_gradient_is_exchanged_while_the_second_is_computed) {
  for (const char* policy : {"board", "graph"}) {
    Job job(model(policy, {0, 0, 1, 1}));
    StepFigures last;
    for (int step = 0; step < 4; ++step) last = job.step();
    CHECK(near(last.seconds, 0.011));
    CHECK(near(last.computation, 0.010));
    CHECK(near(last.transfer, 0.001));
    CHECK(last.batches == 2);
  }
}

TEST(a_batch_waits_for_the_one_before_it) {
  JobModel slow = model("graph", {0, 0});
  slow.transfer.all_reduce = {{4000, 0.008}};
  Job job(slow);
  StepFigures last;
  for (int step = 0; step < 4; ++step) last = job.step();
  CHECK(near(last.seconds, 0.005 + 2 * 0.008));
  CHECK(near(last.peers, 0));
  CHECK(near(last.transfer, 0.003 + 0.008));
}

TEST(a_rank_that_oversleeps_keeps_the_others_spinning) {
  JobModel noisy = model("cycle", {0, 0, 0, 0});
  noisy.thread.oversleeps = 0.5;
  noisy.thread.oversleep = 1e-3;
  Job job(noisy);
  double spinning = 0;
  double oversleep = 0;
  for (int step = 0; step < 20; ++step) {
    const StepFigures figures = job.step();
    spinning += figures.spinning;
    oversleep += figures.oversleep;
  }
  CHECK(oversleep > 0);
  CHECK(spinning > 0);
}

TEST(an_order_that_gradients_do_not_follow_is_refused) {
  JobModel unordered = model("graph", {0, 0});
  unordered.order = {{"a"}, {"a"}};
  bool refused = false;
  try {
    Job job(unordered);
  } catch (const Failure& failure) {
    refused = failure.kind == ErrorKind::invalid;
  }
  CHECK(refused);
}
