// The least that a test needs: a check that says where it failed, and a list of tests to run by name.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string_view>
#include <vector>

#define CHECK(condition)                                                                 \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      std::fprintf(stderr, "%s:%d: CHECK(%s) failed\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                      \
    }                                                                                    \
  } while (false)

#define TEST(name)                                                        \
  static void name();                                                     \
  static const bool registered_##name = paceline::test::add(#name, name); \
  static void name()

namespace paceline::test {

struct Case {
  std::string_view name;
  std::function<void()> body;
};

inline std::vector<Case>& cases() {
  static std::vector<Case> all;
  return all;
}

inline bool add(std::string_view name, void (*body)()) {
  cases().push_back({name, body});
  return true;
}

}  // namespace paceline::test
