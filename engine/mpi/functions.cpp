// The functions of MPI that XLA's collectives call on CPUs, in `xla/backends/cpu/collectives/mpi_*.cc`.
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "mpi/datatypes.hpp"

namespace paceline::mpi {
namespace {

constexpr int kSuccess = 0;
constexpr int kFailure = 1;                    // MPI_Error_string has the words
constexpr std::size_t kLongestError = 1024;    // bytes, MPIABI_MAX_ERROR_STRING
constexpr std::uintptr_t kPage = 4096;         // bytes, the smallest that a kernel has
constexpr std::size_t kHugePage = 2 << 20;     // bytes
constexpr std::size_t kLongestVersion = 8192;  // bytes, MPIABI_MAX_LIBRARY_VERSION_STRING

Communicator* world = nullptr;
thread_local std::string last_error;

int outcome(std::string error) {
  if (error.empty()) return kSuccess;
  last_error = std::move(error);
  return kFailure;
}

Communicator& of(Handle handle) {
  Communicator* found = handle == kCOMM_WORLD ? world : reinterpret_cast<Communicator*>(handle);
  if (found == nullptr) {
    std::fputs("Paceline has to be joined before JAX asks for MPI: call paceline.jax.initialize()\n", stderr);
    std::abort();
  }
  return *found;
}

// Returns the bytes of so many elements; sets `error` if that makes no sense. XLA hands counts over as int, which a
// message of 2 GiB or more does not fit into.
std::size_t message_bytes(int count, Handle datatype, std::string& error) {
  const auto size = bytes_of(datatype);
  if (!size) error = "Paceline does not know this MPI datatype";
  if (count < 0) error = "JAX hands MPI at most 2^31 - 1 elements, or bytes where it moves data, in one collective";
  return size && count >= 0 ? static_cast<std::size_t>(count) * *size : 0;
}

// JAX takes new memory from the kernel for each large result. Huge pages make that faster: in two runs on a busy
// machine a copy of 64 MiB into new memory took 28 and 57 ms with them, and 97 and 124 ms without.
std::byte* result(void* to, std::size_t bytes) {
  if (bytes >= 2 * kHugePage) {
    const auto begin = (reinterpret_cast<std::uintptr_t>(to) + kPage - 1) / kPage * kPage;
    const auto end = (reinterpret_cast<std::uintptr_t>(to) + bytes) / kPage * kPage;
    ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);  // a wish: it may fail
  }
  return static_cast<std::byte*>(to);
}

Communicator::Wait failed(std::string error) {
  return [error = std::move(error)] { return error; };
}

Communicator::Wait send(const void* data, int count, Handle datatype, int to, int tag, Handle with) {
  std::string error;
  const std::size_t bytes = message_bytes(count, datatype, error);
  if (!error.empty()) return failed(error);
  return of(with).send(static_cast<const std::byte*>(data), bytes, to, tag);
}

Communicator::Wait receive(void* data, int count, Handle datatype, int from, int tag, Handle with) {
  std::string error;
  const std::size_t bytes = message_bytes(count, datatype, error);
  if (!error.empty()) return failed(error);
  return of(with).receive(static_cast<std::byte*>(data), bytes, from, tag);
}

int write(const std::string& words, std::size_t longest, char* to, int* length) {
  const std::size_t count = std::min(words.size(), longest - 1);
  std::memcpy(to, words.data(), count);
  to[count] = '\0';
  *length = static_cast<int>(count);
  return kSuccess;
}

}  // namespace
}  // namespace paceline::mpi

using paceline::mpi::Communicator;
using paceline::mpi::Handle;
using paceline::mpi::of;
using paceline::mpi::outcome;
using paceline::mpi::result;

// Paceline calls it before JAX calls anything: all ranks of the job.
PACELINE_MPI_EXPORT void paceline_mpi_serve(Communicator* all) { paceline::mpi::world = all; }

PACELINE_MPI_EXPORT int MPIABI_Init(int*, char***) { return 0; }

PACELINE_MPI_EXPORT int MPIABI_Init_thread(int*, char***, int required, int* provided) {
  *provided = required;
  return 0;
}

PACELINE_MPI_EXPORT int MPIABI_Initialized(int* flag) {
  *flag = 1;
  return 0;
}

// Any thread may call the engine.
PACELINE_MPI_EXPORT int MPIABI_Is_thread_main(int* flag) {
  *flag = 1;
  return 0;
}

// Paceline itself says goodbye to the other ranks when the process ends.
PACELINE_MPI_EXPORT int MPIABI_Finalize() { return 0; }

PACELINE_MPI_EXPORT int MPIABI_Finalized(int* flag) {
  *flag = 0;
  return 0;
}

PACELINE_MPI_EXPORT int MPIABI_Get_library_version(char* version, int* length) {
  return paceline::mpi::write("Paceline", paceline::mpi::kLongestVersion, version, length);
}

PACELINE_MPI_EXPORT int MPIABI_Error_string(int, char* words, int* length) {
  return paceline::mpi::write(paceline::mpi::last_error, paceline::mpi::kLongestError, words, length);
}

PACELINE_MPI_EXPORT int MPIABI_Comm_split(Handle with, int color, int key, Handle* made) {
  *made = reinterpret_cast<Handle>(of(with).split(color, key));
  return 0;
}

PACELINE_MPI_EXPORT int MPIABI_Comm_rank(Handle with, int* rank) {
  *rank = of(with).rank();
  return 0;
}

PACELINE_MPI_EXPORT int MPIABI_Comm_size(Handle with, int* size) {
  *size = of(with).size();
  return 0;
}

PACELINE_MPI_EXPORT int MPIABI_Comm_free(Handle* with) {
  *with = paceline::mpi::kCOMM_NULL;
  return 0;
}

PACELINE_MPI_EXPORT int MPIABI_Allreduce(const void* from, void* to, int count, Handle datatype, Handle op,
                                         Handle with) {
  std::string error;
  const std::size_t bytes = paceline::mpi::message_bytes(count, datatype, error);
  if (!error.empty()) return outcome(error);
  return outcome(paceline::mpi::all_reduce(of(with), static_cast<const std::byte*>(from), result(to, bytes),
                                           static_cast<std::size_t>(count), datatype, op));
}

PACELINE_MPI_EXPORT int MPIABI_Reduce_scatter(const void* from, void* to, const int* counts, Handle datatype, Handle op,
                                              Handle with) {
  std::string error;
  const std::size_t bytes = paceline::mpi::message_bytes(counts[0], datatype, error);
  if (!error.empty()) return outcome(error);
  if (std::any_of(counts, counts + of(with).size(), [&](int count) { return count != counts[0]; }))
    return outcome("Paceline scatters the same number of elements to each rank, as JAX does");
  return outcome(paceline::mpi::reduce_scatter(of(with), static_cast<const std::byte*>(from), result(to, bytes),
                                               static_cast<std::size_t>(counts[0]), datatype, op));
}

PACELINE_MPI_EXPORT int MPIABI_Allgather(const void* from, int count, Handle datatype, void* to, int, Handle,
                                         Handle with) {
  std::string error;
  const std::size_t bytes = paceline::mpi::message_bytes(count, datatype, error);
  if (!error.empty()) return outcome(error);
  Communicator& ranks = of(with);
  std::byte* all = result(to, bytes * static_cast<std::size_t>(ranks.size()));
  return outcome(ranks.all_gather(static_cast<const std::byte*>(from), all, bytes));
}

PACELINE_MPI_EXPORT int MPIABI_Isend(const void* data, int count, Handle datatype, int to, int tag, Handle with,
                                     Handle* request) {
  *request =
      reinterpret_cast<Handle>(new Communicator::Wait(paceline::mpi::send(data, count, datatype, to, tag, with)));
  return 0;
}

PACELINE_MPI_EXPORT int MPIABI_Irecv(void* data, int count, Handle datatype, int from, int tag, Handle with,
                                     Handle* request) {
  *request =
      reinterpret_cast<Handle>(new Communicator::Wait(paceline::mpi::receive(data, count, datatype, from, tag, with)));
  return 0;
}

PACELINE_MPI_EXPORT int MPIABI_Wait(Handle* request, void*) {
  auto* wait = reinterpret_cast<Communicator::Wait*>(*request);
  *request = paceline::mpi::kREQUEST_NULL;
  std::string error = (*wait)();
  delete wait;
  return outcome(std::move(error));
}

PACELINE_MPI_EXPORT int MPIABI_Sendrecv(const void* out, int sent, Handle out_type, int to, int out_tag, void* in,
                                        int received, Handle in_type, int from, int in_tag, Handle with, void*) {
  const auto incoming = paceline::mpi::receive(in, received, in_type, from, in_tag, with);
  const auto outgoing = paceline::mpi::send(out, sent, out_type, to, out_tag, with);
  std::string error = outgoing();
  const std::string other = incoming();  // nothing may use the buffers any more when this returns
  return outcome(error.empty() ? other : error);
}
