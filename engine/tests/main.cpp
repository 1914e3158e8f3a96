// Runs the tests that are named: by themselves, or by their file as `test_ring`; without a name, those of an executable
// that has one file.
#include <algorithm>
#include <ctime>
#include <span>

#include "tests/check.hpp"

namespace {

using paceline::test::Case;
using paceline::test::When;

std::string_view stem(std::string_view path) {
  path.remove_prefix(path.rfind('/') + 1);
  return path.substr(0, path.find('.'));
}

bool wanted(const Case& test, std::span<char*> names) {
  const auto named = [&](std::string_view name) {
    return std::ranges::any_of(names, [name](const char* given) { return name == given; });
  };
  return named(test.name) || (test.when == When::always && (names.empty() || named(stem(test.file))));
}

}  // namespace

int main(int argc, char** argv) {
  const std::span<char*> names(argv + 1, static_cast<std::size_t>(argc - 1));
  const std::string_view first = stem(paceline::test::cases().front().file);
  const auto elsewhere = [first](const Case& test) { return stem(test.file) != first; };
  if (names.empty() && std::ranges::any_of(paceline::test::cases(), elsewhere)) {
    std::fprintf(stderr, "Name the tests to run, or files of them as %.*s: each file wants a process of its own.\n",
                 static_cast<int>(first.size()), first.data());
    return 2;
  }
  int passed = 0;
  for (const Case& test : paceline::test::cases()) {
    if (!wanted(test, names)) continue;
    const std::clock_t begin = std::clock();
    test.body();
    const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    std::printf("ok %.*s, %.1f s of CPU time\n", static_cast<int>(test.name.size()), test.name.data(), seconds);
    std::fflush(stdout);
    ++passed;
  }
  if (passed == 0) std::fprintf(stderr, "no such test\n");
  return passed == 0 ? 1 : 0;
}
