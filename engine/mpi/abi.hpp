// MPItrampoline's ABI: the types of handles, and the values of MPI's constants in this library.
#pragma once

#include <cstdint>

#include "mpi/names.hpp"

#define PACELINE_MPI_EXPORT extern "C" [[gnu::visibility("default")]]

namespace paceline::mpi {

// A communicator, datatype, reduction or request.
using Handle = std::uintptr_t;

// Each is unlike all others and small, so that none is the address of anything.
enum Constant : Handle {
#define PACELINE_MPI_VALUE(name) k##name,
  PACELINE_MPI_CONSTANTS(PACELINE_MPI_VALUE)
#undef PACELINE_MPI_VALUE
};

}  // namespace paceline::mpi
