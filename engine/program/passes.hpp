// What moves in a collective that moves data along a plan, stage by stage, and where it goes as encoded bytes.
#pragma once

#include <cstddef>
#include <vector>

#include "program/rows.hpp"
#include "program/writer.hpp"

namespace paceline {

// Bytes [begin, end) of a piece go from one rank to another.
struct Pass {
  int from;
  int to;
  std::size_t begin;
  std::size_t end;
};

using Passes = std::vector<std::vector<Pass>>;  // by stage

// Has this rank send and receive what `passes` say, the stages one after the other. Where data cross from one machine
// to another, or will cross later, they go as the bytes that the rank which had them first has encoded.
void pass_on(ProgramWriter& writer, const Passes& passes, std::byte* data, std::byte* residual, Rows rows);

}  // namespace paceline
