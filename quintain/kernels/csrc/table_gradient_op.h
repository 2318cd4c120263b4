// The operation of `table_gradient.h`.

#ifndef QUINTAIN_KERNELS_TABLE_GRADIENT_OP_H_
#define QUINTAIN_KERNELS_TABLE_GRADIENT_OP_H_

#include <vector>

#include "table_gradient.h"
#include "tensors.h"
#include "threads.h"

namespace quintain {

REGISTER_OP("QuintainTableGradient")
    .Attr("T: {float, bfloat16}")
    .Input("dense: T")
    .Input("gradients: float")
    .Input("ids: int64")
    .Output("total: float")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* context) {
      context->set_output(0, context->input(0));
      return absl::OkStatus();
    });

template <typename T>
class TableGradientOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext* context) override {
    const tensorflow::Tensor dense = context->input(0);
    const tensorflow::Tensor& gradients = context->input(1);
    const tensorflow::Tensor& ids = context->input(2);
    OP_REQUIRES(context,
                dense.dims() == 2 && gradients.dims() == 2 && ids.dims() == 1 &&
                    ids.dim_size(0) == gradients.dim_size(0) &&
                    gradients.dim_size(1) == dense.dim_size(1),
                absl::InvalidArgumentError(absl::StrCat(
                    "dense, gradients, ids: got shapes ", dense.shape().DebugString(), ", ",
                    gradients.shape().DebugString(), " and ", ids.shape().DebugString(),
                    ", expected [V, D], [N, D] and [N].")));
    OP_REQUIRES_OK(context, CheckIds(ids, dense.dim_size(0)));
    const auto* numbers = Data<T>(dense);
    tensorflow::Tensor* total = nullptr;
    // Bfloat16 is not forwarded: its memory is too small.
    OP_REQUIRES_OK(context, context->forward_input_or_allocate_output({0}, 0, dense.shape(),
                                                                      &total));
    if (dense.NumElements() == 0) return;  // There may be more rows than memory, of no numbers.
    std::vector<int64_t> starts, order;
    Sort(ids, dense.dim_size(0), &starts, &order);
    float* results = MutableData<float>(total);
    const LookedUp looked_up{Data<float>(gradients), order.data(), starts.data()};
    const int64_t width = dense.dim_size(1);
    ForRows(context, dense.dim_size(0), width, [=](int64_t begin, int64_t end) {
      QUINTAIN_DISPATCH(table_gradient, numbers, looked_up, results, width, begin, end);
    });
  }

 private:
  // Fails if an id is none of a row, or negative.
  static absl::Status CheckIds(const tensorflow::Tensor& ids, int64_t num_rows) {
    const int64_t* rows = Data<int64_t>(ids);
    for (int64_t i = 0; i < ids.dim_size(0); ++i) {
      if (rows[i] >= num_rows) {
        return absl::InvalidArgumentError(absl::StrCat(
            "ids[", i, "]: got ", rows[i], ", expected an integer below ", num_rows, "."));
      }
    }
    return absl::OkStatus();
  }

  // Counts the gradients of each row and lists them in their order; negative ids are left out.
  static void Sort(const tensorflow::Tensor& ids, int64_t num_rows,
                           std::vector<int64_t>* starts, std::vector<int64_t>* order) {
    const int64_t* rows = Data<int64_t>(ids);
    const int64_t count = ids.dim_size(0);
    starts->assign(num_rows + 2, 0);
    for (int64_t i = 0; i < count; ++i) {
      if (rows[i] >= 0) ++(*starts)[rows[i] + 2];
    }
    for (int64_t row = 2; row < num_rows + 2; ++row) (*starts)[row] += (*starts)[row - 1];
    order->resize((*starts)[num_rows + 1]);
    for (int64_t i = 0; i < count; ++i) {
      if (rows[i] >= 0) (*order)[(*starts)[rows[i] + 1]++] = i;
    }
  }
};

#define QUINTAIN_REGISTER_TABLE_GRADIENT(T)                                                  \
  REGISTER_KERNEL_BUILDER(                                                                   \
      Name("QuintainTableGradient").Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("T"),   \
      TableGradientOp<T>)

QUINTAIN_REGISTER_TABLE_GRADIENT(float);
QUINTAIN_REGISTER_TABLE_GRADIENT(Eigen::bfloat16);
#undef QUINTAIN_REGISTER_TABLE_GRADIENT

}  // namespace quintain

#endif  // QUINTAIN_KERNELS_TABLE_GRADIENT_OP_H_
