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

// X(name, code, parameters, together): encoding and decoding. `code` is a function in the folder `code`; `together`
// says whether its threads wait for each other.
#define PACELINE_CODEC_KERNELS(X)                                                 \
  X(encode_bf16, encode_halves<BFloat16>, EncodeParameters, false)                \
  X(decode_bf16, (decode_halves<BFloat16, Store>), DecodeParameters, false)       \
  X(decode_and_add_bf16, (decode_halves<BFloat16, Add>), DecodeParameters, false) \
  X(encode_fp16, encode_halves<Float16>, EncodeParameters, false)                 \
  X(decode_fp16, (decode_halves<Float16, Store>), DecodeParameters, false)        \
  X(decode_and_add_fp16, (decode_halves<Float16, Add>), DecodeParameters, false)  \
  X(encode_int8, encode_integers<8>, EncodeParameters, true)                      \
  X(decode_int8, (decode_integers<8, Store>), DecodeParameters, false)            \
  X(decode_and_add_int8, (decode_integers<8, Add>), DecodeParameters, false)      \
  X(encode_int4, encode_integers<4>, EncodeParameters, true)                      \
  X(decode_int4, (decode_integers<4, Store>), DecodeParameters, false)            \
  X(decode_and_add_int4, (decode_integers<4, Add>), DecodeParameters, false)      \
  X(measure_three_in_one, three_in_one::measure, EncodeParameters, true)          \
  X(place_three_in_one, three_in_one::place, EncodeParameters, true)              \
  X(encode_three_in_one, three_in_one::encode, EncodeParameters, true)            \
  X(find_three_in_one, three_in_one::find, DecodeParameters, true)                \
  X(decode_three_in_one, three_in_one::decode<Store>, DecodeParameters, true)     \
  X(decode_and_add_three_in_one, three_in_one::decode<Add>, DecodeParameters, true)
