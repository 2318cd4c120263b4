// The operations of `attention.h`.

#ifndef QUINTAIN_KERNELS_ATTENTION_OP_H_
#define QUINTAIN_KERNELS_ATTENTION_OP_H_

#include "attention.h"
#include "attention_weights_op.h"

namespace quintain {

// Queries `[B, Q, D]` and, side by side, keys and values `[B, K, 2 * D]`; or all three,
// `[B, S, 3 * D]`, in the first, where the second has one dimension. `bias` broadcasts to the scores
// `[B, H, Q, K]`, or is empty.
#define QUINTAIN_ATTENTION            \
  Attr("T: {float, bfloat16}")        \
      .Attr("num_heads: int >= 1")    \
      .Attr("score_scale: float")     \
      .Input("queries: T")            \
      .Input("memory: T")             \
      .Input("bias: T")               \
      .QUINTAIN_DROPOUT

REGISTER_OP("QuintainAttention")
    .QUINTAIN_ATTENTION.Output("mixed: T")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* context) {
      using tensorflow::shape_inference::DimensionHandle;
      tensorflow::shape_inference::ShapeHandle queries;
      TF_RETURN_IF_ERROR(context->WithRank(context->input(0), 3, &queries));
      DimensionHandle width = context->Dim(queries, 2);
      if (!context->RankKnown(context->input(1))) {
        width = context->UnknownDim();
      } else if (context->Rank(context->input(1)) == 1) {
        TF_RETURN_IF_ERROR(context->Divide(width, 3, /*evenly_divisible=*/true, &width));
      }
      context->set_output(
          0, context->MakeShape({context->Dim(queries, 0), context->Dim(queries, 1), width}));
      return absl::OkStatus();
    });

REGISTER_OP("QuintainAttentionGradient")
    .QUINTAIN_ATTENTION.Input("upstream: T")
    .Output("queries_gradient: T")
    .Output("memory_gradient: T")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* context) {
      context->set_output(0, context->input(0));
      context->set_output(1, context->input(1));
      return absl::OkStatus();
    });

REGISTER_OP("QuintainAttentionBiasGradient")
    .QUINTAIN_ATTENTION.Input("upstream: T")
    .Output("bias_gradient: T")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* context) {
      context->set_output(0, context->input(2));
      return absl::OkStatus();
    });

template <typename T>
class AttentionKernel : public DropoutKernel {
 public:
  explicit AttentionKernel(tensorflow::OpKernelConstruction* context) : DropoutKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("num_heads", &num_heads_));
    OP_REQUIRES_OK(context, context->GetAttr("score_scale", &score_scale_));
  }

 protected:
  typedef typename PlainType<T>::type Plain;

  // What one step attends with.
  struct Read {
    Attention given;
    Attended<const Plain> from;
    const Plain* bias;
    const Plain* upstream;  // on the way back
    tensorflow::TensorShape mixed;
    int64_t num_units, cost;  // `cost` is that of a unit, in nanoseconds
  };

  absl::Status ReadInputs(tensorflow::OpKernelContext* context, Read* read) const {
    const tensorflow::Tensor &queries = context->input(0), &memory = context->input(1),
                             &bias = context->input(2);
    const bool is_joint = memory.dims() == 1 && memory.NumElements() == 0;
    const int64_t parts = is_joint ? 3 : 1;
    bool fits = queries.dims() == 3 && queries.dim_size(2) % parts == 0;
    const int64_t width = fits ? queries.dim_size(2) / parts : 0;
    fits = fits && width % num_heads_ == 0 &&
           (is_joint || (memory.dims() == 3 && memory.dim_size(2) == 2 * width &&
                         memory.dim_size(0) == queries.dim_size(0)));
    if (!fits) {
      return absl::InvalidArgumentError(absl::StrCat(
          "queries, memory: got shapes ", queries.shape().DebugString(), " and ",
          memory.shape().DebugString(), ", expected [B, Q, D] and [B, K, 2 * D], or [B, S, 3 * D] ",
          "and [0], where ", num_heads_, " heads divide D."));
    }
    const int64_t examples = queries.dim_size(0), num_queries = queries.dim_size(1);
    const int64_t num_keys = is_joint ? num_queries : memory.dim_size(1);
    const int64_t size = width / num_heads_, memory_step = is_joint ? 3 * width : 2 * width;
    AttentionRows rows = {};
    if (bias.NumElements() > 0) {
      tensorflow::TensorShape scores;  // Of no width there may be more than can be counted.
      TF_RETURN_IF_ERROR(tensorflow::TensorShape::BuildTensorShape(
          {examples, num_heads_, num_queries, num_keys}, &scores));
      TF_RETURN_IF_ERROR(ReadBias(scores, bias, &rows));
    }
    const Plain* first = Data<T>(queries);
    const Plain* keys = is_joint ? first + width : Data<T>(memory);
    DropoutDraw draw;
    TF_RETURN_IF_ERROR(ReadDraw(context, &draw));
    read->given = {num_heads_, num_queries, num_keys,     size, parts * width,
                   memory_step, score_scale_, {}, draw};
    std::copy(rows.bias_steps, rows.bias_steps + 4, read->given.bias_steps);
    read->from = {first, keys, keys + width};
    read->bias = bias.NumElements() > 0 ? Data<T>(bias) : nullptr;
    read->mixed = tensorflow::TensorShape({examples, num_queries, width});
    read->num_units = examples * num_heads_;
    read->cost = 1 + num_queries * num_keys * (size + 32) / 64;
    return absl::OkStatus();
  }

  // What a gradient is computed from: that of the outputs as well.
  absl::Status ReadGradientInputs(tensorflow::OpKernelContext* context, Read* read) const {
    TF_RETURN_IF_ERROR(ReadInputs(context, read));
    const tensorflow::Tensor& upstream = context->input(5);
    read->upstream = Data<T>(upstream);
    return CheckShape("upstream", upstream, "the outputs", read->mixed);
  }

 private:
  int64_t num_heads_;
  float score_scale_;
};

template <typename T>
class AttentionOp : public AttentionKernel<T> {
 public:
  using AttentionKernel<T>::AttentionKernel;

  void Compute(tensorflow::OpKernelContext* context) override {
    typename AttentionKernel<T>::Read read;
    OP_REQUIRES_OK(context, this->ReadInputs(context, &read));
    tensorflow::Tensor* mixed = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, read.mixed, &mixed));
    if (mixed->NumElements() == 0) return;
    auto* results = MutableData<T>(mixed);
    OP_REQUIRES_OK(context, ForRowsWithScratch(
        context, read.num_units, read.cost, [&](int64_t begin, int64_t end) {
          return QUINTAIN_DISPATCH(attend, read.from, read.bias, read.given, results, begin, end);
        }));
  }
};

template <typename T>
class AttentionGradientOp : public AttentionKernel<T> {
 public:
  using AttentionKernel<T>::AttentionKernel;

  void Compute(tensorflow::OpKernelContext* context) override {
    typename AttentionKernel<T>::Read read;
    OP_REQUIRES_OK(context, this->ReadGradientInputs(context, &read));
    tensorflow::Tensor *queries, *memory;
    OP_REQUIRES_OK(context, context->allocate_output(0, context->input(0).shape(), &queries));
    OP_REQUIRES_OK(context, context->allocate_output(1, context->input(1).shape(), &memory));
    const int64_t width = read.mixed.dim_size(2);
    auto* first = MutableData<T>(queries);
    auto* keys = memory->dims() == 1 ? first + width : MutableData<T>(memory);
    const Attended<typename AttentionKernel<T>::Plain> gradient = {first, keys, keys + width};
    if (read.mixed.num_elements() == 0) {  // No query has seen the memory.
      memory->flat<T>().setZero();
      return;
    }
    OP_REQUIRES_OK(context, ForRowsWithScratch(
        context, read.num_units, 3 * read.cost, [&](int64_t begin, int64_t end) {
          return QUINTAIN_DISPATCH(attend_gradient, read.from, read.bias, read.upstream, read.given,
                                   gradient, begin, end);
        }));
  }
};

// Apart from the other gradients, for most biases are masks whose gradient nobody wants: it is
// computed where it is asked for, scores once more, and costs nothing elsewhere.
template <typename T>
class AttentionBiasGradientOp : public AttentionKernel<T> {
 public:
  using AttentionKernel<T>::AttentionKernel;

  void Compute(tensorflow::OpKernelContext* context) override {
    typename AttentionKernel<T>::Read read;
    OP_REQUIRES_OK(context, this->ReadGradientInputs(context, &read));
    const int64_t num_units = read.mixed.num_elements() > 0 ? read.num_units : 0;
    const BiasSums sums(num_units, read.given.num_heads, 2 * read.cost);
    OP_REQUIRES_OK(context, sums.Compute<T>(
        context, context->input(2), [&](BiasHeads heads, float* places) {
          return QUINTAIN_DISPATCH(attend_bias_gradient, read.from, read.bias, read.upstream,
                                   read.given, heads, places);
        }));
  }
};

#define QUINTAIN_REGISTER_ATTEND(T)                                                               \
  REGISTER_KERNEL_BUILDER(                                                                        \
      Name("QuintainAttention").Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("T"),            \
      AttentionOp<T>);                                                                            \
  REGISTER_KERNEL_BUILDER(                                                                        \
      Name("QuintainAttentionGradient").Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("T"),    \
      AttentionGradientOp<T>);                                                                    \
  REGISTER_KERNEL_BUILDER(                                                                        \
      Name("QuintainAttentionBiasGradient").Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("T"), \
      AttentionBiasGradientOp<T>)

QUINTAIN_REGISTER_ATTEND(float);
QUINTAIN_REGISTER_ATTEND(Eigen::bfloat16);
#undef QUINTAIN_REGISTER_ATTEND
#undef QUINTAIN_ATTENTION

}  // namespace quintain

#endif  // QUINTAIN_KERNELS_ATTENTION_OP_H_
