// The kernels of all ops. They hand each call to the hooks, which are Python's, but for what Python has prepared, and
// never wait: the call ends when its requests are over, from any thread.
#include "tensorflow/kernels.hpp"

#include <algorithm>

#include "tensorflow/started.hpp"

#define PACELINE_EXPORT extern "C" __attribute__((visibility("default")))

namespace paceline::tensorflow {

namespace {

constexpr int kFailedPrecondition = 9;  // TF_FAILED_PRECONDITION
constexpr int kInt64 = 9;               // TF_INT64

// `create` returns the kernel's number for the NodeDef, as serialised; a negative one refuses it. `compute` gets
// `Call::description`, and owes the call its end.
struct Hooks {
  std::int64_t (*create)(const void* node, std::size_t bytes) = nullptr;
  void (*compute)(std::int64_t kernel, Call* call, const std::int64_t* description, std::size_t count) = nullptr;
  void (*destroy)(std::int64_t kernel) = nullptr;
} hooks;

void* create(Construction* construction) {
  const ScopedStatus status;
  Buffer* node = api().OpKernelConstruction_GetNodeDef(construction, status);
  std::int64_t number = -1;
  if (status.ok()) {
    number = hooks.create(node->data, node->length);
    api().DeleteBuffer(node);
    if (number < 0) api().SetStatus(status, kFailedPrecondition, "paceline cannot read this op's attributes");
  }
  if (number < 0) api().OpKernelConstruction_Failure(construction, status);
  return std::make_unique<Kernel>(number).release();
}

void destroy(void* kernel) {
  const std::unique_ptr<Kernel> self(static_cast<Kernel*>(kernel));
  if (self->number() >= 0) hooks.destroy(self->number());
}

// Starts a call with one tensor: the address comes after the number of tensors.
void start(Prepared& prepared, Call* call) {
  prepared.start(reinterpret_cast<void*>(static_cast<std::intptr_t>(call->description().at(1))), call,
                 [](void* over) { static_cast<Call*>(over)->end(0, ""); });
}

void carry_out(Call* call) {
  Kernel& kernel = call->kernel();
  if (const auto prepared = kernel.prepared_for(*call))
    start(*prepared, call);
  else
    hooks.compute(kernel.number(), call, call->description().data(), call->description().size());
}

template <bool in_place>
void compute(void* kernel, ContextPointer* context, Done* done) {
  auto* call = std::make_unique<AwaitedCall>(*static_cast<Kernel*>(kernel), context, *done).release();
  const ScopedStatus status;
  if (in_place ? call->take_inputs_as_outputs(api().NumInputs(context), status) : call->take_inputs(status))
    carry_out(call);
  else
    call->end(api().GetCode(status), api().Message(status));
}

void begin(void* kernel, ContextPointer* context) {
  auto call = std::make_unique<Started>(*static_cast<Kernel*>(kernel), context);
  const ScopedStatus status;
  const int inputs = api().NumInputs(context);
  void* number = nullptr;
  if (call->take_inputs_as_outputs(inputs, status))
    number = call->allocate(inputs, kInt64, nullptr, 0, sizeof(std::int64_t), status);
  if (number == nullptr) return api().OpKernelContext_Failure(context, status);
  *static_cast<std::int64_t*>(number) = call->wait_for_taker();
  carry_out(call.release());
}

void take(void* kernel, ContextPointer* context, Done* done) {
  auto* call = std::make_unique<AwaitedCall>(*static_cast<Kernel*>(kernel), context, *done).release();
  const ScopedStatus status;
  Tensor* number = nullptr;
  api().GetInput(context, api().NumInputs(context) - 1, &number, status);
  if (!status.ok()) return call->end(api().GetCode(status), api().Message(status));
  const auto started = *static_cast<const std::int64_t*>(api().TensorData(number));
  api().DeleteTensor(number);
  Started::take(started, call);
}

KernelBuilder* builder_of(const char* op, Calls calls) {
  switch (calls) {
    case Calls::plain: return api().NewAsyncKernelBuilder(op, "CPU", &create, &compute<false>, &destroy);
    case Calls::in_place: return api().NewAsyncKernelBuilder(op, "CPU", &create, &compute<true>, &destroy);
    case Calls::starting: return api().NewKernelBuilder(op, "CPU", &create, &begin, &destroy);
    case Calls::taking: return api().NewAsyncKernelBuilder(op, "CPU", &create, &take, &destroy);
  }
  return nullptr;
}

}  // namespace

void register_kernel(const char* op, Calls calls) {
  const ScopedStatus status;
  api().RegisterKernelBuilder(op, builder_of(op, calls), status);
}

void Kernel::prepare(const Call& call, std::shared_ptr<Prepared> prepared) {
  const std::lock_guard lock(mutex_);
  prepared_.swap(prepared);
  description_ = call.description();
}

// Nothing but the address, which comes after the number of tensors, may differ.
std::shared_ptr<Prepared> Kernel::prepared_for(const Call& call) {
  const std::lock_guard lock(mutex_);
  if (prepared_ == nullptr || !prepared_->current()) return nullptr;
  const auto& description = call.description();
  const bool alike =
      std::equal(description.begin() + 2, description.end(), description_.begin() + 2, description_.end());
  return alike ? prepared_ : nullptr;
}

}  // namespace paceline::tensorflow

using paceline::tensorflow::Call;
using paceline::tensorflow::Prepared;

// The name of the function that this TensorFlow lacks; null if it has all.
PACELINE_EXPORT const char* paceline_tensorflow_missing() { return paceline::tensorflow::api().missing; }

PACELINE_EXPORT void paceline_tensorflow_connect(decltype(paceline::tensorflow::hooks.create) create,
                                                 decltype(paceline::tensorflow::hooks.compute) compute,
                                                 decltype(paceline::tensorflow::hooks.destroy) destroy) {
  paceline::tensorflow::hooks = {create, compute, destroy};
}

// Memory for an output of a call; null if TensorFlow has none.
PACELINE_EXPORT void* paceline_tensorflow_allocate(Call* call, int output, int dtype, const std::int64_t* shape,
                                                   int rank, std::size_t bytes) {
  const paceline::tensorflow::ScopedStatus status;
  return call->allocate(output, dtype, shape, rank, bytes, status);
}

// Carries out a call of one tensor, and the same kernel's calls of tensors like it from now on, by what was prepared.
PACELINE_EXPORT void paceline_tensorflow_repeat(Call* call, const std::shared_ptr<Prepared>* prepared) {
  call->kernel().prepare(*call, *prepared);
  paceline::tensorflow::start(**prepared, call);
}

// Ends a call. Code 0 is success, others are of TF_Code and come with a message.
PACELINE_EXPORT void paceline_tensorflow_end(Call* call, int code, const char* message) { call->end(code, message); }
