#include "memory/remote.hpp"

#include <sys/prctl.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>

#include "delays/delays.hpp"

namespace paceline {
namespace {

constexpr std::uint64_t kProbeWord = 0x5041434c494e4531;  // "PACLINE1"
const volatile std::uint64_t probe_word = kProbeWord;
constexpr std::size_t kLargestRead = std::size_t{1} << 30;

}  // namespace

int read_remote(pid_t pid, std::uint64_t address, void* to, std::size_t size) {
  delay(Between::address_and_read);
  auto* out = static_cast<char*>(to);
  while (size > 0) {
    const iovec local{out, std::min(size, kLargestRead)};
    const iovec remote{reinterpret_cast<void*>(address), local.iov_len};
    const ssize_t got = ::process_vm_readv(pid, &local, 1, &remote, 1, 0);
    if (got < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    if (got == 0) return EFAULT;
    out += got;
    address += static_cast<std::uint64_t>(got);
    size -= static_cast<std::size_t>(got);
  }
  return 0;
}

std::uint64_t probe_address() { return reinterpret_cast<std::uint64_t>(&probe_word); }

bool can_read(pid_t pid, std::uint64_t address) {
  std::uint64_t word = 0;
  return pid > 0 && read_remote(pid, address, &word, sizeof word) == 0 && word == kProbeWord;
}

void allow_reads() {
#ifdef PR_SET_PTRACER
  ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
#endif
}

}  // namespace paceline
