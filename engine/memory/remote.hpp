// Reads another process's memory without its help (process_vm_readv), and finds out whether that works.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace paceline {

// Reads `size` bytes at `address` of process `pid`. Returns 0 or the errno of the failure.
int read_remote(pid_t pid, std::uint64_t address, void* to, std::size_t size);

// The address of a word with a known value, for a peer to try `can_read` on.
std::uint64_t probe_address();
bool can_read(pid_t pid, std::uint64_t address);

// Lets any process of this user read this one, which the Yama module may restrict to its parents.
void allow_reads();

}  // namespace paceline
