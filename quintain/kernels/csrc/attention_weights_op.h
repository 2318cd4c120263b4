// The operations of `attention_weights.h`.

#ifndef QUINTAIN_KERNELS_ATTENTION_WEIGHTS_OP_H_
#define QUINTAIN_KERNELS_ATTENTION_WEIGHTS_OP_H_

#include "attention_weights.h"
#include "bias_sums.h"
#include "dropout_kernel.h"

namespace quintain {

// `bias` broadcasts to the scores `[B, H, Q, K]`, or is empty. `dropped` is empty where nothing is.
REGISTER_OP("QuintainAttentionWeights")
    .Attr("T: {float, bfloat16}")
    .Attr("score_scale: float")
    .Input("scores: T")
    .Input("bias: T")
    .QUINTAIN_DROPOUT.Output("weights: T")
    .Output("dropped: T")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* context) {
      context->set_output(0, context->input(0));
      context->set_output(1, context->UnknownShape());
      return absl::OkStatus();
    });

REGISTER_OP("QuintainAttentionWeightsGradient")
    .Attr("T: {float, bfloat16}")
    .Attr("score_scale: float")
    .Input("weights: T")
    .Input("upstream: T")
    .QUINTAIN_DROPOUT.Output("gradient: T")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* context) {
      context->set_output(0, context->input(0));
      return absl::OkStatus();
    });

REGISTER_OP("QuintainAttentionWeightsBiasGradient")
    .Attr("T: {float, bfloat16}")
    .Input("weights: T")
    .Input("upstream: T")
    .Input("bias: T")
    .QUINTAIN_DROPOUT.Output("bias_gradient: T")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* context) {
      context->set_output(0, context->input(2));
      return absl::OkStatus();
    });

// Reads the sizes of scores `[B, H, Q, K]`.
inline absl::Status ReadRows(const tensorflow::Tensor& scores, float scale,
                             const DropoutDraw& draw, AttentionRows* rows) {
  if (scores.dims() != 4) {
    return absl::InvalidArgumentError(absl::StrCat(
        "scores: got shape ", scores.shape().DebugString(), ", expected [B, H, Q, K]."));
  }
  *rows = AttentionRows{scores.dim_size(1), scores.dim_size(2), scores.dim_size(3), scale,
                        {0, 0, 0, 0},       draw};
  return absl::OkStatus();
}

// Sets how to go through a bias that broadcasts to scores of a shape.
inline absl::Status ReadBias(const tensorflow::TensorShape& scores, const tensorflow::Tensor& bias,
                             AttentionRows* rows) {
  bool fits = bias.dims() == 4;
  int64_t step = 1;
  for (int dim = 3; fits && dim >= 0; --dim) {
    const int64_t size = bias.dim_size(dim);
    fits = size == 1 || size == scores.dim_size(dim);
    rows->bias_steps[dim] = size == 1 ? 0 : step;
    step *= size;
  }
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("bias: got shape ", bias.shape().DebugString(),
                                                 ", expected one that broadcasts to ",
                                                 scores.DebugString(), "."));
}

template <typename T>
class AttentionWeightsOp : public DropoutKernel {
 public:
  explicit AttentionWeightsOp(tensorflow::OpKernelConstruction* context) : DropoutKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("score_scale", &score_scale_));
  }

  void Compute(tensorflow::OpKernelContext* context) override {
    const tensorflow::Tensor& scores = context->input(0);
    const tensorflow::Tensor& bias = context->input(1);
    DropoutDraw draw;
    AttentionRows rows;
    OP_REQUIRES_OK(context, ReadDraw(context, &draw));
    OP_REQUIRES_OK(context, ReadRows(scores, score_scale_, draw, &rows));
    const bool has_bias = bias.NumElements() > 0;
    if (has_bias) OP_REQUIRES_OK(context, ReadBias(scores.shape(), bias, &rows));
    const auto* numbers = Data<T>(scores);  // Read before they may be given up for the output.
    const auto* shifts = has_bias ? Data<T>(bias) : nullptr;
    const tensorflow::TensorShape shape = scores.shape(), nothing({0});
    const bool is_dropped = draw.level_bytes > 0;
    tensorflow::Tensor *weights, *dropped;
    OP_REQUIRES_OK(context, context->forward_input_or_allocate_output({0}, 0, shape, &weights));
    OP_REQUIRES_OK(context, context->allocate_output(1, is_dropped ? shape : nothing, &dropped));
    auto* results = MutableData<T>(weights);
    auto* kept = is_dropped ? MutableData<T>(dropped) : nullptr;
    if (shape.num_elements() == 0) return;
    OP_REQUIRES_OK(context, ForRowsWithScratch(
        context, shape.num_elements() / rows.num_keys, 2 * rows.num_keys,
        [=](int64_t begin, int64_t end) {
          return QUINTAIN_DISPATCH(attention_weights, numbers, shifts, rows, results, kept, begin,
                                   end);
        }));
  }

 private:
  float score_scale_;
};

template <typename T>
class AttentionWeightsGradientOp : public DropoutKernel {
 public:
  explicit AttentionWeightsGradientOp(tensorflow::OpKernelConstruction* context)
      : DropoutKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("score_scale", &score_scale_));
  }

  void Compute(tensorflow::OpKernelContext* context) override {
    const tensorflow::Tensor weights = context->input(0);
    const tensorflow::Tensor& upstream = context->input(1);
    DropoutDraw draw;
    AttentionRows rows;
    OP_REQUIRES_OK(context, ReadDraw(context, &draw));
    OP_REQUIRES_OK(context, ReadRows(weights, score_scale_, draw, &rows));
    OP_REQUIRES_OK(context, CheckShape("upstream", upstream, "the weights", weights.shape()));
    const auto* numbers = Data<T>(weights);
    const auto* ups = Data<T>(upstream);
    tensorflow::Tensor* gradient = nullptr;
    OP_REQUIRES_OK(context, context->forward_input_or_allocate_output({1}, 0, weights.shape(),
                                                                      &gradient));
    auto* results = MutableData<T>(gradient);
    if (weights.NumElements() == 0) return;
    OP_REQUIRES_OK(context, ForRowsWithScratch(
        context, weights.NumElements() / rows.num_keys, 2 * rows.num_keys,
        [=](int64_t begin, int64_t end) {
          return QUINTAIN_DISPATCH(attention_weights_gradient, numbers, ups, rows, results, begin,
                                   end);
        }));
  }

 private:
  float score_scale_;
};

template <typename T>
class AttentionWeightsBiasGradientOp : public DropoutKernel {
 public:
  using DropoutKernel::DropoutKernel;

  void Compute(tensorflow::OpKernelContext* context) override {
    const tensorflow::Tensor &weights = context->input(0), &upstream = context->input(1),
                             &bias = context->input(2);
    DropoutDraw draw;
    AttentionRows rows;
    OP_REQUIRES_OK(context, ReadDraw(context, &draw));
    OP_REQUIRES_OK(context, ReadRows(weights, 1.0f, draw, &rows));
    OP_REQUIRES_OK(context, CheckShape("upstream", upstream, "the weights", weights.shape()));
    if (bias.NumElements() > 0) OP_REQUIRES_OK(context, ReadBias(weights.shape(), bias, &rows));
    const auto* numbers = Data<T>(weights);
    const auto* ups = Data<T>(upstream);
    const BiasSums sums(weights.dim_size(0) * rows.num_heads, rows.num_heads,
                        2 * rows.num_queries * rows.num_keys);
    OP_REQUIRES_OK(context, sums.Compute<T>(context, bias, [=](BiasHeads heads, float* places) {
      return QUINTAIN_DISPATCH(attention_weights_bias_gradient, numbers, ups, rows, heads, places);
    }));
  }
};

#define QUINTAIN_REGISTER_ATTENTION(T)                                                            \
  REGISTER_KERNEL_BUILDER(                                                                        \
      Name("QuintainAttentionWeights").Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("T"),     \
      AttentionWeightsOp<T>);                                                                     \
  REGISTER_KERNEL_BUILDER(Name("QuintainAttentionWeightsGradient")                                \
                              .Device(tensorflow::DEVICE_CPU)                                     \
                              .TypeConstraint<T>("T"),                                            \
                          AttentionWeightsGradientOp<T>);                                         \
  REGISTER_KERNEL_BUILDER(Name("QuintainAttentionWeightsBiasGradient")                            \
                              .Device(tensorflow::DEVICE_CPU)                                     \
                              .TypeConstraint<T>("T"),                                            \
                          AttentionWeightsBiasGradientOp<T>)

QUINTAIN_REGISTER_ATTENTION(float);
QUINTAIN_REGISTER_ATTENTION(Eigen::bfloat16);
#undef QUINTAIN_REGISTER_ATTENTION

}  // namespace quintain

#endif  // QUINTAIN_KERNELS_ATTENTION_WEIGHTS_OP_H_
