// What ranks tell each other of their waits survives a frame, is cut where it is long, and is none where it is garbled.
#include <random>
#include <string>
#include <vector>

#include "progress/wait_report.hpp"
#include "tests/check.hpp"

namespace paceline::test {
namespace {

constexpr auto kHeard = Clock::time_point(std::chrono::hours(1));

std::optional<WaitReport> read_back(const std::string& payload) {
  return WaitReport::decoded(std::as_bytes(std::span(payload)), kHeard);
}

std::string long_name(std::size_t rank) {
  return "rank " + std::to_string(rank) + " (a host with a long name, pid 12345)";
}

}  // namespace

TEST(reports_of_waits_survive_frames) {
  const std::vector<OwnWait> waits{
      {{1, 7, CallId::Kind::together}, true, std::chrono::milliseconds(1500), {long_name(1), long_name(2)}},
      {{2, 1U << 31, CallId::Kind::recv}, false, {}, {long_name(2)}},
      {{~std::uint64_t{0}, 0, CallId::Kind::send}, false, std::chrono::hours(24 * 365), {}}};
  const auto back = read_back(WaitReport{waits, {}}.encoded());
  CHECK(back && back->at == kHeard && back->waits.size() == waits.size());
  for (std::size_t i = 0; i < waits.size(); ++i) {
    CHECK(back->waits[i].call == waits[i].call);
    CHECK(back->waits[i].called == waits[i].called);
    CHECK(back->waits[i].missing == waits[i].missing);
  }
  CHECK(back->waits[0].age == waits[0].age);
  CHECK(back->waits[2].age > std::chrono::hours(24 * 40));
  const auto none = read_back(WaitReport{}.encoded());
  CHECK(none && none->waits.empty());
}

TEST(long_reports_of_waits_are_cut) {
  WaitReport report;
  for (std::size_t i = 0; i < 300; ++i) {
    OwnWait& wait = report.waits.emplace_back();
    wait.call.number = i;
    for (std::size_t rank = 0; rank < 300; ++rank) wait.missing.push_back(long_name(rank));
  }
  const std::string payload = report.encoded();
  CHECK(payload.size() <= WaitReport::kLongest);
  const auto back = read_back(payload);
  CHECK(back && !back->waits.empty());
  for (std::size_t i = 0; i < back->waits.size(); ++i) {
    CHECK(back->waits[i].call.number == i);
    CHECK(!back->waits[i].missing.empty());
    for (std::size_t rank = 0; rank < back->waits[i].missing.size(); ++rank)
      CHECK(back->waits[i].missing[rank] == long_name(rank));
  }
  for (OwnWait& wait : report.waits) wait.missing = std::vector<std::string>(300);
  CHECK(read_back(report.encoded()));
}

TEST(garbled_reports_of_waits_are_none) {
  const std::string whole = WaitReport{
      {{{1, 7, CallId::Kind::together}, true, std::chrono::seconds(1), {long_name(1), long_name(2)}}},
      {}}.encoded();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const auto part = read_back(whole.substr(0, length));
    CHECK(!part || part->waits.empty());
  }
  CHECK(!read_back(whole + '\0'));
  CHECK(!read_back(std::string(WaitReport::kLongest + 1, '\0')));
  std::mt19937 random(1);  // whatever a peer sends, nothing is read that is not there
  for (int i = 0; i < 2000; ++i) {
    std::string changed = whole;
    for (int n = 0; n < 3; ++n) changed[random() % changed.size()] = static_cast<char>(random());
    if (const auto back = read_back(changed))
      for (const OwnWait& wait : back->waits) CHECK(wait.missing.size() <= changed.size());
  }
}

}  // namespace paceline::test
