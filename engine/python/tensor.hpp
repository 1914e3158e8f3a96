// Looks at tensors by DLPack's C exchange, without going through any Python code.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <optional>

#include "python/dlpack.hpp"
#include "types/elements.hpp"

namespace paceline {

// The memory of a tensor, which its caller keeps alive.
class Tensor {
 public:
  // The tensor is false, and no Python error is set, if the object shows no contiguous memory of the CPU of a known
  // element type. Its memory may always be written to.
  Tensor(nanobind::handle object, bool writable);

  // The memory of whatever device the capsule shows that an object's __dlpack__ has returned.
  explicit Tensor(PyObject* capsule);

  explicit operator bool() const { return dtype_.has_value(); }
  std::byte* data() const { return data_; }
  std::size_t count() const { return count_; }
  DType dtype() const { return *dtype_; }
  // Returns whether its first dimension can be cut into so many equal blocks.
  bool divides_by(std::size_t blocks) const { return rows_ % blocks == 0; }

 private:
  void take(const dlpack::Tensor& seen);

  std::byte* data_ = nullptr;
  std::size_t count_ = 1;
  std::size_t rows_ = 1;
  std::optional<DType> dtype_;
};

}  // namespace paceline
