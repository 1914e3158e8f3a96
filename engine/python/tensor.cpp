#include "python/tensor.hpp"

#include <utility>

namespace paceline {
namespace {

constexpr int kind(std::uint8_t code, std::uint8_t bits) { return code << 8 | bits; }

std::optional<DType> dtype_of(const dlpack::Tensor& tensor) {
  if (tensor.lanes != 1) return std::nullopt;
  switch (kind(tensor.code, tensor.bits)) {
    case kind(dlpack::floating, 16): return DType::float16;
    case kind(dlpack::floating, 32): return DType::float32;
    case kind(dlpack::floating, 64): return DType::float64;
    case kind(dlpack::brain_floating, 16): return DType::bfloat16;
    case kind(dlpack::integer, 8): return DType::int8;
    case kind(dlpack::integer, 32): return DType::int32;
    case kind(dlpack::integer, 64): return DType::int64;
    case kind(dlpack::unsigned_integer, 8): return DType::uint8;
    case kind(dlpack::boolean, 8): return DType::boolean;
    default: return std::nullopt;
  }
}

// Returns null, and sets no Python error, if objects of this type cannot be shown.
const dlpack::ExchangeApi* api_of(PyTypeObject* type) {
  static PyObject* const name = PyUnicode_InternFromString(dlpack::kAttribute);
  PyObject* const capsule = PyObject_GetAttr(reinterpret_cast<PyObject*>(type), name);
  if (capsule == nullptr) {
    PyErr_Clear();
    return nullptr;
  }
  const auto* api = static_cast<const dlpack::ExchangeApi*>(PyCapsule_GetPointer(capsule, dlpack::kCapsule));
  Py_DECREF(capsule);  // the table that it points to lives as long as the process
  if (api == nullptr) PyErr_Clear();
  return api != nullptr && api->major == dlpack::kMajor && api->borrow != nullptr ? api : nullptr;
}

// Returns whether the number is the negative of what the memory holds, as in torch's z.conj().imag, which DLPack does
// not tell. A part of complex numbers is contiguous only if it is a single number.
bool negated(PyObject* object) {
  static PyObject* const name = PyUnicode_InternFromString("is_neg");
  PyObject* const answer = PyObject_CallMethodNoArgs(object, name);
  if (answer == nullptr) {
    PyErr_Clear();
    return false;
  }
  const bool yes = answer == Py_True;
  Py_DECREF(answer);
  return yes;
}

// Returns whether the numbers are views of the parts of complex ones, as torch's functions submit these.
bool of_complex(PyObject* object) {
  static PyObject* const base_name = PyUnicode_InternFromString("_base");
  static PyObject* const name = PyUnicode_InternFromString("is_complex");
  PyObject* const base = PyObject_GetAttr(object, base_name);
  PyObject* const answer = base != nullptr && base != Py_None ? PyObject_CallMethodNoArgs(base, name) : nullptr;
  PyErr_Clear();
  const bool yes = answer == Py_True;
  Py_XDECREF(answer);
  Py_XDECREF(base);
  return yes;
}

// Does the same as `api_of`, at no cost for the type that was asked for last. That type is kept alive, so that no other
// one takes its address.
const dlpack::ExchangeApi* last_api_of(PyTypeObject* type) {
  static PyTypeObject* last = nullptr;
  static const dlpack::ExchangeApi* api = nullptr;
  if (type == last) return api;
  Py_INCREF(type);
  Py_XDECREF(std::exchange(last, type));
  return api = api_of(type);
}

bool contiguous(const dlpack::Tensor& tensor) {
  if (tensor.strides == nullptr) return true;
  std::int64_t expected = 1;
  for (int i = tensor.dimensions - 1; i >= 0; --i) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != expected) return false;
    expected *= tensor.shape[i];
  }
  return true;
}

}  // namespace

Tensor::Tensor(nanobind::handle object, bool) {
  const dlpack::ExchangeApi* api = last_api_of(Py_TYPE(object.ptr()));
  if (api == nullptr) return;
  dlpack::Tensor seen{};
  if (api->borrow(object.ptr(), &seen) != 0) {
    PyErr_Clear();
    return;
  }
  if (seen.device != dlpack::cpu || !contiguous(seen)) return;
  take(seen);
  if (count_ == 1 && negated(object.ptr())) dtype_.reset();
  // The parts of a complex number are the last dimension.
  const bool pairs = seen.dimensions > 0 && seen.shape[seen.dimensions - 1] == 2;
  if (pairs && dtype_ && is_float(*dtype_))
    dtype_ = *dtype_ | (of_complex(object.ptr()) ? DType::parts : DType::perhaps_parts);
}

Tensor::Tensor(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, dlpack::kManaged)) {
    take(static_cast<const dlpack::Managed*>(PyCapsule_GetPointer(capsule, dlpack::kManaged))->tensor);
  } else if (PyCapsule_IsValid(capsule, dlpack::kVersioned)) {
    const auto* managed = static_cast<const dlpack::Versioned*>(PyCapsule_GetPointer(capsule, dlpack::kVersioned));
    if (managed->major == dlpack::kMajor && (managed->flags & dlpack::kReadOnly) == 0) take(managed->tensor);
  }
}

void Tensor::take(const dlpack::Tensor& seen) {
  if (!contiguous(seen)) return;
  for (int i = 0; i < seen.dimensions; ++i) count_ *= static_cast<std::size_t>(seen.shape[i]);
  if (seen.dimensions > 0) rows_ = static_cast<std::size_t>(seen.shape[0]);
  if (seen.data == nullptr && count_ > 0) return;  // no memory is behind it
  data_ = static_cast<std::byte*>(seen.data) + seen.byte_offset;
  dtype_ = dtype_of(seen);
}

}  // namespace paceline
