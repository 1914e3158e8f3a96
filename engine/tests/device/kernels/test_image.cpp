// What nvcc made holds every kernel for every GPU that the engine serves. Nothing is to see where there was no nvcc.
#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>

#include "device/kernels/launch.hpp"
#include "tests/check.hpp"

using namespace paceline;
using namespace paceline::device;

namespace {

// A fatbin is a header and entries, each with a header of its own (as read from what nvcc 12.8 and 13.0 write).
constexpr std::uint32_t kMagic = 0xba55ed50;
constexpr std::uint16_t kPtx = 1;
constexpr std::uint16_t kElf = 2;

struct Entry {
  std::uint16_t kind;
  std::uint32_t architecture;
  std::span<const std::byte> compressed;
  std::size_t bytes;  // once it is not compressed any more
};

template <typename T>
T at(std::span<const std::byte> bytes, std::size_t offset) {
  CHECK(offset + sizeof(T) <= bytes.size());
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::vector<Entry> entries(std::span<const std::byte> image) {
  CHECK(at<std::uint32_t>(image, 0) == kMagic);
  auto rest = image.subspan(at<std::uint16_t>(image, 6));
  CHECK(rest.size() == at<std::uint64_t>(image, 8));
  std::vector<Entry> all;
  while (!rest.empty()) {
    const auto header = at<std::uint32_t>(rest, 4);
    const auto padded = at<std::uint64_t>(rest, 8);
    CHECK(header + padded <= rest.size());
    all.push_back({at<std::uint16_t>(rest, 0), at<std::uint32_t>(rest, 28),
                   rest.subspan(header, at<std::uint32_t>(rest, 16)), at<std::uint64_t>(rest, 56)});
    rest = rest.subspan(header + padded);
  }
  return all;
}

// Empty if this machine has no library for it.
std::string decompressed(const Entry& entry) {
  using Decompress = std::size_t (*)(void*, std::size_t, const void*, std::size_t);
  static void* const library = dlopen("libzstd.so.1", RTLD_NOW);
  if (library == nullptr) return {};
  const auto decompress = reinterpret_cast<Decompress>(dlsym(library, "ZSTD_decompress"));
  CHECK(decompress != nullptr);
  std::string bytes(entry.bytes, '\0');
  CHECK(decompress(bytes.data(), bytes.size(), entry.compressed.data(), entry.compressed.size()) == bytes.size());
  return bytes;
}

}  // namespace

TEST(the_image_serves_every_architecture) {
  if (fatbin().empty()) return;
  std::map<std::uint16_t, std::vector<std::uint32_t>> found;
  for (const Entry& entry : entries(fatbin())) found[entry.kind].push_back(entry.architecture);
  CHECK((found[kElf] == std::vector<std::uint32_t>{80, 86, 89, 90, 100}));
  CHECK((found[kPtx] == std::vector<std::uint32_t>{80}));
}

TEST(every_kernel_is_in_every_entry) {
  if (fatbin().empty()) return;
  for (const Entry& entry : entries(fatbin())) {
    const std::string bytes = decompressed(entry);
    if (bytes.empty()) return;
    for (const std::string_view name : kernel_names()) {
      // A name in the table of symbols, or the definition in PTX.
      const std::string symbol = '\0' + std::string(name) + '\0';
      const std::string definition = ".entry " + std::string(name) + '(';
      CHECK(bytes.find(entry.kind == kElf ? symbol : definition) != std::string::npos);
    }
  }
}

TEST(names_are_different) {
  std::vector<std::string_view> names(kernel_names().begin(), kernel_names().end());
  std::ranges::sort(names);
  CHECK(std::ranges::adjacent_find(names) == names.end());
}
