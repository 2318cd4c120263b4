// Sums of rows, the same for every number of threads.

#ifndef QUINTAIN_KERNELS_BLOCK_SUMS_H_
#define QUINTAIN_KERNELS_BLOCK_SUMS_H_

#include <algorithm>
#include <cstdint>

#include "tensors.h"

namespace quintain {

constexpr int64_t kBlockRows = 64;  // rows that are summed first

inline int64_t CountBlocks(int64_t num_rows) { return (num_rows + kBlockRows - 1) / kBlockRows; }

// Sums of blocks, such as those of rows, added up in the order of the blocks.
class BlockSums {
 public:
  absl::Status Allocate(tensorflow::OpKernelContext* context, int64_t num_blocks, int64_t width) {
    width_ = width;
    size_ = num_blocks * width;
    TF_RETURN_IF_ERROR(context->allocate_temp(tensorflow::DT_FLOAT, {size_}, &tensor_));
    sums_ = MutableData<float>(&tensor_);
    std::fill_n(sums_, size_, 0.0f);
    return absl::OkStatus();
  }

  float* block(int64_t number) { return sums_ + number * width_; }

  // Writes the total, with `store(number, sum)`.
  template <typename Store>
  void AddUp(Store store) const {
    for (int64_t begin = 0; begin < width_; begin += kChunk) {
      const int64_t count = std::min(kChunk, width_ - begin);
      float totals[kChunk] = {};
      for (int64_t start = begin; start < size_; start += width_) {
        for (int64_t i = 0; i < count; ++i) totals[i] += sums_[start + i];
      }
      for (int64_t i = 0; i < count; ++i) store(begin + i, totals[i]);
    }
  }

 private:
  static constexpr int64_t kChunk = 512;  // numbers that are summed at a time

  int64_t width_ = 0, size_ = 0;
  float* sums_ = nullptr;
  tensorflow::Tensor tensor_;
};

}  // namespace quintain

#endif  // QUINTAIN_KERNELS_BLOCK_SUMS_H_
