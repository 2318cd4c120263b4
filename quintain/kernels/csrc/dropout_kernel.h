// What all operations with dropout take.

#ifndef QUINTAIN_KERNELS_DROPOUT_KERNEL_H_
#define QUINTAIN_KERNELS_DROPOUT_KERNEL_H_

#include "dropout_draw.h"
#include "tensors.h"
#include "threads.h"

namespace quintain {

// Gives an operation the attributes and the inputs, `key` and `counter`, of a dropout.
#define QUINTAIN_DROPOUT              \
  Input("key: uint64")                \
      .Input("counter: uint64")       \
      .Attr("level_bytes: int >= 0")  \
      .Attr("first_kept: int")        \
      .Attr("scale: float")

// An operation with a dropout, whose attributes it reads; `level_bytes` is 0 if nothing is dropped.
class DropoutKernel : public tensorflow::OpKernel {
 public:
  explicit DropoutKernel(tensorflow::OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("level_bytes", &draw_.level_bytes));
    OP_REQUIRES_OK(context, context->GetAttr("first_kept", &draw_.first_kept));
    OP_REQUIRES_OK(context, context->GetAttr("scale", &draw_.scale));
    OP_REQUIRES(context, draw_.level_bytes <= 2,
                absl::InvalidArgumentError("level_bytes: expected 0, 1 or 2."));
  }

 protected:
  // Reads what this step draws.
  absl::Status ReadDraw(tensorflow::OpKernelContext* context, DropoutDraw* draw) const {
    *draw = draw_;
    if (draw_.level_bytes == 0) return absl::OkStatus();
    const tensorflow::Tensor *key, *counter;
    TF_RETURN_IF_ERROR(context->input("key", &key));
    TF_RETURN_IF_ERROR(context->input("counter", &counter));
    if (key->NumElements() != 1 || counter->NumElements() != 2) {
      return absl::InvalidArgumentError(
          absl::StrCat("key, counter: got ", key->NumElements(), " and ", counter->NumElements(),
                       " numbers, expected 1 and 2."));
    }
    draw->key = *Data<uint64_t>(*key);
    for (int half = 0; half < 2; ++half) draw->counter[half] = Data<uint64_t>(*counter)[half];
    return absl::OkStatus();
  }

  DropoutDraw draw_;
};

// Fails unless a tensor has the shape of another, which `expected` names.
inline absl::Status CheckShape(const char* name, const tensorflow::Tensor& tensor,
                               const char* expected, const tensorflow::TensorShape& shape) {
  if (tensor.shape() == shape) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, ": got shape ",
                                                 tensor.shape().DebugString(), ", expected that of ",
                                                 expected, ", ", shape.DebugString(), "."));
}

// Fails unless a tensor is a matrix.
inline absl::Status CheckMatrix(const char* name, const tensorflow::Tensor& tensor) {
  if (tensor.dims() == 2) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": got shape ", tensor.shape().DebugString(), ", expected [N, D]."));
}

}  // namespace quintain

#endif  // QUINTAIN_KERNELS_DROPOUT_KERNEL_H_
