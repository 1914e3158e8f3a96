// Holds what all messages of one operation have in common, and reads them.
#pragma once

#include <span>
#include <vector>

#include "execute/receive.hpp"
#include "failure/error.hpp"
#include "program/program.hpp"

namespace paceline {

class Group;
class Operation;

struct Context {
  Group* group = nullptr;
  const Program* program = nullptr;
  Header header;                           // that of every message, but for its tag and length
  Fold inner_fold{DType::uint8, Op::sum};  // the program's fold without the final division
  std::span<std::byte> workspace;          // free between two steps
  std::vector<std::size_t> slot_lengths;   // of the encoded bytes that are in each of the program's slots
  std::vector<const std::byte*> inputs;    // of the combination under way
  bool read_remotely = false;
  Error trouble;  // the first error

  void say(const Error& error) {
    if (!trouble) trouble = error;
  }
  // An operation begins, with no program so far.
  void begin(const Operation& operation, std::span<std::byte> scratch);
  // Whether what was read of an offered message so far counts. If not, its owner has given up, and says why.
  bool stands(const Receive& receive) const;
  // Copies a part of an offered message from where it lies. Returns false if its owner is gone, or has given up.
  bool read(Receive& receive, std::size_t offset, std::byte* data, std::size_t size);
  // What `peer` sent is nothing that its codec makes of so many elements.
  void refuse_garbled(int peer, std::size_t bytes, std::size_t count);
  // Takes in the next part of an offered message. Returns true if it could.
  bool pull(Receive& receive);
  // The message has been used.
  void release(Receive& receive);
  // Hands `receive` the message that has come for it, or makes it wait for one.
  void post(Receive& receive);
};

}  // namespace paceline
