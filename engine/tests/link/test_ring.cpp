// The ring of records, with a writer and a reader in different threads.
#include <array>
#include <random>
#include <thread>

#include "link/ring.hpp"
#include "tests/check.hpp"

using namespace paceline;

namespace {

struct Shared {
  RingMemory memory{};
  Cursor consumed{};
};

// What record `number` holds follows from its number alone.
std::vector<std::byte> payload_of(std::uint64_t number) {
  std::mt19937_64 random(number);
  std::vector<std::byte> payload(random() % (kLargestRecord + 1));
  for (auto& byte : payload) byte = static_cast<std::byte>(random());
  return payload;
}

}  // namespace

TEST(records_arrive_whole_and_in_order) {
  constexpr std::uint64_t kRecords = 20'000;
  auto shared = std::make_unique<Shared>();
  std::thread writer([&] {
    RingWriter ring(shared->memory, shared->consumed);
    for (std::uint64_t number = 0; number < kRecords; ++number) {
      const auto payload = payload_of(number);
      Header header;
      header.id = number;
      header.length = payload.size();
      while (!ring.write(header, payload.data(), payload.size())) std::this_thread::yield();
    }
  });
  RingReader ring(shared->memory, shared->consumed);
  for (std::uint64_t number = 0; number < kRecords; ++number) {
    Header header;
    while (!ring.peek(header)) std::this_thread::yield();
    CHECK(header.id == number);
    std::vector<std::byte> payload(header.length);
    ring.take(payload);
    CHECK(payload == payload_of(number));
  }
  writer.join();
  Header header;
  CHECK(!ring.peek(header));
}

TEST(old_payload_is_never_taken_for_a_record) {
  // Payloads full of every stamp that could be valid next.
  auto shared = std::make_unique<Shared>();
  RingWriter writer(shared->memory, shared->consumed);
  RingReader reader(shared->memory, shared->consumed);
  for (std::uint64_t round = 0; round < 5000; ++round) {
    std::array<std::uint64_t, kLargestRecord / 8> stamps;
    for (std::size_t i = 0; i < stamps.size(); ++i) stamps[i] = round * 17 + i / 8 + kSlots;
    Header header;
    header.length = sizeof stamps;
    CHECK(writer.write(header, reinterpret_cast<const std::byte*>(stamps.data()), sizeof stamps));
    CHECK(reader.peek(header));
    std::vector<std::byte> payload(sizeof stamps);
    reader.take(payload);
    CHECK(!reader.peek(header));
  }
}

TEST(a_full_ring_refuses_and_recovers) {
  auto shared = std::make_unique<Shared>();
  RingWriter writer(shared->memory, shared->consumed);
  RingReader reader(shared->memory, shared->consumed);
  Header header;
  std::size_t written = 0;
  while (writer.write(header, nullptr, 0)) ++written;
  CHECK(written == kSlots - 1);
  CHECK(reader.peek(header));
  reader.take({});
  CHECK(writer.write(header, nullptr, 0));
  CHECK(!writer.write(header, nullptr, 0));
}
