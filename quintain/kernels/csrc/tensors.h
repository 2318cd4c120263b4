// Tensors as the kernels take them.

#ifndef QUINTAIN_KERNELS_TENSORS_H_
#define QUINTAIN_KERNELS_TENSORS_H_

#include "bfloat16.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace quintain {

// The type of the kernels' numbers for one of TensorFlow's: `Eigen::bfloat16` is `bf16`.
template <typename T>
struct PlainType {
  using type = T;
};

template <>
struct PlainType<Eigen::bfloat16> {
  using type = bf16;
};

// The numbers of a tensor of any shape. Unlike `flat`, it does not end the process where they start
// between the boundaries of vectors, as tensors that share the memory of another library may.
template <typename T>
const typename PlainType<T>::type* Data(const tensorflow::Tensor& tensor) {
  return static_cast<const typename PlainType<T>::type*>(tensor.data());
}

template <typename T>
typename PlainType<T>::type* MutableData(tensorflow::Tensor* tensor) {
  return static_cast<typename PlainType<T>::type*>(tensor->data());
}

}  // namespace quintain

#endif  // QUINTAIN_KERNELS_TENSORS_H_
