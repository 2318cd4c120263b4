// The operation of `dropout.h`.

#ifndef QUINTAIN_KERNELS_DROPOUT_OP_H_
#define QUINTAIN_KERNELS_DROPOUT_OP_H_

#include "dropout.h"
#include "dropout_kernel.h"

namespace quintain {

// `residual`, to which the result is added, may be empty.
REGISTER_OP("QuintainDropout")
    .Attr("From: {float, bfloat16}")
    .Attr("To: {float, bfloat16}")
    .Input("inputs: From")
    .Input("residual: To")
    .QUINTAIN_DROPOUT.Output("outputs: To")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* context) {
      context->set_output(0, context->input(0));
      return absl::OkStatus();
    });

template <typename From, typename To>
class DropoutOp : public DropoutKernel {
 public:
  using DropoutKernel::DropoutKernel;

  void Compute(tensorflow::OpKernelContext* context) override {
    const tensorflow::Tensor& inputs = context->input(0);
    const tensorflow::Tensor& residual = context->input(1);
    const bool is_added = residual.NumElements() > 0;
    const tensorflow::TensorShape shape = inputs.shape();
    if (is_added) OP_REQUIRES_OK(context, CheckShape("residual", residual, "the inputs", shape));
    DropoutDraw draw;
    OP_REQUIRES_OK(context, ReadDraw(context, &draw));
    const auto* numbers = Data<From>(inputs);  // Read before they may be given up for the output.
    const auto* more = is_added ? Data<To>(residual) : nullptr;
    tensorflow::Tensor* outputs = nullptr;
    OP_REQUIRES_OK(context,
                   context->forward_input_or_allocate_output({0, 1}, 0, shape, &outputs));
    auto* results = MutableData<To>(outputs);
    ForRows(context, shape.num_elements(), 1, [=](int64_t begin, int64_t end) {
      QUINTAIN_DISPATCH(dropout, numbers, more, draw, results, begin, end);
    });
  }
};

#define QUINTAIN_REGISTER_DROPOUT(FROM, TO)                   \
  REGISTER_KERNEL_BUILDER(Name("QuintainDropout")             \
                              .Device(tensorflow::DEVICE_CPU) \
                              .TypeConstraint<FROM>("From")   \
                              .TypeConstraint<TO>("To"),      \
                          DropoutOp<FROM, TO>)

QUINTAIN_REGISTER_DROPOUT(float, float);
QUINTAIN_REGISTER_DROPOUT(float, Eigen::bfloat16);
QUINTAIN_REGISTER_DROPOUT(Eigen::bfloat16, float);
QUINTAIN_REGISTER_DROPOUT(Eigen::bfloat16, Eigen::bfloat16);
#undef QUINTAIN_REGISTER_DROPOUT

}  // namespace quintain

#endif  // QUINTAIN_KERNELS_DROPOUT_OP_H_
