// The ops that TensorFlow learns when it loads this library: what they take and give. They are stateful, so that
// TensorFlow neither merges two of them nor leaves one out.
#include <initializer_list>
#include <limits>

#include "tensorflow/api.hpp"
#include "tensorflow/kernels.hpp"

namespace paceline::tensorflow {

namespace {

constexpr auto kUnknown = std::numeric_limits<std::size_t>::max();  // as a dimension: -1
constexpr auto kToTheEnd = std::numeric_limits<std::int64_t>::max();

class ScopedShape {
 public:
  explicit ScopedShape(Shape* shape = api().NewShapeHandle()) : shape_(shape) {}
  ~ScopedShape() { api().DeleteShapeHandle(shape_); }
  ScopedShape(const ScopedShape&) = delete;
  ScopedShape& operator=(const ScopedShape&) = delete;
  operator Shape*() const { return shape_; }

 private:
  Shape* shape_;
};

bool failed(const Status* status) { return api().GetCode(status) != 0; }

void first_shapes(ShapeContext* context, std::int64_t count, Status* status) {
  for (int i = 0; i < count && !failed(status); ++i) {
    const ScopedShape shape;
    api().ShapeInferenceContextGetInput(context, i, shape, status);
    if (!failed(status)) api().ShapeInferenceContextSetOutput(context, i, shape, status);
  }
}

void same_shapes(ShapeContext* context, Status* status) {
  first_shapes(context, api().ShapeInferenceContextNumInputs(context), status);
}

void same_shapes_and_number(ShapeContext* context, Status* status) {
  const std::int64_t inputs = api().ShapeInferenceContextNumInputs(context);
  first_shapes(context, inputs, status);
  if (failed(status)) return;
  const ScopedShape number(api().ShapeInferenceContextScalar(context));
  api().ShapeInferenceContextSetOutput(context, static_cast<int>(inputs), number, status);
}

void same_shapes_without_number(ShapeContext* context, Status* status) {
  first_shapes(context, api().ShapeInferenceContextNumInputs(context) - 1, status);
}

void other_rows_of(ShapeContext* context, int i, Status* status) {
  const ScopedShape whole, row, result;
  api().ShapeInferenceContextGetInput(context, i, whole, status);
  if (failed(status)) return;
  api().ShapeInferenceContextSubshape(context, whole, 1, kToTheEnd, row, status);
  if (failed(status)) return;
  const ScopedShape rows(api().ShapeInferenceContextVectorFromSize(context, kUnknown));
  api().ShapeInferenceContextConcatenateShapes(context, rows, row, result, status);
  if (!failed(status)) api().ShapeInferenceContextSetOutput(context, i, result, status);
}

void other_rows(ShapeContext* context, Status* status) {
  for (int i = 0; i < api().ShapeInferenceContextNumInputs(context) && !failed(status); ++i)
    other_rows_of(context, i, status);
}

void rows_and_splits(ShapeContext* context, Status* status) {
  other_rows_of(context, 0, status);
  if (failed(status)) return;
  const ScopedShape splits(api().ShapeInferenceContextVectorFromSize(context, kUnknown));
  api().ShapeInferenceContextSetOutput(context, 1, splits, status);
}

void scalar(ShapeContext* context, Status* status) {
  const ScopedShape shape(api().ShapeInferenceContextScalar(context));
  api().ShapeInferenceContextSetOutput(context, 0, shape, status);
}

struct Op {
  const char* name;
  std::initializer_list<const char*> inputs, outputs, attributes;
  InferShapes* shapes;
  Calls calls;
};

// A type that can be sent. Which of them can be reduced is checked where the call starts.
#define PACELINE_TYPES                                                                                          \
  "{half, bfloat16, float, double, int8, uint8, int16, uint16, int32, uint32, int64, uint64, bool, complex64, " \
  "complex128}"
constexpr const char* kType = "T: " PACELINE_TYPES;
constexpr const char* kTypes = "T: list(" PACELINE_TYPES ") >= 1";

// names: of the requests, one a tensor; if there are none, an op in a graph is named after its node, and another by
// counting. grouped: the tensors are combined together.
constexpr const char* kNames = "names: list(string) >= 0";
constexpr const char* kInGraph = "in_graph: bool";
constexpr const char* kShortNames = "ignore_name_scope: bool";
constexpr const char* kGrouped = "grouped: bool";
constexpr const char* kProcessSet = "process_set_id: int";
constexpr const char* kReduction = "reduce_op: int";
constexpr const char* kPrescale = "prescale_factor: float";
constexpr const char* kPostscale = "postscale_factor: float";
// codec: how sums and averages of float32 are encoded between machines; "" for none. error_feedback: what that loses of
// a tensor on this rank is kept by its request's name, and added the next time.
constexpr const char* kCodec = "codec: string";
constexpr const char* kErrorFeedback = "error_feedback: bool";
// parameters: the tensors may go as `lossless` between machines, where PACELINE_COMPRESS lets them.
constexpr const char* kParameters = "parameters: bool";

void define(const Op& op) {
  const ScopedStatus status;
  OpBuilder* builder = api().NewOpDefinitionBuilder(op.name);
  for (const char* input : op.inputs) api().OpDefinitionBuilderAddInput(builder, input);
  for (const char* output : op.outputs) api().OpDefinitionBuilderAddOutput(builder, output);
  for (const char* attribute : op.attributes) api().OpDefinitionBuilderAddAttr(builder, attribute);
  api().OpDefinitionBuilderSetIsStateful(builder, true);
  api().OpDefinitionBuilderSetShapeInferenceFunction(builder, op.shapes);
  api().RegisterOpDefinition(builder, status);
  if (status.ok()) register_kernel(op.name, op.calls);
}

// TensorFlow looks for new ops once the library is loaded.
__attribute__((constructor)) void define_all() {
  if (api().missing != nullptr) return;
  define({"PacelineAllreduce",
          {"tensors: T"},
          {"combined: T"},
          {kTypes, kNames, kInGraph, kShortNames, kGrouped, kProcessSet, kReduction, kPrescale, kPostscale, kCodec,
           kErrorFeedback},
          &same_shapes,
          Calls::in_place});
  // An all-reduce in two ops, as in XLA: one submits the tensors, and is over then; the other waits for the result.
  // number: stands for what was submitted.
  define({"PacelineAllreduceStart",
          {"tensors: T"},
          {"started: T", "number: int64"},
          {kTypes, kNames, kInGraph, kShortNames, kGrouped, kProcessSet, kReduction, kPrescale, kPostscale, kCodec,
           kErrorFeedback},
          &same_shapes_and_number,
          Calls::starting});
  define({"PacelineAllreduceDone",
          {"started: T", "number: int64"},
          {"combined: T"},
          {kTypes},
          &same_shapes_without_number,
          Calls::taking});
  define({"PacelineAllgather",
          {"tensors: T"},
          {"gathered: T"},
          {kTypes, kNames, kInGraph, kShortNames, kGrouped, kProcessSet},
          &other_rows,
          Calls::plain});
  define({"PacelineBroadcast",
          {"tensors: T"},
          {"received: T"},
          {kTypes, kNames, kInGraph, kShortNames, kProcessSet, "root_rank: int", kParameters},
          &same_shapes,
          Calls::in_place});
  define({"PacelineAlltoall",
          {"tensor: T", "splits: S"},
          {"received: T", "received_splits: S"},
          {kType, "S: {int32, int64}", kNames, kInGraph, kShortNames, kProcessSet},
          &rows_and_splits,
          Calls::plain});
  define({"PacelineReducescatter",
          {"tensors: T"},
          {"parts: T"},
          {kTypes, kNames, kInGraph, kShortNames, kGrouped, kProcessSet, kReduction, kPrescale, kPostscale, kCodec},
          &other_rows,
          Calls::plain});
  define({"PacelineJoin", {}, {"last: int32"}, {}, &scalar, Calls::plain});
  define({"PacelineQuery", {}, {"answer: int32"}, {"question: string", kProcessSet}, &scalar, Calls::plain});
}

}  // namespace

}  // namespace paceline::tensorflow
