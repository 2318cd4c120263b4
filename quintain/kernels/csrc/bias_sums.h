// The gradient of a bias of attention: that of scores, summed over what the bias broadcasts to.

#ifndef QUINTAIN_KERNELS_BIAS_SUMS_H_
#define QUINTAIN_KERNELS_BIAS_SUMS_H_

#include <algorithm>
#include <cstdint>

#include "bias_heads.h"
#include "block_sums.h"
#include "threads.h"

namespace quintain {

// Work is shared by heads of the bias. Where these are few, what adds to one of them is split, by
// shapes alone, into parts that are added up in their order, so that threads change no bit.
class BiasSums {
 public:
  // Args:
  //   num_units: Heads of all examples.
  //   num_heads: Heads of one.
  //   cost: About the nanoseconds of a head of an example.
  BiasSums(int64_t num_units, int64_t num_heads, int64_t cost)
      : num_units_(num_units), num_heads_(num_heads), cost_(cost) {}

  // Calls `add(heads, sums)` for parts of the work, and writes the first output, shaped as a bias that
  // has been found to broadcast. `add` returns whether there was memory.
  template <typename T, typename Add>
  absl::Status Compute(tensorflow::OpKernelContext* context, const tensorflow::Tensor& bias,
                       Add add) const {
    tensorflow::Tensor* gradient = nullptr;
    TF_RETURN_IF_ERROR(context->allocate_output(0, bias.shape(), &gradient));
    const int64_t size = bias.NumElements();
    if (size == 0) return absl::OkStatus();
    const int64_t own_heads = bias.dim_size(1), num_slots = bias.dim_size(0) * own_heads;
    const int64_t adding = num_units_ / num_slots;  // heads that a head of the bias is added to
    const int64_t step = own_heads == 1 ? 1 : num_heads_;
    const int64_t wanted = (kUnits + num_slots - 1) / num_slots;
    const int64_t num_parts = std::max<int64_t>(1, std::min(adding, wanted));
    BlockSums sums;
    TF_RETURN_IF_ERROR(sums.Allocate(context, num_parts, size));
    const auto add_part = [&](int64_t unit) {
      const int64_t slot = unit / num_parts, part = unit % num_parts;
      const int64_t first = slot / own_heads * num_heads_ + slot % own_heads;
      const int64_t begin = adding * part / num_parts, end = adding * (part + 1) / num_parts;
      if (begin == end) return true;
      return add(BiasHeads{first + begin * step, step, end - begin},
                 sums.block(part) + slot * (size / num_slots));
    };
    TF_RETURN_IF_ERROR(ForRowsWithScratch(
        context, num_slots * num_parts, cost_ * (adding / num_parts), [&](int64_t begin, int64_t end) {
          while (begin < end && add_part(begin)) ++begin;
          return begin == end;
        }));
    auto* results = static_cast<T*>(gradient->data());
    sums.AddUp([=](int64_t i, float sum) { results[i] = static_cast<T>(sum); });
    return absl::OkStatus();
  }

 private:
  static constexpr int64_t kUnits = 16;  // parts of the work, at least

  int64_t num_units_, num_heads_, cost_;
};

}  // namespace quintain

#endif  // QUINTAIN_KERNELS_BIAS_SUMS_H_
