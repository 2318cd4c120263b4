// The operations of `residual_norm.h`.

#ifndef QUINTAIN_KERNELS_RESIDUAL_NORM_OP_H_
#define QUINTAIN_KERNELS_RESIDUAL_NORM_OP_H_

#include "block_sums.h"
#include "dropout_kernel.h"
#include "residual_norm.h"

namespace quintain {

#define QUINTAIN_NORM_TYPES              \
  Attr("Total: {float, bfloat16}")       \
      .Attr("Input: {float, bfloat16}")  \
      .Attr("Output: {float, bfloat16}")

// `residual` may be empty: nothing is added. Without it and without dropout `total` is empty.
REGISTER_OP("QuintainResidualNorm")
    .QUINTAIN_NORM_TYPES.Attr("epsilon: float")
    .Input("residual: Total")
    .Input("inputs: Input")
    .Input("gamma: float")
    .Input("beta: float")
    .QUINTAIN_DROPOUT.Output("total: Total")
    .Output("outputs: Output")
    .Output("means: float")
    .Output("scales: float")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* context) {
      const auto inputs = context->input(1);
      tensorflow::shape_inference::ShapeHandle matrix;
      TF_RETURN_IF_ERROR(context->WithRank(inputs, 2, &matrix));
      context->set_output(0, context->UnknownShapeOfRank(2));
      context->set_output(1, matrix);
      context->set_output(2, context->Vector(context->Dim(matrix, 0)));
      context->set_output(3, context->Vector(context->Dim(matrix, 0)));
      return absl::OkStatus();
    });

// `total_upstream` may be empty. `residual_gradient` is empty where `is_added` is false.
REGISTER_OP("QuintainResidualNormGradient")
    .QUINTAIN_NORM_TYPES.Attr("is_added: bool")
    .Input("total: Total")
    .Input("total_upstream: Total")
    .Input("upstream: Output")
    .Input("means: float")
    .Input("scales: float")
    .Input("gamma: float")
    .QUINTAIN_DROPOUT.Output("residual_gradient: Total")
    .Output("inputs_gradient: Input")
    .Output("gamma_gradient: float")
    .Output("beta_gradient: float")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* context) {
      context->set_output(0, context->UnknownShapeOfRank(2));
      context->set_output(1, context->input(0));
      context->set_output(2, context->input(5));
      context->set_output(3, context->input(5));
      return absl::OkStatus();
    });

template <typename T, typename I, typename O>
class ResidualNormOp : public DropoutKernel {
 public:
  explicit ResidualNormOp(tensorflow::OpKernelConstruction* context) : DropoutKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("epsilon", &epsilon_));
  }

  void Compute(tensorflow::OpKernelContext* context) override {
    const tensorflow::Tensor& residual = context->input(0);
    const tensorflow::Tensor& inputs = context->input(1);
    OP_REQUIRES_OK(context, CheckMatrix("inputs", inputs));
    const int64_t num_rows = inputs.dim_size(0), width = inputs.dim_size(1);
    const bool is_added = residual.NumElements() > 0;
    if (is_added) {
      OP_REQUIRES_OK(context, CheckShape("residual", residual, "the inputs", inputs.shape()));
    }
    for (int input = 2; input < 4; ++input) {
      OP_REQUIRES_OK(context, CheckShape(input == 2 ? "gamma" : "beta", context->input(input),
                                         "a row", tensorflow::TensorShape({width})));
    }
    DropoutDraw draw;
    OP_REQUIRES_OK(context, ReadDraw(context, &draw));
    const bool has_total = is_added || draw.level_bytes > 0;
    tensorflow::Tensor *total, *outputs, *means, *scales;
    const tensorflow::TensorShape rows({num_rows}), nothing({0, width});
    OP_REQUIRES_OK(context,
                   context->allocate_output(0, has_total ? inputs.shape() : nothing, &total));
    OP_REQUIRES_OK(context, context->allocate_output(1, inputs.shape(), &outputs));
    OP_REQUIRES_OK(context, context->allocate_output(2, rows, &means));
    OP_REQUIRES_OK(context, context->allocate_output(3, rows, &scales));
    using Plain = ResidualNorm<typename PlainType<T>::type, typename PlainType<I>::type,
                               typename PlainType<O>::type>;
    const Plain given{width,
                      epsilon_,
                      draw,
                      is_added ? Data<T>(residual) : nullptr,
                      Data<I>(inputs),
                      Data<float>(context->input(2)),
                      Data<float>(context->input(3)),
                      has_total ? MutableData<T>(total) : nullptr,
                      MutableData<O>(outputs),
                      MutableData<float>(means),
                      MutableData<float>(scales)};
    OP_REQUIRES_OK(context, ForRowsWithScratch(
        context, num_rows, width, [&given](int64_t begin, int64_t end) {
          return QUINTAIN_DISPATCH(residual_norm, given, begin, end);
        }));
  }

 private:
  float epsilon_;
};

template <typename T, typename I, typename O>
class ResidualNormGradientOp : public DropoutKernel {
 public:
  explicit ResidualNormGradientOp(tensorflow::OpKernelConstruction* context)
      : DropoutKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("is_added", &is_added_));
  }

  void Compute(tensorflow::OpKernelContext* context) override {
    const tensorflow::Tensor& total = context->input(0);
    const tensorflow::Tensor& more = context->input(1);
    OP_REQUIRES_OK(context, CheckMatrix("total", total));
    const int64_t num_rows = total.dim_size(0), width = total.dim_size(1);
    const tensorflow::TensorShape rows({num_rows}), row({width}), nothing({0, width});
    const bool has_more = more.NumElements() > 0;
    if (has_more) OP_REQUIRES_OK(context, CheckShape("total_upstream", more, "the total", total.shape()));
    OP_REQUIRES_OK(context, CheckShape("upstream", context->input(2), "the total", total.shape()));
    OP_REQUIRES_OK(context, CheckShape("means", context->input(3), "the rows", rows));
    OP_REQUIRES_OK(context, CheckShape("scales", context->input(4), "the rows", rows));
    OP_REQUIRES_OK(context, CheckShape("gamma", context->input(5), "a row", row));
    DropoutDraw draw;
    OP_REQUIRES_OK(context, ReadDraw(context, &draw));
    tensorflow::Tensor *residual, *inputs, *gamma, *beta;
    OP_REQUIRES_OK(context,
                   context->allocate_output(0, is_added_ ? total.shape() : nothing, &residual));
    OP_REQUIRES_OK(context, context->allocate_output(1, total.shape(), &inputs));
    OP_REQUIRES_OK(context, context->allocate_output(2, row, &gamma));
    OP_REQUIRES_OK(context, context->allocate_output(3, row, &beta));
    using Plain = ResidualNormGradient<typename PlainType<T>::type, typename PlainType<I>::type,
                                       typename PlainType<O>::type>;
    const Plain given{width,
                      draw,
                      Data<T>(total),
                      Data<float>(context->input(3)),
                      Data<float>(context->input(4)),
                      Data<float>(context->input(5)),
                      has_more ? Data<T>(more) : nullptr,
                      Data<O>(context->input(2)),
                      is_added_ ? MutableData<T>(residual) : nullptr,
                      MutableData<I>(inputs)};
    BlockSums gammas, betas;
    OP_REQUIRES_OK(context, gammas.Allocate(context, CountBlocks(num_rows), width));
    OP_REQUIRES_OK(context, betas.Allocate(context, CountBlocks(num_rows), width));
    OP_REQUIRES_OK(context, ForBlocks(
        context, num_rows, kBlockRows, 2 * width, [&](int64_t block, int64_t begin, int64_t end) {
          return QUINTAIN_DISPATCH(residual_norm_gradient, given, begin, end, gammas.block(block),
                                   betas.block(block));
        }));
    float* gamma_sums = MutableData<float>(gamma);
    float* beta_sums = MutableData<float>(beta);
    gammas.AddUp([=](int64_t i, float sum) { gamma_sums[i] = sum; });
    betas.AddUp([=](int64_t i, float sum) { beta_sums[i] = sum; });
  }

 private:
  bool is_added_;
};

#define QUINTAIN_REGISTER_NORM(NAME, OP, T, I, O)                \
  REGISTER_KERNEL_BUILDER(Name(NAME)                             \
                              .Device(tensorflow::DEVICE_CPU)    \
                              .TypeConstraint<T>("Total")        \
                              .TypeConstraint<I>("Input")        \
                              .TypeConstraint<O>("Output"),      \
                          OP<T, I, O>)
#define QUINTAIN_REGISTER_NORMS(T, I, O)                                                     \
  QUINTAIN_REGISTER_NORM("QuintainResidualNorm", ResidualNormOp, T, I, O);                   \
  QUINTAIN_REGISTER_NORM("QuintainResidualNormGradient", ResidualNormGradientOp, T, I, O)

QUINTAIN_REGISTER_NORMS(float, float, float);
QUINTAIN_REGISTER_NORMS(float, float, Eigen::bfloat16);
QUINTAIN_REGISTER_NORMS(float, Eigen::bfloat16, float);
QUINTAIN_REGISTER_NORMS(float, Eigen::bfloat16, Eigen::bfloat16);
QUINTAIN_REGISTER_NORMS(Eigen::bfloat16, Eigen::bfloat16, float);
QUINTAIN_REGISTER_NORMS(Eigen::bfloat16, Eigen::bfloat16, Eigen::bfloat16);
#undef QUINTAIN_REGISTER_NORMS
#undef QUINTAIN_REGISTER_NORM

}  // namespace quintain

#endif  // QUINTAIN_KERNELS_RESIDUAL_NORM_OP_H_
