// What the cross entropy of softmax needs to know of rows of logits, and its gradient.

#ifndef QUINTAIN_KERNELS_CROSS_ENTROPY_H_
#define QUINTAIN_KERNELS_CROSS_ENTROPY_H_

#include <stdint.h>

#include "bfloat16.h"
#include "isa.h"

namespace quintain {

// One number a row each.
struct LogitStatistics {
  float* maximum;      // Of the logits that are not NaN; -infinity where all are.
  float* exp_sum;      // Sum of `exp(logit - maximum)`.
  float* logit_sum;    // Of all logits.
  float* label_logit;  // Of the label; NaN where that is no class.
  float* is_right;     // 1 where the label's logit is the first of the largest, else 0; of no NaN.
};

// The gradient of a row is `(softmax - target) * upstream`.
struct CrossEntropyGradient {
  const float* maximum;
  const float* exp_sum;
  const float* upstream;
  float on;   // Target of the label.
  float off;  // Target of the others.
};

}  // namespace quintain

// Rows `[begin, end)` of `[N, num_classes]`. The gradient needs labels in `[0, num_classes)`;
// `gradient` may be `logits`.
QUINTAIN_EACH_ISA(
    void measure_logits(const float* logits, const int32_t* labels, LogitStatistics statistics,
                        int64_t num_classes, int64_t begin, int64_t end);
    void measure_logits(const bf16* logits, const int32_t* labels, LogitStatistics statistics,
                        int64_t num_classes, int64_t begin, int64_t end);
    void cross_entropy_gradient(const float* logits, const int32_t* labels,
                                CrossEntropyGradient given, float* gradient, int64_t num_classes,
                                int64_t begin, int64_t end);
    void cross_entropy_gradient(const bf16* logits, const int32_t* labels,
                                CrossEntropyGradient given, bf16* gradient, int64_t num_classes,
                                int64_t begin, int64_t end);)

#endif  // QUINTAIN_KERNELS_CROSS_ENTROPY_H_
