// The operations of `activation.h`.

#ifndef QUINTAIN_KERNELS_ACTIVATION_OP_H_
#define QUINTAIN_KERNELS_ACTIVATION_OP_H_

#include "activation.h"
#include "block_sums.h"
#include "dropout_kernel.h"

namespace quintain {

// `slopes`, what gradients are multiplied by, is empty for ReLU, which reads it off its outputs.
REGISTER_OP("QuintainActivation")
    .Attr("T: {float, bfloat16}")
    .Attr("is_gelu: bool")
    .Input("inputs: T")
    .QUINTAIN_DROPOUT.Output("outputs: T")
    .Output("slopes: T")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* context) {
      context->set_output(0, context->input(0));
      context->set_output(1, context->UnknownShape());
      return absl::OkStatus();
    });

// `slopes` is the outputs for ReLU.
REGISTER_OP("QuintainActivationGradient")
    .Attr("T: {float, bfloat16}")
    .Attr("is_gelu: bool")
    .Attr("scale: float")
    .Input("slopes: T")
    .Input("upstream: T")
    .Output("gradient: T")
    .Output("bias_gradient: T")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* context) {
      tensorflow::shape_inference::ShapeHandle matrix;
      TF_RETURN_IF_ERROR(context->WithRank(context->input(1), 2, &matrix));
      context->set_output(0, matrix);
      context->set_output(1, context->Vector(context->Dim(matrix, 1)));
      return absl::OkStatus();
    });

REGISTER_OP("QuintainSumRows")
    .Attr("T: {float, bfloat16}")
    .Input("rows: T")
    .Output("sums: T")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* context) {
      tensorflow::shape_inference::ShapeHandle matrix;
      TF_RETURN_IF_ERROR(context->WithRank(context->input(0), 2, &matrix));
      context->set_output(0, context->Vector(context->Dim(matrix, 1)));
      return absl::OkStatus();
    });

template <typename T>
class ActivationOp : public DropoutKernel {
 public:
  explicit ActivationOp(tensorflow::OpKernelConstruction* context) : DropoutKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("is_gelu", &is_gelu_));
  }

  void Compute(tensorflow::OpKernelContext* context) override {
    const tensorflow::Tensor& inputs = context->input(0);
    DropoutDraw draw;
    OP_REQUIRES_OK(context, ReadDraw(context, &draw));
    const auto* numbers = Data<T>(inputs);  // Read before they may be given up for the output.
    const tensorflow::TensorShape shape = inputs.shape(), nothing({0});
    tensorflow::Tensor *outputs, *slopes;
    OP_REQUIRES_OK(context,
                   context->forward_input_or_allocate_output({0}, 0, shape, &outputs));
    OP_REQUIRES_OK(context, context->allocate_output(1, is_gelu_ ? shape : nothing, &slopes));
    auto* results = MutableData<T>(outputs);
    auto* factors = MutableData<T>(slopes);
    const bool is_gelu = is_gelu_;
    ForRows(context, shape.num_elements(), is_gelu ? 2 : 1, [=](int64_t begin, int64_t end) {
      if (is_gelu) {
        QUINTAIN_DISPATCH(gelu_dropout, numbers, draw, results, factors, begin, end);
      } else {
        QUINTAIN_DISPATCH(relu_dropout, numbers, draw, results, begin, end);
      }
    });
  }

 private:
  bool is_gelu_;
};

// Writes the sums that `add(begin, end, sums)` adds for blocks of rows, as an output.
template <typename T, typename Add>
void SumBlocks(tensorflow::OpKernelContext* context, int output, const tensorflow::Tensor& rows,
               Add add) {
  const int64_t num_rows = rows.dim_size(0), width = rows.dim_size(1);
  tensorflow::Tensor* total = nullptr;
  OP_REQUIRES_OK(context, context->allocate_output(output, {width}, &total));
  if (width == 0) return;
  BlockSums sums;
  OP_REQUIRES_OK(context, sums.Allocate(context, CountBlocks(num_rows), width));
  OP_REQUIRES_OK(context, ForBlocks(
      context, num_rows, kBlockRows, width, [&](int64_t block, int64_t begin, int64_t end) {
        add(begin, end, sums.block(block));
        return true;
      }));
  auto results = total->flat<T>();
  sums.AddUp([&results](int64_t i, float sum) { results(i) = static_cast<T>(sum); });
}

template <typename T>
class ActivationGradientOp : public tensorflow::OpKernel {
 public:
  explicit ActivationGradientOp(tensorflow::OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("is_gelu", &is_gelu_));
    OP_REQUIRES_OK(context, context->GetAttr("scale", &scale_));
  }

  void Compute(tensorflow::OpKernelContext* context) override {
    const tensorflow::Tensor slopes = context->input(0), upstream = context->input(1);
    OP_REQUIRES_OK(context, CheckMatrix("upstream", upstream));
    OP_REQUIRES_OK(context, CheckShape("slopes", slopes, "upstream", upstream.shape()));
    const auto* factors = Data<T>(slopes);
    const auto* numbers = Data<T>(upstream);
    const int64_t width = upstream.dim_size(1);
    tensorflow::Tensor* gradient = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, upstream.shape(), &gradient));
    auto* results = MutableData<T>(gradient);
    SumBlocks<T>(context, 1, upstream, [&](int64_t begin, int64_t end, float* sums) {
      if (is_gelu_) {
        QUINTAIN_DISPATCH(slope_gradient, factors, numbers, results, width, begin, end, sums);
      } else {
        QUINTAIN_DISPATCH(relu_gradient, factors, numbers, scale_, results, width, begin, end,
                          sums);
      }
    });
  }

 private:
  bool is_gelu_;
  float scale_;
};

template <typename T>
class SumRowsOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext* context) override {
    const tensorflow::Tensor& rows = context->input(0);
    OP_REQUIRES_OK(context, CheckMatrix("rows", rows));
    const auto* numbers = Data<T>(rows);
    const int64_t width = rows.dim_size(1);
    SumBlocks<T>(context, 0, rows, [=](int64_t begin, int64_t end, float* sums) {
      QUINTAIN_DISPATCH(add_rows, numbers, width, begin, end, sums);
    });
  }
};

#define QUINTAIN_REGISTER_ACTIVATION(T)                                                         \
  REGISTER_KERNEL_BUILDER(                                                                      \
      Name("QuintainActivation").Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("T"),         \
      ActivationOp<T>);                                                                         \
  REGISTER_KERNEL_BUILDER(                                                                      \
      Name("QuintainActivationGradient").Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("T"), \
      ActivationGradientOp<T>);                                                                 \
  REGISTER_KERNEL_BUILDER(                                                                      \
      Name("QuintainSumRows").Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("T"), SumRowsOp<T>)

QUINTAIN_REGISTER_ACTIVATION(float);
QUINTAIN_REGISTER_ACTIVATION(Eigen::bfloat16);
#undef QUINTAIN_REGISTER_ACTIVATION

}  // namespace quintain

#endif  // QUINTAIN_KERNELS_ACTIVATION_OP_H_
