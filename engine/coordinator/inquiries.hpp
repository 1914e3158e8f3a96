// Asks other ranks what they wait for.
//
// A policy may not know which ranks have yet to submit a request, or to join (which has no name). So this rank asks
// the others after a while. A rank that has nothing under way in this coordinator does not even hear that, and has not
// submitted the request. Ranks on other machines that are known to be missing are asked, too, so that something was
// sent to them: see Engine::tell_line. Where a caller waits, ranks of this machine are asked as well, as they may wait
// for this rank.
#pragma once

#include <cstdint>
#include <span>

#include "coordinator/absentees.hpp"
#include "coordinator/correspondence.hpp"
#include "coordinator/requests.hpp"
#include "coordinator/warnings.hpp"
#include "policy/make.hpp"

namespace paceline {

class Inquiries {
 public:
  Inquiries(const Group& control, const Seat& seat, const Requests& requests, const Absentees& absentees,
            Correspondence& correspondence, Warnings& warnings)
      : control_(control),
        seat_(seat),
        requests_(requests),
        absentees_(absentees),
        correspondence_(correspondence),
        warnings_(warnings) {}

  // How long a request waits before other ranks are asked about it, and until they are asked again.
  Clock::duration patience() const;
  // Asks about what has waited so long.
  void ask(Clock::time_point now) const;
  // A rank asks this one. joins: whether this rank has joined; ended: the batches and joins that it has seen the end
  // of.
  void answer(int from, std::span<const std::byte> question, bool joins, std::uint64_t ended) const;
  // A rank has submitted what this one asked about.
  void hear_of_submission(int from, std::span<const std::byte> answer) const;
  // A rank that has not submitted what this one asked about waits itself.
  void hear_of_wait(int from, std::span<const std::byte> answer, bool joins, std::uint64_t ended) const;

 private:
  const Group& control_;
  const Seat& seat_;
  const Requests& requests_;
  const Absentees& absentees_;
  Correspondence& correspondence_;
  Warnings& warnings_;
};

}  // namespace paceline
