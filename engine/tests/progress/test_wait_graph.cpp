// Who is to blame for a wait: ranks that wait for others, in operations of their own, up to one that does not.
#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "progress/wait_graph.hpp"
#include "tests/check.hpp"

namespace paceline::test {
namespace {

using Names = std::vector<std::string>;
using Seconds = std::chrono::duration<double>;

constexpr auto kNow = Clock::time_point(std::chrono::hours(1));
constexpr Clock::duration kSettled = std::chrono::milliseconds(250);

Clock::duration of(double seconds) { return std::chrono::duration_cast<Clock::duration>(Seconds(seconds)); }

CallId together(std::uint64_t channel, std::uint64_t number = 0) { return {channel, number, CallId::Kind::together}; }
CallId sends(std::uint64_t tag) { return {9, tag, CallId::Kind::send}; }
CallId receives(std::uint64_t tag) { return {9, tag, CallId::Kind::recv}; }

OwnWait waits(const CallId& call, Names missing, bool called = true, double age = 3) {
  return {call, called, of(age), std::move(missing)};
}

// What ranks have said; rank "me" asks.
class Job {
 public:
  Job& says(const std::string& who, std::vector<OwnWait> waits, double ago = 0) {
    reports_[who] = {std::move(waits), kNow - of(ago)};
    return *this;
  }
  Blame blame(const OwnWait& wait) {
    reports_["me"].waits.push_back(wait);
    reports_["me"].at = kNow;
    WaitGraph graph([this](const std::string& who) { return reports_.contains(who) ? &reports_[who] : nullptr; },
                    kSettled);
    graph.begin("me", {wait}, kNow);
    return graph.blame();
  }

 private:
  std::map<std::string, WaitReport> reports_;
};

void check_one(const Blame& blame, const std::string& who, const Names& by = {}) {
  CHECK(blame.circle.empty());
  CHECK(blame.roots.size() == 1);
  CHECK(blame.roots[0].who == who);
  CHECK(blame.roots[0].by == by);
}

bool is_none(const Blame& blame) { return blame.roots.empty() && blame.circle.empty(); }

}  // namespace

TEST(who_says_nothing_is_to_blame) {
  check_one(Job().blame(waits(together(1), {"b"})), "b");
  check_one(Job().blame(waits(receives(5), {"b"})), "b");
}

TEST(who_waits_in_the_same_operation_is_passed_over) {
  check_one(Job()
                .says("b", {waits(together(1), {"c"}, false, 0)})
                .says("c", {waits(together(1), {"d"})})
                .blame(waits(together(1), {"b", "c"})),
            "d");
}

TEST(who_waits_elsewhere_is_named_before_the_one_to_blame) {
  check_one(Job()
                .says("b", {waits(together(2), {"c", "me"})})
                .says("c", {waits(together(2), {"d"}), waits(together(3), {"x"}, false)})
                .says("d", {waits(sends(4), {"e"})})
                .blame(waits(together(1), {"b"})),
            "e", {"b", "d"});
}

TEST(who_has_only_begun_to_wait_goes_on_with_its_program) {
  check_one(Job().says("b", {waits(together(2), {"c"}, true, 0.2)}).blame(waits(together(1), {"b"})), "b");
  check_one(Job().says("b", {}).blame(waits(together(1), {"b"})), "b");
}

TEST(what_goes_on_beside_the_program_holds_up_nobody) {
  const std::vector<OwnWait> both{waits(together(2), {"c"}, false), waits(together(3), {"d"})};
  check_one(Job().says("b", both).blame(waits(together(1), {"b"})), "d", {"b"});
  check_one(Job().says("b", {both[0]}).blame(waits(together(1), {"b"})), "b");
}

TEST(who_takes_part_and_misses_nobody_is_to_blame) {
  check_one(Job().says("b", {waits(together(1), {})}).blame(waits(together(1), {"b"})), "b");
}

TEST(several_may_be_to_blame) {
  const Blame blame = Job().says("b", {waits(together(2), {"c", "d"})}).blame(waits(together(1), {"b", "d"}));
  CHECK(blame.roots.size() == 2 && blame.circle.empty());
  CHECK(blame.roots[0].who == "d" && blame.roots[0].by.empty());
  CHECK(blame.roots[1].who == "c" && blame.roots[1].by == Names{"b"});
}

TEST(nobody_is_to_blame_for_what_moves_on) {
  CHECK(is_none(Job()
                    .says("b", {waits(together(1), {"c"})})
                    .says("c", {waits(together(1), {"me"})})
                    .blame(waits(together(1), {"b"}))));
  CHECK(is_none(Job().says("b", {waits(sends(5), {"me"})}).blame(waits(receives(5), {"b"}))));
}

TEST(who_takes_part_in_something_else_that_moves_on_is_elsewhere) {
  check_one(Job()
                .says("b", {waits(together(2), {"c"})})
                .says("c", {waits(together(2), {"b"})})
                .blame(waits(together(1), {"b"})),
            "b");
}

TEST(ranks_that_wait_for_each_other_are_a_circle) {
  const Names circle{"b", "me", "rank 2 (a)", "rank 10 (a)"};
  Blame blame = Job()
                    .says("b", {waits(together(2), {"rank 10 (a)"})})
                    .says("rank 10 (a)", {waits(receives(5), {"rank 2 (a)"})})
                    .says("rank 2 (a)", {waits(together(4), {"me"})})
                    .blame(waits(together(1), {"b"}));
  CHECK(blame.roots.size() == 1 && blame.roots[0].who == "b" && blame.roots[0].by.empty());
  std::ranges::sort(blame.circle, std::less(), [](const std::string& name) { return std::pair(name.size(), name); });
  CHECK(blame.circle == circle);
  // Both send, or one receives what the other does not send.
  CHECK(Job().says("b", {waits(sends(5), {"me"})}).blame(waits(sends(5), {"b"})).circle == Names({"b", "me"}));
  CHECK(Job().says("b", {waits(sends(6), {"me"})}).blame(waits(receives(5), {"b"})).circle == Names({"b", "me"}));
}

TEST(a_circle_begins_with_the_lowest_rank) {
  const Blame blame = Job()
                          .says("rank 10 (a)", {waits(together(2), {"rank 2 (a)"})})
                          .says("rank 2 (a)", {waits(together(3), {"rank 11 (a)"})})
                          .says("rank 11 (a)", {waits(together(4), {"rank 10 (a)"})})
                          .blame(waits(together(1), {"rank 10 (a)"}));
  CHECK(blame.circle == Names({"rank 2 (a)", "rank 11 (a)", "rank 10 (a)"}));
}

TEST(a_circle_of_others_is_told_with_the_way_to_it) {
  const Blame blame = Job()
                          .says("b", {waits(together(2), {"c"})})
                          .says("c", {waits(together(3), {"d"})})
                          .says("d", {waits(together(4), {"c"})})
                          .blame(waits(together(1), {"b"}));
  CHECK(blame.circle == Names({"c", "d"}));
  CHECK(blame.roots.size() == 1 && blame.roots[0].who == "c" && blame.roots[0].by == Names{"b"});
}

TEST(waits_that_never_were_at_the_same_time_are_no_circle) {
  const auto blame = [](double ago) {
    return Job()
        .says("b", {waits(together(2), {"c"})}, ago)
        .says("c", {waits(together(3), {"b"}, true, 0.5)})
        .blame(waits(together(1), {"b"}));
  };
  CHECK(is_none(blame(1)));
  CHECK(blame(0.25).circle == Names({"b", "c"}));
}

TEST(a_rank_to_blame_counts_before_a_circle) {
  check_one(Job().says("b", {waits(together(2), {"me"}), waits(together(3), {"c"})}).blame(waits(together(1), {"b"})),
            "c", {"b"});
}

TEST(all_who_are_waited_for_are_asked) {
  std::map<std::string, WaitReport> reports{{"b", {{waits(together(2), {"c", "me"})}, kNow}}};
  WaitGraph graph([&](const std::string& who) { return reports.contains(who) ? &reports[who] : nullptr; }, kSettled);
  graph.begin("me", {waits(together(1), {"b"}), waits(receives(5), {"b", "d"})}, kNow);
  CHECK(graph.ranks() == Names({"b", "d", "c", "me"}));
}

}  // namespace paceline::test
