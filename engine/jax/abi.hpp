// What a handler of XLA's typed FFI is given, declared by hand: nothing is compiled or linked against XLA. The layout
// is that of version 0.1 of xla/ffi/api/c_api.h, which later versions extend at the ends of its structs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace paceline::jax {

constexpr int kMajor = 0, kMinor = 1;  // the version of the API that the handler is written for

struct Error;  // XLA_FFI_Error
struct Api;
struct CallFrame;
using Handler = Error*(CallFrame*);

struct Extension {  // XLA_FFI_Extension_Base
  std::size_t struct_size;
  int type;
  Extension* next;
};
constexpr int kMetadata = 1;  // the type of a MetadataExtension

struct Version {  // XLA_FFI_Api_Version
  std::size_t struct_size;
  Extension* extension_start;
  int major, minor;
};

struct Metadata {
  std::size_t struct_size;
  Version version;
  std::uint32_t traits;
};

struct MetadataExtension {
  Extension base;
  Metadata* metadata;
};

struct ErrorArguments {  // XLA_FFI_Error_Create_Args
  std::size_t struct_size;
  Extension* extension_start;
  const char* message;
  int code;
};

struct Api {  // its beginning: later members are not used
  std::size_t struct_size;
  Extension* extension_start;
  Version version;
  const void* internal;
  Error* (*create_error)(ErrorArguments*);
};

struct Buffer {
  std::size_t struct_size;
  Extension* extension_start;
  int dtype;
  void* data;
  std::int64_t rank;
  std::int64_t* dimensions;
};
constexpr int kToken = 17;  // the dtype of a token, which has no memory
constexpr int kBuffer = 1;  // the type of an argument or result that is a Buffer

struct Buffers {  // XLA_FFI_Args, XLA_FFI_Rets
  std::size_t struct_size;
  Extension* extension_start;
  std::int64_t size;
  const int* types;
  void** values;
};

struct Name {  // XLA_FFI_ByteSpan
  const char* text;
  std::size_t length;
};

struct Scalar {
  int dtype;
  void* value;
};
constexpr int kScalar = 3;  // the type of an attribute that is a Scalar
constexpr int kInt64 = 5;   // the dtype of int64

struct Attributes {
  std::size_t struct_size;
  Extension* extension_start;
  std::int64_t size;
  const int* types;
  Name** names;
  void** values;
};

constexpr int kExecute = 3;  // the stage in which a handler does its work

struct CallFrame {
  std::size_t struct_size;
  Extension* extension_start;
  const Api* api;
  void* context;
  int stage;
  Buffers arguments, results;
  Attributes attributes;
};

enum class Code { unknown = 2, invalid_argument = 3, failed_precondition = 9, internal = 13 };

}  // namespace paceline::jax
