// The pointer cache says what the driver would, at every moment.
#include <algorithm>
#include <random>
#include <vector>

#include "device/pointers.hpp"
#include "tests/check.hpp"
#include "tests/device/double/wishes.hpp"

using namespace paceline::device;

namespace {

constexpr std::size_t kPage = 4096;  // bytes

struct Known {
  Memory memory;
  bool own;
};

// What holds the address, by looking at everything that is there.
Memory looked_up(const std::vector<Known>& all, Address address) {
  const auto holds = [&](const Known& one) { return one.memory.holds(address, 1); };
  const auto found = std::ranges::find_if(all, holds);
  return found == all.end() ? Memory{.base = address} : found->memory;
}

}  // namespace

// Addresses are used again and again, because the kernel gives the lowest hole out first, with other kinds and lengths.
TEST(the_same_as_a_search_through_everything) {
  const auto driver = Driver::find().driver;
  PointerCache cache(*driver);
  std::mt19937 random(5);
  const auto below = [&](std::size_t limit) {
    return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random);
  };
  std::vector<Known> all;
  std::vector<Address> seen;
  std::size_t right = 0;
  for (int step = 0; step < 20'000; ++step) {
    const auto what = below(10);
    if (what == 0 && all.size() < 40) {
      const auto kind = static_cast<Kind>(2 + below(4));
      const std::size_t length = kPage * (1 + below(6));
      Memory memory{double_allocate(length, static_cast<int>(kind)), length, kind, 0, 0};
      CHECK(memory.base != 0);
      driver->check(driver->pointer_attribute(&memory.buffer_id, PointerAttribute::buffer_id, memory.base), "");
      const bool own = kind == Kind::device && below(2) == 0;
      if (own) cache.add_own(memory);
      all.push_back({memory, own});
      seen.push_back(memory.base);
    } else if (what == 1 && !all.empty()) {
      const auto one = all.begin() + static_cast<std::ptrdiff_t>(below(all.size()));
      if (one->own) cache.forget(one->memory.base);
      driver->check(driver->free(one->memory.base), "cuMemFree");
      all.erase(one);
    } else if (!seen.empty()) {
      const Address address = seen[below(seen.size())] + below(8 * kPage);
      const Memory expected = looked_up(all, address);
      CHECK(cache.find(address) == expected);
      right += expected.kind != Kind::pageable ? 1 : 0;
    }
  }
  CHECK(right > 1000);
  for (const Known& one : all) driver->check(driver->free(one.memory.base), "cuMemFree");
  CHECK(double_held() == 0);
}

TEST(the_driver_is_asked_once_and_for_own_memory_never) {
  const auto driver = Driver::find().driver;
  PointerCache cache(*driver);
  const Address address = double_allocate(kPage, static_cast<int>(Kind::device));
  const auto asked = [](const char* function, auto&& work) {
    const auto before = double_calls(function);
    work();
    return double_calls(function) - before;
  };
  const auto find = [&] {
    for (int i = 0; i < 10; ++i) CHECK(cache.find(address + 17).kind == Kind::device);
  };
  CHECK(asked("cuPointerGetAttributes", find) == 1 && cache.queries() == 1);
  CHECK(asked("cuPointerGetAttribute", find) == 10);  // whether the number is still the same
  cache.add_own(cache.find(address));
  CHECK(asked("cuPointerGetAttribute", find) == 0 && asked("cuPointerGetAttributes", find) == 0);
  driver->free(address);
}

TEST(memory_that_took_the_place_of_other_memory_is_told_from_it) {
  const auto driver = Driver::find().driver;
  PointerCache cache(*driver);
  const Address first = double_allocate(4 * kPage, static_cast<int>(Kind::device));
  CHECK(cache.find(first).length == 4 * kPage);
  driver->free(first);
  CHECK(cache.find(first).kind == Kind::pageable && cache.size() == 0);
  const Address second = double_allocate(4 * kPage, static_cast<int>(Kind::pool));
  CHECK(second == first);  // or this test shows nothing
  CHECK(cache.find(second).kind == Kind::pool);
  driver->free(second);
}

TEST(a_failing_driver_is_named) {
  const auto driver = Driver::find().driver;
  PointerCache cache(*driver);
  double_fail("cuPointerGetAttributes", static_cast<int>(Result::invalid_context), 0);
  try {
    cache.find(0x1000);
    CHECK(false);
  } catch (const DriverError& error) {
    CHECK(error.result == Result::invalid_context);
  }
}
