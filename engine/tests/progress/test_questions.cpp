// Questions between ranks on different machines: who hears them, when, and what is kept.
#include <poll.h>

#include <algorithm>
#include <barrier>
#include <string>
#include <thread>
#include <vector>

#include "tests/world.hpp"

namespace paceline::test {
namespace {

bool readable(int descriptor, int milliseconds) {
  pollfd news{descriptor, POLLIN, 0};
  return ::poll(&news, 1, milliseconds) == 1;
}

std::string text_of(const std::vector<std::byte>& content) {
  std::string text;
  for (const std::byte byte : content) text += static_cast<char>(byte);
  return text;
}

// Looks until a peer has asked.
std::vector<Question> next_questions(Engine& engine) {
  std::vector<Question> found;
  while ((found = engine.questions()).empty()) std::this_thread::yield();
  return found;
}

// The answers once all have come, by what peers are called.
std::vector<Answer> all_answers(Engine& engine, std::uint64_t number, std::size_t expected) {
  std::vector<Answer> found;
  const auto complete = [&] {
    return found.size() == expected &&
           std::ranges::all_of(found, [&](const Answer& answer) { return answer.number >= number; });
  };
  while (found = engine.answers(), !complete()) std::this_thread::yield();
  return found;
}

TEST(ranks_on_other_machines_answer_while_nothing_is_under_way) {
  World world(4, [](int i, int j) { return i / 2 == j / 2 ? Wire::shm : Wire::tcp; });
  std::barrier answered(4);
  world.run([&](Rank& r) {
    if (r.rank == 0) {
      const auto number = r.engine->ask("figures");
      const auto answers = all_answers(*r.engine, number, 2);
      CHECK(answers[0].who == "rank 2 (thread)" && text_of(answers[0].content) == "figures of rank 2");
      CHECK(answers[1].who == "rank 3 (thread)" && text_of(answers[1].content) == "figures of rank 3");
    } else if (r.rank >= 2) {
      const auto questions = next_questions(*r.engine);
      CHECK(questions.size() == 1);
      r.engine->answer(questions[0], questions[0].words + " of rank " + std::to_string(r.rank));
      CHECK(r.engine->questions().empty());
    }
    answered.arrive_and_wait();
    CHECK(r.engine->questions().empty());
  });
}

TEST(a_question_that_comes_beside_data_wakes_who_answers) {
  World world(2, [](int, int) { return Wire::tcp; });
  std::barrier asked(2);
  world.run([&](Rank& r) {
    std::vector<float> data(100'000, 1);
    std::uint64_t number = 0;
    if (r.rank == 0) number = r.engine->ask("figures");
    asked.arrive_and_wait();
    all_reduce(*r.engine, *r.group, bytes(data), data.size(), DType::float32, Op::sum, 1, Mode::blocking);
    CHECK(data.front() == 2 && data.back() == 2);
    if (r.rank == 1) {
      CHECK(readable(r.engine->questions_descriptor(), 60'000));
      const auto questions = r.engine->questions();
      CHECK(!readable(r.engine->questions_descriptor(), 0));
      CHECK(questions.size() == 1 && questions[0].words == "figures");
      r.engine->answer(questions[0], std::string(Questions::kLongestAnswer, 'x'));
    } else {
      CHECK(all_answers(*r.engine, number, 1)[0].content.size() == Questions::kLongestAnswer);
    }
  });
}

TEST(the_newest_question_and_the_newest_answer_are_kept) {
  World world(2, [](int, int) { return Wire::tcp; });
  std::barrier step(2);
  world.run([&](Rank& r) {
    if (r.rank == 0) {
      r.engine->ask("first");
      const auto second = r.engine->ask("second");
      CHECK(text_of(all_answers(*r.engine, second, 1)[0].content) == "new");
      step.arrive_and_wait();
      step.arrive_and_wait();
      const auto kept = r.engine->answers();
      CHECK(kept[0].number == second && text_of(kept[0].content) == "newer");
    } else {
      std::vector<Question> questions;
      while (questions.empty() || questions[0].words != "second") questions = next_questions(*r.engine);
      CHECK(questions.size() == 1);
      r.engine->answer(questions[0], "new");
      step.arrive_and_wait();
      Question older = questions[0];
      --older.number;
      r.engine->answer(older, "old");
      Question unasked = questions[0];
      unasked.number += 7;
      r.engine->answer(unasked, "of nothing");
      r.engine->answer(questions[0], "newer");
      while (!r.engine->flush(questions[0].peer)) std::this_thread::yield();
      std::vector<float> data(10, 1);
      step.arrive_and_wait();
    }
    std::vector<float> data(10, 1);
    all_reduce(*r.engine, *r.group, bytes(data), data.size(), DType::float32, Op::sum, 1, Mode::blocking);
    if (r.rank == 0) CHECK(text_of(r.engine->answers()[0].content) == "newer");
  });
}

TEST(what_no_peer_would_read_is_refused) {
  World world(2, [](int, int) { return Wire::tcp; });
  world.run([&](Rank& r) {
    if (r.rank == 1) return;
    CHECK(failure_of([&] { r.engine->ask(std::string(Questions::kLongestQuestion + 1, 'x')); }).kind ==
          ErrorKind::invalid);
    CHECK(failure_of([&] { r.engine->answer({0, 1, ""}, std::string(Questions::kLongestAnswer + 1, 'x')); }).kind ==
          ErrorKind::invalid);
    r.engine->answer({17, 1, ""}, "to nobody");
  });
}

}  // namespace
}  // namespace paceline::test
