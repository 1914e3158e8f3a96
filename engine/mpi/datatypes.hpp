// MPI's datatypes and reductions, as the engine has them.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "mpi/abi.hpp"
#include "mpi/communicator.hpp"
#include "types/elements.hpp"

namespace paceline::mpi {

// Returns the bytes of an element; nothing for a datatype that is not known.
std::optional<std::size_t> bytes_of(Handle datatype);

// Combine `count` elements of `from`, or `count` for each rank, as MPI_Allreduce and MPI_Reduce_scatter do. Return why
// not, in words, or an empty text. Datatypes that the engine does not have go as wider ones.
std::string all_reduce(Communicator& with, const std::byte* from, std::byte* to, std::size_t count, Handle datatype,
                       Handle op);
std::string reduce_scatter(Communicator& with, const std::byte* from, std::byte* to, std::size_t count, Handle datatype,
                           Handle op);

}  // namespace paceline::mpi
