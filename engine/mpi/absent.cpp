// The functions of MPI that JAX does not call. They have to be there; a call of one names it and ends the process.
#include <cstdio>
#include <cstdlib>

#include "mpi/abi.hpp"

namespace {

[[noreturn]] void end(const char* function) {
  std::fprintf(stderr,
               "Paceline has those functions of MPI that JAX's collectives call, and %s is not one of them: unset "
               "MPITRAMPOLINE_LIB, or let it name an MPI\n",
               function);
  std::abort();
}

}  // namespace

#define PACELINE_MPI_STUB(name) \
  PACELINE_MPI_EXPORT void MPIABI_##name() { end("MPI_" #name); }
PACELINE_MPI_ABSENT(PACELINE_MPI_STUB)

#define PACELINE_MPI_EXTENSION(name) \
  PACELINE_MPI_EXPORT int MPIXABI_##name() { return 0; }
PACELINE_MPI_EXTENSION(Query_cuda_support)
PACELINE_MPI_EXTENSION(Query_hip_support)
PACELINE_MPI_EXTENSION(Query_rocm_support)
PACELINE_MPI_EXTENSION(Query_ze_support)

PACELINE_MPI_EXPORT void mpiwrapper_export_fortran_constants_() {}
