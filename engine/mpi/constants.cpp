// MPI's constants. MPItrampoline reads each as an int, a handle or a pointer; all are the same number.
#include "mpi/abi.hpp"

#define PACELINE_MPI_DEFINE(name)                         \
  PACELINE_MPI_EXPORT const std::uintptr_t MPIABI_##name; \
  const std::uintptr_t MPIABI_##name = paceline::mpi::k##name;
PACELINE_MPI_CONSTANTS(PACELINE_MPI_DEFINE)

// The version of the ABI has to be the one that MPItrampoline was built with, or a later minor one.
#define PACELINE_MPI_INT PACELINE_MPI_EXPORT const int
PACELINE_MPI_INT mpiabi_version_major, mpiabi_version_minor, mpiabi_version_patch;
PACELINE_MPI_INT mpiwrapper_version_major, mpiwrapper_version_minor, mpiwrapper_version_patch;
const int mpiabi_version_major = 2;
const int mpiabi_version_minor = 10;
const int mpiabi_version_patch = 0;
const int mpiwrapper_version_major = 2;
const int mpiwrapper_version_minor = 10;
const int mpiwrapper_version_patch = 0;
