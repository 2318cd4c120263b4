// Adam, decoupled weight decay and the moving average of the weights in one pass, and the squares of
// gradients for their norm.

#ifndef QUINTAIN_KERNELS_ADAM_H_
#define QUINTAIN_KERNELS_ADAM_H_

#include <stdint.h>

#include "bfloat16.h"
#include "isa.h"

namespace quintain {

// What all numbers share in one update; the operation takes it in this order.
struct AdamScalars {
  float rate;             // lr * sqrt(1 - beta_2^t) / (1 - beta_1^t)
  float one_less_beta_1;  // 1 - beta_1
  float one_less_beta_2;  // 1 - beta_2
  float epsilon;
  float scale;  // Of the gradient, from clipping.
  float decay;  // lr * weight decay.
  float kept;   // Part of the average that is kept.
};

// Weights that lie one after the other, with their slots.
struct AdamBlock {
  float* weight;
  float* mean;
  float* square;
  float* average;  // Null for weights without one.
  bool is_decaying;
  int64_t size;
};

}  // namespace quintain

// Updates a block, each operation rounded to float as TensorFlow's are:
//
//     g = scale * gradient
//     w -= w * decay                                   if it is decaying
//     m += (g - m) * (1 - beta_1)
//     v += (g * g - v) * (1 - beta_2)
//     w -= m * rate / (sqrt(v) + epsilon)
//     a = kept * a + (1 - kept) * w                    if there is an average
//
// `sum_half_squares` returns half the sum of the squares; like TensorFlow's it is inf where a square
// is too large for float.
QUINTAIN_EACH_ISA(
    void update_adam(const AdamBlock& block, const float* gradient, const AdamScalars& scalars);
    void update_adam(const AdamBlock& block, const bf16* gradient, const AdamScalars& scalars);
    double sum_half_squares(const float* numbers, int64_t size);
    double sum_half_squares(const bf16* numbers, int64_t size);)

#endif  // QUINTAIN_KERNELS_ADAM_H_
