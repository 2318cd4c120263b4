// The operations of `cross_entropy.h`.

#ifndef QUINTAIN_KERNELS_CROSS_ENTROPY_OP_H_
#define QUINTAIN_KERNELS_CROSS_ENTROPY_OP_H_

#include "cross_entropy.h"
#include "tensors.h"
#include "threads.h"

namespace quintain {

REGISTER_OP("QuintainMeasureLogits")
    .Attr("T: {float, bfloat16}")
    .Input("logits: T")
    .Input("labels: int32")
    .Output("maximum: float")
    .Output("exp_sum: float")
    .Output("logit_sum: float")
    .Output("label_logit: float")
    .Output("is_right: float")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* context) {
      for (int output = 0; output < 5; ++output) context->set_output(output, context->input(1));
      return absl::OkStatus();
    });

REGISTER_OP("QuintainCrossEntropyGradient")
    .Attr("T: {float, bfloat16}")
    .Attr("smoothing: float")
    .Input("logits: T")
    .Input("labels: int32")
    .Input("maximum: float")
    .Input("exp_sum: float")
    .Input("upstream: float")
    .Output("gradient: T")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* context) {
      context->set_output(0, context->input(0));
      return absl::OkStatus();
    });

// Fails unless `logits` are rows with one label each.
inline absl::Status CheckShapes(const tensorflow::Tensor& logits,
                                const tensorflow::Tensor& labels) {
  if (logits.dims() != 2 || labels.dims() != 1 || labels.dim_size(0) != logits.dim_size(0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "labels: got shape ", labels.shape().DebugString(), " for logits of shape ",
        logits.shape().DebugString(), ", expected [N] for [N, V]."));
  }
  return absl::OkStatus();
}

// Fails unless every label is one of the classes.
inline absl::Status CheckLabels(const tensorflow::Tensor& logits,
                                const tensorflow::Tensor& labels) {
  const int32_t* data = Data<int32_t>(labels);
  for (int64_t row = 0; row < labels.dim_size(0); ++row) {
    if (data[row] < 0 || data[row] >= logits.dim_size(1)) {
      return absl::InvalidArgumentError(
          absl::StrCat("labels[", row, "]: got ", data[row], ", expected an integer in [0, ",
                       logits.dim_size(1), ")."));
    }
  }
  return absl::OkStatus();
}

template <typename T>
class MeasureLogits : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext* context) override {
    const tensorflow::Tensor& logits = context->input(0);
    const tensorflow::Tensor& labels = context->input(1);
    OP_REQUIRES_OK(context, CheckShapes(logits, labels));
    float* outputs[5];
    for (int output = 0; output < 5; ++output) {
      tensorflow::Tensor* tensor = nullptr;
      OP_REQUIRES_OK(context, context->allocate_output(output, labels.shape(), &tensor));
      outputs[output] = tensor->flat<float>().data();
    }
    const LogitStatistics statistics{outputs[0], outputs[1], outputs[2], outputs[3], outputs[4]};
    const auto* scores = Data<T>(logits);
    const int32_t* places = Data<int32_t>(labels);
    const int64_t num_classes = logits.dim_size(1);
    ForRows(context, labels.dim_size(0), num_classes, [=](int64_t begin, int64_t end) {
      QUINTAIN_DISPATCH(measure_logits, scores, places, statistics, num_classes, begin, end);
    });
  }
};

template <typename T>
class CrossEntropyGradientOp : public tensorflow::OpKernel {
 public:
  explicit CrossEntropyGradientOp(tensorflow::OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("smoothing", &smoothing_));
  }

  void Compute(tensorflow::OpKernelContext* context) override {
    const tensorflow::Tensor& logits = context->input(0);
    const tensorflow::Tensor& labels = context->input(1);
    OP_REQUIRES_OK(context, CheckShapes(logits, labels));
    OP_REQUIRES_OK(context, CheckLabels(logits, labels));
    for (int input = 2; input < 5; ++input) {
      OP_REQUIRES(context, context->input(input).shape() == labels.shape(),
                  absl::InvalidArgumentError(absl::StrCat(
                      "Input ", input, ": got shape ", context->input(input).shape().DebugString(),
                      ", expected that of the labels, ", labels.shape().DebugString(), ".")));
    }
    const auto* scores = Data<T>(logits);  // Read before they may be given up for the output.
    const int64_t num_classes = logits.dim_size(1);
    tensorflow::Tensor* gradient = nullptr;
    OP_REQUIRES_OK(context, context->forward_input_or_allocate_output({0}, 0, logits.shape(),
                                                                      &gradient));
    const int64_t num_others = num_classes > 1 ? num_classes - 1 : 1;
    const CrossEntropyGradient given{
        Data<float>(context->input(2)), Data<float>(context->input(3)),
        Data<float>(context->input(4)), 1.0f - smoothing_,
        smoothing_ / static_cast<float>(num_others)};
    const int32_t* places = Data<int32_t>(labels);
    auto* results = MutableData<T>(gradient);
    ForRows(context, labels.dim_size(0), num_classes, [=](int64_t begin, int64_t end) {
      QUINTAIN_DISPATCH(cross_entropy_gradient, scores, places, given, results, num_classes, begin,
                        end);
    });
  }

 private:
  float smoothing_;
};

#define QUINTAIN_REGISTER_CROSS_ENTROPY(T)                                                      \
  REGISTER_KERNEL_BUILDER(                                                                      \
      Name("QuintainMeasureLogits").Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("T"),      \
      MeasureLogits<T>);                                                                        \
  REGISTER_KERNEL_BUILDER(Name("QuintainCrossEntropyGradient")                                  \
                              .Device(tensorflow::DEVICE_CPU)                                   \
                              .TypeConstraint<T>("T"),                                          \
                          CrossEntropyGradientOp<T>)

QUINTAIN_REGISTER_CROSS_ENTROPY(float);
QUINTAIN_REGISTER_CROSS_ENTROPY(Eigen::bfloat16);
#undef QUINTAIN_REGISTER_CROSS_ENTROPY

}  // namespace quintain

#endif  // QUINTAIN_KERNELS_CROSS_ENTROPY_OP_H_
