// All kernels, once: the device code defines them, and the host code knows their names.
#pragma once

// X(dtype, element, op, operator): the dtype's and the op's enumerators, and the types that stand for them.
#define PACELINE_FLOAT_REDUCTIONS(X, dtype, element) \
  X(dtype, element, sum, Sum)                        \
  X(dtype, element, product, Product)                \
  X(dtype, element, min, Min)                        \
  X(dtype, element, max, Max)

#define PACELINE_INTEGER_REDUCTIONS(X, dtype)         \
  PACELINE_FLOAT_REDUCTIONS(X, dtype, std::dtype##_t) \
  X(dtype, std::dtype##_t, band, And)                 \
  X(dtype, std::dtype##_t, bor, Or)                   \
  X(dtype, std::dtype##_t, bxor, Xor)

#define PACELINE_REDUCTIONS(X)                     \
  PACELINE_FLOAT_REDUCTIONS(X, float16, Float16)   \
  PACELINE_FLOAT_REDUCTIONS(X, bfloat16, BFloat16) \
  PACELINE_FLOAT_REDUCTIONS(X, float32, float)     \
  PACELINE_FLOAT_REDUCTIONS(X, float64, double)    \
  PACELINE_INTEGER_REDUCTIONS(X, int8)             \
  PACELINE_INTEGER_REDUCTIONS(X, uint8)            \
  PACELINE_INTEGER_REDUCTIONS(X, int32)            \
  PACELINE_INTEGER_REDUCTIONS(X, int64)

// X(dtype, element)
#define PACELINE_SCALES(X) \
  X(float16, Float16)      \
  X(bfloat16, BFloat16)    \
  X(float32, float)        \
  X(float64, double)
