// Runs the tests of one executable, or those whose names are given.
#include <algorithm>
#include <span>

#include "tests/check.hpp"

int main(int argc, char** argv) {
  const std::span<char*> wanted(argv + 1, static_cast<std::size_t>(argc - 1));
  int passed = 0;
  for (const auto& test : paceline::test::cases()) {
    if (!wanted.empty() && std::ranges::none_of(wanted, [&](const char* name) { return test.name == name; })) continue;
    test.body();
    std::printf("ok %.*s\n", static_cast<int>(test.name.size()), test.name.data());
    std::fflush(stdout);
    ++passed;
  }
  if (passed == 0) std::fprintf(stderr, "no such test\n");
  return passed == 0 ? 1 : 0;
}
