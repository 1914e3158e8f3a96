// The part of the DLPack standard that a look at a tensor needs: its C exchange API, and what its capsules hold,
// version 1.
#pragma once

#include <cstdint>

namespace paceline::dlpack {

inline constexpr const char* kAttribute = "__dlpack_c_exchange_api__";  // the tensor's type has it
inline constexpr const char* kCapsule = "dlpack_exchange_api";
inline constexpr std::uint32_t kMajor = 1;

enum Device : std::int32_t { cpu = 1 };
enum Code : std::uint8_t { integer = 0, unsigned_integer = 1, floating = 2, brain_floating = 4, boolean = 6 };

struct Tensor {
  void* data;
  std::int32_t device;
  std::int32_t device_id;
  std::int32_t dimensions;
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
  const std::int64_t* shape;
  const std::int64_t* strides;  // in elements; null if the tensor is contiguous
  std::uint64_t byte_offset;
};

inline constexpr const char* kManaged = "dltensor";  // names of capsules that nobody has taken yet
inline constexpr const char* kVersioned = "dltensor_versioned";
inline constexpr std::uint64_t kReadOnly = 1;

struct Managed {
  Tensor tensor;
  void* context;
  void* deleter;
};

struct Versioned {
  std::uint32_t major;
  std::uint32_t minor;
  void* context;
  void* deleter;
  std::uint64_t flags;
  Tensor tensor;
};

struct ExchangeApi {
  std::uint32_t major;
  std::uint32_t minor;
  const void* previous;
  void* allocate;
  void* own;
  void* show;
  int (*borrow)(void* object, Tensor* out);  // needs the GIL; returns 0, or sets a Python error; null if not offered
  void* stream;
};

}  // namespace paceline::dlpack
