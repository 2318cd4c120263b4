// The operations of `adam.h`, each for all variables at once.

#ifndef QUINTAIN_KERNELS_ADAM_OP_H_
#define QUINTAIN_KERNELS_ADAM_OP_H_

#include <algorithm>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

#include "adam.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensors.h"
#include "threads.h"

namespace quintain {

REGISTER_OP("QuintainAdam")
    .Attr("num: int >= 1")
    .Attr("num_averages: int >= 0")
    .Attr("dtypes: list({float, bfloat16}) >= 1")
    .Attr("decaying: list(bool)")
    .Attr("averaged: list(int) >= 0")  // Indices of the weights that the averages belong to.
    .Input("weights: num * resource")
    .Input("means: num * resource")
    .Input("squares: num * resource")
    .Input("averages: num_averages * resource")
    .Input("gradients: dtypes")
    .Input("scalars: float")
    .SetIsStateful()
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext*) { return absl::OkStatus(); });

REGISTER_OP("QuintainHalfSquares")
    .Attr("dtypes: list({float, bfloat16}) >= 1")
    .Input("tensors: dtypes")
    .Output("sum: float")
    .SetShapeFn([](tensorflow::shape_inference::InferenceContext* context) {
      context->set_output(0, context->Scalar());
      return absl::OkStatus();
    });

constexpr int64_t kNumbersPerBlock = 1 << 16;

// A part of one of many tensors. The parts do not depend on the number of threads.
struct Part {
  int tensor;
  int64_t begin;
  int64_t size;
};

// Calls `work` for every part.
template <typename Work>
void ForParts(tensorflow::OpKernelContext* context, const std::vector<Part>& parts, Work work) {
  ForRows(context, parts.size(), kNumbersPerBlock / 2, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) work(i, parts[i]);
  });
}

inline std::vector<Part> SplitTensors(const tensorflow::OpInputList& tensors) {
  std::vector<Part> parts;
  for (int tensor = 0; tensor < tensors.size(); ++tensor) {
    const int64_t size = tensors[tensor].NumElements();
    for (int64_t begin = 0; begin < size; begin += kNumbersPerBlock) {
      parts.push_back({tensor, begin, std::min(kNumbersPerBlock, size - begin)});
    }
  }
  return parts;
}

// Variables that one operation writes to, locked while it lives.
class LockedVariables {
 public:
  // Finds the variables of an input, which is a list. Nothing is locked yet.
  absl::Status Add(tensorflow::OpKernelContext* context, const char* input) {
    tensorflow::OpInputList handles;
    TF_RETURN_IF_ERROR(context->input_list(input, &handles));
    for (const tensorflow::Tensor& handle : handles) {
      if (handle.NumElements() != 1) {
        return absl::InvalidArgumentError(absl::StrCat(
            input, ": got handles of shape ", handle.shape().DebugString(), ", expected []."));
      }
      tensorflow::core::RefCountPtr<tensorflow::Var> variable;
      TF_RETURN_IF_ERROR(tensorflow::LookupResource(
          context, handle.flat<tensorflow::ResourceHandle>()(0), &variable));
      variables_.push_back(std::move(variable));
    }
    return absl::OkStatus();
  }

  // In the order of their addresses, as others that lock several variables do. Fails if one was
  // given twice: several threads would write to it.
  absl::Status Lock() {
    std::vector<Mutex*> mutexes;
    for (const auto& variable : variables_) mutexes.push_back(variable->mu());
    std::sort(mutexes.begin(), mutexes.end());
    if (std::adjacent_find(mutexes.begin(), mutexes.end()) != mutexes.end()) {
      return absl::InvalidArgumentError("Got a variable twice, expected each one once.");
    }
    for (Mutex* mutex : mutexes) locks_.emplace_back(*mutex);
    return absl::OkStatus();
  }

  // Returns the numbers of a variable of a shape, which nobody else reads.
  absl::Status Open(tensorflow::OpKernelContext* context, size_t index,
                    const tensorflow::TensorShape& shape, float** numbers) {
    tensorflow::Tensor* tensor = variables_[index]->tensor();
    if (tensor->dtype() != tensorflow::DT_FLOAT || tensor->shape() != shape) {
      return absl::InvalidArgumentError(absl::StrCat(
          "Got the variable ", variables_[index]->DebugString(),
          ", expected float32 of the gradient's shape, ", shape.DebugString(), "."));
    }
    if (!tensor->RefCountIsOne()) {  // Someone has read it and still needs what was there.
      tensorflow::Tensor copy;
      TF_RETURN_IF_ERROR(context->allocate_temp(tensorflow::DT_FLOAT, shape, &copy));
      std::copy_n(tensor->flat<float>().data(), tensor->NumElements(), copy.flat<float>().data());
      *tensor = copy;
    }
    *numbers = tensor->flat<float>().data();
    return absl::OkStatus();
  }

 private:
  using Mutex = std::remove_pointer_t<decltype(std::declval<tensorflow::Var>().mu())>;

  std::vector<tensorflow::core::RefCountPtr<tensorflow::Var>> variables_;
  std::vector<std::unique_lock<Mutex>> locks_;
};

class AdamOp : public tensorflow::OpKernel {
 public:
  explicit AdamOp(tensorflow::OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("decaying", &decaying_));
    OP_REQUIRES_OK(context, context->GetAttr("averaged", &averaged_));
    int num, num_averages;
    tensorflow::DataTypeVector dtypes;
    OP_REQUIRES_OK(context, context->GetAttr("num", &num));
    OP_REQUIRES_OK(context, context->GetAttr("num_averages", &num_averages));
    OP_REQUIRES_OK(context, context->GetAttr("dtypes", &dtypes));
    OP_REQUIRES(context, dtypes.size() == num && decaying_.size() == num,
                absl::InvalidArgumentError(absl::StrCat(
                    "gradients, decaying: got ", dtypes.size(), " and ", decaying_.size(),
                    ", expected one for each of ", num, " weights.")));
    std::vector<bool> has_average(num);
    for (const int64_t place : averaged_) {
      OP_REQUIRES(context, place >= 0 && place < num && !has_average[place],
                  absl::InvalidArgumentError(absl::StrCat(
                      "averaged: got ", place, ", expected indices of the weights, each once.")));
      has_average[place] = true;
    }
    OP_REQUIRES(context, averaged_.size() == num_averages,
                absl::InvalidArgumentError(absl::StrCat("averaged: got ", averaged_.size(),
                                                        ", expected an index for each of ",
                                                        num_averages, " averages.")));
  }

  void Compute(tensorflow::OpKernelContext* context) override {
    tensorflow::OpInputList gradients;
    OP_REQUIRES_OK(context, context->input_list("gradients", &gradients));
    const tensorflow::Tensor* given;
    OP_REQUIRES_OK(context, context->input("scalars", &given));
    const size_t num = gradients.size();
    OP_REQUIRES(context, given->NumElements() == 7,
                absl::InvalidArgumentError(absl::StrCat(
                    "scalars: got ", given->NumElements(), " numbers, expected 7.")));
    LockedVariables variables;
    for (const char* input : {"weights", "means", "squares", "averages"}) {
      OP_REQUIRES_OK(context, variables.Add(context, input));
    }
    OP_REQUIRES_OK(context, variables.Lock());

    std::vector<AdamBlock> whole(num);
    for (size_t i = 0; i < num; ++i) {
      const tensorflow::TensorShape& shape = gradients[i].shape();
      OP_REQUIRES_OK(context, variables.Open(context, i, shape, &whole[i].weight));
      OP_REQUIRES_OK(context, variables.Open(context, num + i, shape, &whole[i].mean));
      OP_REQUIRES_OK(context, variables.Open(context, 2 * num + i, shape, &whole[i].square));
      whole[i].average = nullptr;
      whole[i].is_decaying = decaying_[i];
    }
    for (size_t i = 0; i < averaged_.size(); ++i) {
      const int64_t place = averaged_[i];
      OP_REQUIRES_OK(context, variables.Open(context, 3 * num + i, gradients[place].shape(),
                                             &whole[place].average));
    }
    const float* numbers = Data<float>(*given);
    const AdamScalars scalars{numbers[0], numbers[1], numbers[2], numbers[3],
                              numbers[4], numbers[5], numbers[6]};
    const std::vector<Part> parts = SplitTensors(gradients);
    ForParts(context, parts, [&](int64_t, const Part& part) {
      Update(whole, gradients, part, scalars);
    });
  }

 private:
  static void Update(const std::vector<AdamBlock>& whole, const tensorflow::OpInputList& gradients,
                     const Part& part, const AdamScalars& scalars) {
    AdamBlock block = whole[part.tensor];
    block.weight += part.begin;
    block.mean += part.begin;
    block.square += part.begin;
    if (block.average != nullptr) block.average += part.begin;
    block.size = part.size;
    const tensorflow::Tensor& gradient = gradients[part.tensor];
    if (gradient.dtype() == tensorflow::DT_FLOAT) {
      QUINTAIN_DISPATCH(update_adam, block, Data<float>(gradient) + part.begin, scalars);
    } else {
      QUINTAIN_DISPATCH(update_adam, block, Data<Eigen::bfloat16>(gradient) + part.begin, scalars);
    }
  }

  std::vector<bool> decaying_;
  std::vector<int64_t> averaged_;
};

class HalfSquaresOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext* context) override {
    tensorflow::OpInputList tensors;
    OP_REQUIRES_OK(context, context->input_list("tensors", &tensors));
    const std::vector<Part> parts = SplitTensors(tensors);
    std::vector<double> sums(parts.size());
    ForParts(context, parts, [&](int64_t i, const Part& part) {
      sums[i] = Sum(tensors[part.tensor], part);
    });
    std::vector<double> totals(tensors.size(), 0.0);
    for (size_t i = 0; i < parts.size(); ++i) totals[parts[i].tensor] += sums[i];
    // In float for each tensor and for all: what overflows in TensorFlow does so here.
    float total = 0.0f;
    for (const double one : totals) total += static_cast<float>(one);
    tensorflow::Tensor* output = nullptr;
    OP_REQUIRES_OK(context, context->allocate_output(0, {}, &output));
    output->scalar<float>()() = total;
  }

 private:
  static double Sum(const tensorflow::Tensor& tensor, const Part& part) {
    if (tensor.dtype() == tensorflow::DT_FLOAT) {
      return QUINTAIN_DISPATCH(sum_half_squares, Data<float>(tensor) + part.begin, part.size);
    }
    return QUINTAIN_DISPATCH(sum_half_squares, Data<Eigen::bfloat16>(tensor) + part.begin,
                             part.size);
  }
};

REGISTER_KERNEL_BUILDER(Name("QuintainAdam").Device(tensorflow::DEVICE_CPU), AdamOp);
REGISTER_KERNEL_BUILDER(Name("QuintainHalfSquares").Device(tensorflow::DEVICE_CPU), HalfSquaresOp);

}  // namespace quintain

#endif  // QUINTAIN_KERNELS_ADAM_OP_H_
