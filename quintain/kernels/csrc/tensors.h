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

template <typename T>
const typename PlainType<T>::type* Data(const tensorflow::Tensor& tensor) {
  return reinterpret_cast<const typename PlainType<T>::type*>(tensor.flat<T>().data());
}

template <typename T>
typename PlainType<T>::type* MutableData(tensorflow::Tensor* tensor) {
  return reinterpret_cast<typename PlainType<T>::type*>(tensor->flat<T>().data());
}

}  // namespace quintain

#endif  // QUINTAIN_KERNELS_TENSORS_H_
