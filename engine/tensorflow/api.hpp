// TensorFlow's C API, declared by hand and looked up in the TensorFlow that the process has loaded: nothing is compiled
// or linked against it. Signatures are those of tensorflow/c/{ops,kernels,tf_tensor,tf_status}.h, which are stable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>

namespace paceline::tensorflow {

struct Buffer {  // TF_Buffer, whose layout is part of the API
  const void* data;
  std::size_t length;
  void (*data_deallocator)(void* data, std::size_t length);
};
struct ContextPointer;  // TF_OpKernelContext
struct Construction;    // TF_OpKernelConstruction
struct KernelBuilder;   // TF_KernelBuilder
struct OpBuilder;       // TF_OpDefinitionBuilder
struct Shape;           // TF_ShapeHandle
struct ShapeContext;    // TF_ShapeInferenceContext
struct Status;          // TF_Status
struct Tensor;          // TF_Tensor

// What TF_AsyncOpKernelDoneCallback is. TensorFlow passes a pointer into its stack, so that the function behind it has
// to be copied before `compute` returns; the C API has no call for that. TensorFlow's wheels are built with libstdc++.
using Done = std::function<void()>;

using CreateKernel = void*(Construction*);
using Compute = void(void* kernel, ContextPointer*);
using ComputeAsync = void(void* kernel, ContextPointer*, Done*);
using DeleteKernel = void(void* kernel);
using InferShapes = void(ShapeContext*, Status*);

#define PACELINE_TENSORFLOW_API(X)                                                                                   \
  X(DeleteBuffer, void(Buffer*))                                                                                     \
  X(DeleteShapeHandle, void(Shape*))                                                                                 \
  X(DeleteStatus, void(Status*))                                                                                     \
  X(DeleteTensor, void(Tensor*))                                                                                     \
  X(GetCode, int(const Status*))                                                                                     \
  X(Message, const char*(const Status*))                                                                             \
  X(NewStatus, Status*())                                                                                            \
  X(SetStatus, void(Status*, int code, const char* message))                                                         \
  X(Dim, std::int64_t(const Tensor*, int))                                                                           \
  X(NumDims, int(const Tensor*))                                                                                     \
  X(TensorByteSize, std::size_t(const Tensor*))                                                                      \
  X(TensorData, void*(const Tensor*))                                                                                \
  X(TensorType, int(const Tensor*))                                                                                  \
  X(NewOpDefinitionBuilder, OpBuilder*(const char*))                                                                 \
  X(OpDefinitionBuilderAddAttr, void(OpBuilder*, const char*))                                                       \
  X(OpDefinitionBuilderAddInput, void(OpBuilder*, const char*))                                                      \
  X(OpDefinitionBuilderAddOutput, void(OpBuilder*, const char*))                                                     \
  X(OpDefinitionBuilderSetIsStateful, void(OpBuilder*, bool))                                                        \
  X(OpDefinitionBuilderSetShapeInferenceFunction, void(OpBuilder*, InferShapes*))                                    \
  X(RegisterOpDefinition, void(OpBuilder*, Status*))                                                                 \
  X(NewShapeHandle, Shape*())                                                                                        \
  X(ShapeInferenceContextConcatenateShapes, void(ShapeContext*, Shape*, Shape*, Shape * result, Status*))            \
  X(ShapeInferenceContextGetInput, void(ShapeContext*, int, Shape*, Status*))                                        \
  X(ShapeInferenceContextNumInputs, std::int64_t(ShapeContext*))                                                     \
  X(ShapeInferenceContextScalar, Shape*(ShapeContext*))                                                              \
  X(ShapeInferenceContextSetOutput, void(ShapeContext*, int, Shape*, Status*))                                       \
  X(ShapeInferenceContextSubshape,                                                                                   \
    void(ShapeContext*, Shape*, std::int64_t begin, std::int64_t end, Shape* result, Status*))                       \
  X(ShapeInferenceContextVectorFromSize, Shape*(ShapeContext*, std::size_t))                                         \
  X(NewKernelBuilder, KernelBuilder*(const char* op, const char* device, CreateKernel*, Compute*, DeleteKernel*))    \
  X(NewAsyncKernelBuilder,                                                                                           \
    KernelBuilder*(const char* op, const char* device, CreateKernel*, ComputeAsync*, DeleteKernel*))                 \
  X(RegisterKernelBuilder, void(const char* name, KernelBuilder*, Status*))                                          \
  X(OpKernelConstruction_Failure, void(Construction*, Status*))                                                      \
  X(OpKernelConstruction_GetNodeDef, Buffer*(Construction*, Status*))                                                \
  X(AllocateOutput,                                                                                                  \
    Tensor*(ContextPointer*, int index, int dtype, const std::int64_t* shape, int rank, std::size_t bytes, Status*)) \
  X(ForwardInputOrAllocateOutput, Tensor*(ContextPointer*, const int* inputs, int count, int output,                 \
                                          const std::int64_t* shape, int rank, int* forwarded, Status*))             \
  X(GetInput, void(ContextPointer*, int, Tensor**, Status*))                                                         \
  X(NumInputs, int(ContextPointer*))                                                                                 \
  X(NumOutputs, int(ContextPointer*))                                                                                \
  X(OpKernelContext_Failure, void(ContextPointer*, Status*))

struct Api {
#define PACELINE_TENSORFLOW_MEMBER(name, ...) std::add_pointer_t<__VA_ARGS__> name = nullptr;
  PACELINE_TENSORFLOW_API(PACELINE_TENSORFLOW_MEMBER)
#undef PACELINE_TENSORFLOW_MEMBER
  const char* missing = nullptr;  // the first function that TensorFlow does not have; null if it has all
};

const Api& api();

// A TF_Status that is deleted at the end of the scope.
class ScopedStatus {
 public:
  ScopedStatus() : status_(api().NewStatus()) {}
  ~ScopedStatus() { api().DeleteStatus(status_); }
  ScopedStatus(const ScopedStatus&) = delete;
  ScopedStatus& operator=(const ScopedStatus&) = delete;
  operator Status*() const { return status_; }
  bool ok() const { return api().GetCode(status_) == 0; }

 private:
  Status* status_;
};

}  // namespace paceline::tensorflow
