// What MPI's functions need of a group of ranks. The Python module makes communicators of Paceline's groups; the
// library that speaks MPI knows only this class, so that it contains nothing of the engine.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "types/elements.hpp"

namespace paceline::mpi {

// Every call says why it failed, in words, and returns an empty text if it did not. Counts are in elements.
class Communicator {
 public:
  // Waits until a message has been sent or received.
  using Wait = std::function<std::string()>;

  Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // `source` and `to` are the same, or do not overlap.
  virtual std::string all_reduce(const std::byte* source, std::byte* to, std::size_t count, DType dtype, Op op) = 0;
  virtual std::string all_gather(const std::byte* source, std::byte* to, std::size_t bytes) = 0;
  virtual std::string reduce_scatter(const std::byte* source, std::byte* to, std::size_t count, DType dtype, Op op) = 0;
  virtual Wait send(const std::byte* data, std::size_t bytes, int peer, int tag) = 0;
  virtual Wait receive(std::byte* data, std::size_t bytes, int peer, int tag) = 0;
  // Returns the communicator of the ranks that give the same `color`, in the order of `key`. All ranks call it. It
  // lives as long as the process. If it could not be made, each of its calls says why.
  virtual Communicator* split(int color, int key) = 0;

 protected:
  ~Communicator() = default;  // nobody deletes one: XLA keeps its own until the process ends
};

}  // namespace paceline::mpi
