#include "mpi/datatypes.hpp"

#include <cstring>
#include <vector>

namespace paceline::mpi {
namespace {

struct Kind {
  Handle datatype;
  std::size_t bytes;
  DType dtype;  // that the engine combines it as

  bool is_complex() const { return !is_combined(dtype); }
  bool is_widened() const { return size_of(dtype) > bytes; }
};

constexpr Kind kKinds[] = {
    {kBYTE, 1, DType::uint8},
    {kINT8_T, 1, DType::int8},
    {kUINT8_T, 1, DType::uint8},
    {kINT16_T, 2, DType::int32},
    {kUINT16_T, 2, DType::int32},
    {kINT32_T, 4, DType::int32},
    {kUINT32_T, 4, DType::int64},
    {kINT64_T, 8, DType::int64},
    {kUINT64_T, 8, DType::int64},
    {kFLOAT, 4, DType::float32},
    {kDOUBLE, 8, DType::float64},
    {kC_COMPLEX, 8, DType::complex64},
    {kC_DOUBLE_COMPLEX, 16, DType::complex128},
};

const Kind* kind_of(Handle datatype) {
  for (const Kind& kind : kKinds)
    if (kind.datatype == datatype) return &kind;
  return nullptr;
}

struct Reduction {
  Handle number;
  Op op;
};

constexpr Reduction kReductions[] = {{kSUM, Op::sum}, {kPROD, Op::product}, {kMIN, Op::min}, {kMAX, Op::max}};

const Reduction* reduction_of(Handle number) {
  for (const Reduction& reduction : kReductions)
    if (reduction.number == number) return &reduction;
  return nullptr;
}

// Returns why the engine cannot combine this, in words; empty if it can.
std::string refusal(const Kind* kind, const Reduction* reduction) {
  if (kind == nullptr || reduction == nullptr) return "Paceline does not know this MPI datatype or reduction";
  const Op op = reduction->op;
  if (kind->is_complex() && op != Op::sum) return "Paceline adds complex numbers, and has no other reduction of them";
  if (kind->datatype == kUINT64_T && (op == Op::min || op == Op::max))
    return "Paceline has no minimum and maximum of uint64; int64 and float64 have them";
  return {};
}

// Calls `call` with a number of the datatype, and one that has room for all of its values.
template <typename Call>
void with_widths(const Kind& kind, Call&& call) {
  if (kind.datatype == kINT16_T) return call(std::int16_t{}, std::int32_t{});
  if (kind.datatype == kUINT16_T) return call(std::uint16_t{}, std::int32_t{});
  call(std::uint32_t{}, std::int64_t{});
}

std::vector<std::byte> widened(const Kind& kind, const std::byte* from, std::size_t count) {
  std::vector<std::byte> wide(count * size_of(kind.dtype));
  with_widths(kind, [&](auto value, auto room) {
    for (std::size_t i = 0; i < count; ++i) {
      std::memcpy(&value, from + i * sizeof value, sizeof value);
      room = value;
      std::memcpy(wide.data() + i * sizeof room, &room, sizeof room);
    }
  });
  return wide;
}

// The low bits of a wide result are those that narrow numbers would have had.
void narrow(const Kind& kind, const std::vector<std::byte>& wide, std::byte* to) {
  with_widths(kind, [&](auto value, auto room) {
    for (std::size_t i = 0; i < wide.size() / sizeof room; ++i) {
      std::memcpy(&room, wide.data() + i * sizeof room, sizeof room);
      value = static_cast<decltype(value)>(room);
      std::memcpy(to + i * sizeof value, &value, sizeof value);
    }
  });
}

}  // namespace

std::optional<std::size_t> bytes_of(Handle datatype) {
  const Kind* kind = kind_of(datatype);
  return kind == nullptr ? std::nullopt : std::optional(kind->bytes);
}

std::string all_reduce(Communicator& with, const std::byte* from, std::byte* to, std::size_t count, Handle datatype,
                       Handle op) {
  const Kind* kind = kind_of(datatype);
  const Reduction* reduction = reduction_of(op);
  if (std::string why = refusal(kind, reduction); !why.empty()) return why;
  if (kind->is_widened()) {
    auto wide = widened(*kind, from, count);
    std::string error = with.all_reduce(wide.data(), wide.data(), count, kind->dtype, reduction->op);
    if (error.empty()) narrow(*kind, wide, to);
    return error;
  }
  return with.all_reduce(from, to, count, kind->dtype, reduction->op);
}

std::string reduce_scatter(Communicator& with, const std::byte* from, std::byte* to, std::size_t count, Handle datatype,
                           Handle op) {
  const Kind* kind = kind_of(datatype);
  const Reduction* reduction = reduction_of(op);
  if (std::string why = refusal(kind, reduction); !why.empty()) return why;
  if (kind->is_widened()) {
    const auto wide = widened(*kind, from, count * static_cast<std::size_t>(with.size()));
    std::vector<std::byte> block(count * size_of(kind->dtype));
    std::string error = with.reduce_scatter(wide.data(), block.data(), count, kind->dtype, reduction->op);
    if (error.empty()) narrow(*kind, block, to);
    return error;
  }
  return with.reduce_scatter(from, to, count, kind->dtype, reduction->op);
}

}  // namespace paceline::mpi
