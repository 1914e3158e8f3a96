// The handler that XLA calls for every collective in a compiled program. It hands the call to the hook, which is
// Python's, and returns when the collective is over.
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jax/abi.hpp"

#define PACELINE_EXPORT extern "C" __attribute__((visibility("default")))

namespace paceline::jax {

namespace {

// How a call ended, as the hook says; code 0 is success.
struct Outcome {
  int code = 0;
  std::string message;
};

// `description`: the attributes `collective`, `group`, `option`, then for each buffer its address, its elements and
// XLA's number of its dtype: first all arguments, then all results. `counts`: how many arguments and results there are.
using Hook = void(Outcome*, const std::int64_t* description, std::int64_t arguments, std::int64_t results);
Hook* hook = nullptr;

constexpr std::string_view kAttributes[] = {"collective", "group", "option"};

Error* error(const Api* api, Code code, const char* message) {
  ErrorArguments arguments{sizeof(ErrorArguments), nullptr, message, static_cast<int>(code)};
  return api->create_error(&arguments);
}

bool tell_version(const CallFrame& frame) {
  for (Extension* extension = frame.extension_start; extension != nullptr; extension = extension->next) {
    if (extension->type != kMetadata) continue;
    Version& version = reinterpret_cast<MetadataExtension*>(extension)->metadata->version;
    version.major = kMajor;
    version.minor = kMinor;
    return true;
  }
  return false;
}

std::optional<std::int64_t> attribute(const Attributes& attributes, std::string_view name) {
  for (std::int64_t i = 0; i < attributes.size; ++i) {
    const Name& found = *attributes.names[i];
    if (std::string_view(found.text, found.length) != name || attributes.types[i] != kScalar) continue;
    const auto& scalar = *static_cast<const Scalar*>(attributes.values[i]);
    if (scalar.dtype == kInt64) return *static_cast<const std::int64_t*>(scalar.value);
  }
  return std::nullopt;
}

// Appends all buffers but tokens and returns their number, or nothing if one is of a kind that later versions have.
std::optional<std::int64_t> describe(const Buffers& buffers, std::vector<std::int64_t>& description) {
  std::int64_t described = 0;
  for (std::int64_t i = 0; i < buffers.size; ++i) {
    const auto* buffer = static_cast<const Buffer*>(buffers.values[i]);
    if (buffers.types[i] != kBuffer || buffer->struct_size < sizeof(Buffer)) return std::nullopt;
    if (buffer->dtype == kToken) continue;
    std::int64_t elements = 1;
    for (std::int64_t axis = 0; axis < buffer->rank; ++axis) elements *= buffer->dimensions[axis];
    description.push_back(static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(buffer->data)));
    description.push_back(elements);
    description.push_back(buffer->dtype);
    ++described;
  }
  return described;
}

Error* execute(const CallFrame& frame) {
  thread_local std::vector<std::int64_t> description;
  description.clear();
  for (const std::string_view name : kAttributes) {
    const auto value = attribute(frame.attributes, name);
    if (!value) return error(frame.api, Code::internal, "a call of Paceline's lacks an attribute");
    description.push_back(*value);
  }
  const auto arguments = describe(frame.arguments, description);
  const auto results = arguments ? describe(frame.results, description) : std::nullopt;
  if (!results) return error(frame.api, Code::internal, "this JAX hands out buffers in a form that Paceline lacks");
  Outcome outcome;
  hook(&outcome, description.data(), *arguments, *results);
  if (outcome.code == 0) return nullptr;
  return error(frame.api, static_cast<Code>(outcome.code), outcome.message.c_str());
}

Error* handle(CallFrame* frame) {
  if (tell_version(*frame)) return nullptr;
  if (frame->struct_size < sizeof(CallFrame) || frame->api->struct_size < sizeof(Api))
    return error(frame->api, Code::failed_precondition, "this JAX has an older FFI than Paceline was built for");
  if (frame->stage != kExecute) return nullptr;
  try {
    return execute(*frame);
  } catch (const std::exception& failure) {
    return error(frame->api, Code::internal, failure.what());
  }
}

}  // namespace

}  // namespace paceline::jax

PACELINE_EXPORT paceline::jax::Error* paceline_jax_handler(paceline::jax::CallFrame* frame) {
  return paceline::jax::handle(frame);
}

PACELINE_EXPORT void paceline_jax_connect(paceline::jax::Hook* hook) { paceline::jax::hook = hook; }

// Ends the call that the hook was given with an error.
PACELINE_EXPORT void paceline_jax_fail(paceline::jax::Outcome* outcome, int code, const char* message) {
  outcome->code = code;
  outcome->message = message;
}
