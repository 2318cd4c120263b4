// The operation of `products.h`.

#ifndef QUINTAIN_KERNELS_PRODUCTS_OP_H_
#define QUINTAIN_KERNELS_PRODUCTS_OP_H_

#include <algorithm>

#include "products.h"
#include "tensors.h"
#include "threads.h"

namespace quintain {

// `bias` is added to each row, or is empty. `sums` are those of the columns of `right`, which may
// then not be transposed; empty unless asked for.
REGISTER_OP("QuintainProduct")
    .Attr("T: {float, bfloat16}")
    .Attr("transpose_left: bool")
    .Attr("transpose_right: bool")
    .Attr("sum_right: bool")
    .Input("left: bfloat16")
    .Input("right: T")
    .Input("bias: bfloat16")
    .Output("product: bfloat16")
    .Output("sums: bfloat16")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* context) {
      tensorflow::shape_inference::ShapeHandle left, right;
      bool is_left_transposed, is_right_transposed;
      TF_RETURN_IF_ERROR(context->GetAttr("transpose_left", &is_left_transposed));
      TF_RETURN_IF_ERROR(context->GetAttr("transpose_right", &is_right_transposed));
      TF_RETURN_IF_ERROR(context->WithRank(context->input(0), 2, &left));
      TF_RETURN_IF_ERROR(context->WithRank(context->input(1), 2, &right));
      context->set_output(0, context->Matrix(context->Dim(left, is_left_transposed ? 1 : 0),
                                             context->Dim(right, is_right_transposed ? 0 : 1)));
      context->set_output(1, context->UnknownShapeOfRank(1));
      return absl::OkStatus();
    });

template <typename T>
class ProductOp : public tensorflow::OpKernel {
 public:
  explicit ProductOp(tensorflow::OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("transpose_left", &is_left_transposed_));
    OP_REQUIRES_OK(context, context->GetAttr("transpose_right", &is_right_transposed_));
    OP_REQUIRES_OK(context, context->GetAttr("sum_right", &is_summed_));
    OP_REQUIRES(context, !(is_summed_ && is_right_transposed_),
                absl::InvalidArgumentError("sum_right: expected false beside transpose_right."));
  }

  void Compute(tensorflow::OpKernelContext* context) override {
    const tensorflow::Tensor &left = context->input(0), &right = context->input(1),
                             &bias = context->input(2);
    Product given = {};
    OP_REQUIRES_OK(context, ReadSizes(left, right, bias, &given));
    tensorflow::Tensor *product, *sums, packed, packed_rows;
    OP_REQUIRES_OK(context, context->allocate_output(0, {given.rows, given.outputs}, &product));
    OP_REQUIRES_OK(context,
                   context->allocate_output(1, {is_summed_ ? given.outputs : 0}, &sums));
    const int64_t num_panels = NumPanels(given), panel_pairs = PanelPairs(given);
    OP_REQUIRES_OK(context, context->allocate_temp(tensorflow::DT_UINT32,
                                                   {num_panels * panel_pairs}, &packed));
    OP_REQUIRES_OK(context, context->allocate_temp(tensorflow::DT_UINT16, {given.packed_rows},
                                                   &packed_rows));
    given.left = Data<Eigen::bfloat16>(left);
    given.bias = bias.NumElements() > 0 ? Data<Eigen::bfloat16>(bias) : nullptr;
    given.product = MutableData<Eigen::bfloat16>(product);
    const auto* numbers = Data<T>(right);
    uint32_t* panels = packed.flat<tensorflow::uint32>().data();
    if (product->NumElements() == 0 && !is_summed_) return;
    tensorflow::Tensor totals;
    OP_REQUIRES_OK(context, context->allocate_temp(tensorflow::DT_FLOAT, sums->shape(), &totals));
    float* added = is_summed_ ? MutableData<float>(&totals) : nullptr;
    std::fill_n(MutableData<float>(&totals), totals.NumElements(), 0.0f);
    ForRows(context, num_panels, 1 + panel_pairs / 4, [&](int64_t begin, int64_t end) {
      QUINTAIN_DISPATCH(pack_panels, given, numbers, panels, added, begin, end);
    });
    auto results = sums->flat<Eigen::bfloat16>();
    for (int64_t i = 0; i < totals.NumElements(); ++i) {
      results(i) = static_cast<Eigen::bfloat16>(added[i]);
    }
    if (product->NumElements() == 0) return;
    auto* rows = MutableData<tensorflow::uint16>(&packed_rows);
    ForRows(context, NumGroups(given), 1 + kGroupRows * given.inputs / 8,
            [&](int64_t begin, int64_t end) {
              QUINTAIN_DISPATCH_AMX(pack_left, given, rows, begin, end);
            });
    // 250 products a nanosecond, or 1,000.
    const int64_t speed = UsedIsa() == Isa::kAmxBf16 ? 1024 : 256;
    const int64_t cost = 1 + given.block_rows * panel_pairs / speed;
    ForRows(context, NumUnits(given), cost, [&](int64_t begin, int64_t end) {
      QUINTAIN_DISPATCH_AMX(multiply_units, given, rows, panels, begin, end);
    });
  }

 private:
  absl::Status ReadSizes(const tensorflow::Tensor& left, const tensorflow::Tensor& right,
                         const tensorflow::Tensor& bias, Product* given) const {
    const int inner = is_left_transposed_ ? 0 : 1, right_inner = is_right_transposed_ ? 1 : 0;
    const bool are_matrices = left.dims() == 2 && right.dims() == 2;
    if (!are_matrices || left.dim_size(inner) != right.dim_size(right_inner)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "left, right: got shapes ", left.shape().DebugString(), " and ",
          right.shape().DebugString(), ", expected matrices with as many inputs."));
    }
    given->rows = left.dim_size(1 - inner);
    given->inputs = left.dim_size(inner);
    given->outputs = right.dim_size(1 - right_inner);
    tensorflow::TensorShape shape;  // Of no inputs there may be more outputs than can be counted.
    if (!tensorflow::TensorShape::BuildTensorShape({given->rows, given->outputs}, &shape).ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("left, right: got shapes ", left.shape().DebugString(), " and ",
                       right.shape().DebugString(), ", expected a product below 2**63 numbers."));
    }
    given->is_left_transposed = is_left_transposed_;
    given->is_right_transposed = is_right_transposed_;
    QUINTAIN_DISPATCH_AMX(plan_product, given);
    if (bias.NumElements() == 0 || bias.NumElements() == given->outputs) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("bias: got ", bias.NumElements(),
                                                   " numbers, expected ", given->outputs, "."));
  }

  bool is_left_transposed_, is_right_transposed_, is_summed_;
};

REGISTER_KERNEL_BUILDER(
    Name("QuintainProduct").Device(tensorflow::DEVICE_CPU).TypeConstraint<float>("T"),
    ProductOp<float>);
REGISTER_KERNEL_BUILDER(
    Name("QuintainProduct").Device(tensorflow::DEVICE_CPU).TypeConstraint<Eigen::bfloat16>("T"),
    ProductOp<Eigen::bfloat16>);

}  // namespace quintain

#endif  // QUINTAIN_KERNELS_PRODUCTS_OP_H_
