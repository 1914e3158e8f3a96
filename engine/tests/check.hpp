// The least that a test needs: a check that says where it failed, and a list of tests to run by name.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#define CHECK(condition)                                                                 \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      std::fprintf(stderr, "%s:%d: CHECK(%s) failed\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                      \
    }                                                                                    \
  } while (false)

#define TEST(name) PACELINE_TEST(always, name)
// A test of `make test-long` runs only where it is asked for by its name.
#define LONG_TEST(name) PACELINE_TEST(by_name, name)

#define PACELINE_TEST(when, name)                                                                               \
  static void name();                                                                                           \
  static const bool registered_##name = paceline::test::add(__FILE__, #name, paceline::test::When::when, name); \
  static void name()

namespace paceline::test {

enum class When { always, by_name };

struct Case {
  std::string_view file;  // its path
  std::string_view name;
  When when;
  void (*body)();
};

inline std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}

inline bool add(std::string_view file, std::string_view name, When when, void (*body)()) {
  cases().push_back({file, name, when, body});
  return true;
}

}  // namespace paceline::test
