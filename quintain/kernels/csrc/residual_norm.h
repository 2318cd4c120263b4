// Dropout, what it is added to, and the layer normalisation of the sum.

#ifndef QUINTAIN_KERNELS_RESIDUAL_NORM_H_
#define QUINTAIN_KERNELS_RESIDUAL_NORM_H_

#include <stdint.h>

#include "bfloat16.h"
#include "dropout_draw.h"
#include "isa.h"

namespace quintain {

// Rows of `width` numbers: total = residual + dropout(inputs), outputs = norm(total) * gamma + beta.
template <typename Total, typename Input, typename Output>
struct ResidualNorm {
  int64_t width;
  float epsilon;
  DropoutDraw draw;
  const Total* residual;  // null for none
  const Input* inputs;
  const float* gamma;
  const float* beta;
  Total* total;  // null where it is `inputs`
  Output* outputs;  // null for no normalisation
  float* means;  // one for each row
  float* scales;  // by which rows are multiplied
};

template <typename Total, typename Input, typename Output>
struct ResidualNormGradient {
  int64_t width;
  DropoutDraw draw;
  const Total* total;
  const float* means;
  const float* scales;
  const float* gamma;
  const Total* total_upstream;  // null for none
  const Output* upstream;
  Total* residual_gradient;  // null where nobody asks
  Input* inputs_gradient;
};

// Types of total, inputs and outputs.
#define QUINTAIN_EACH_NORM(DO) \
  DO(float, float, float)      \
  DO(float, float, bf16)       \
  DO(float, bf16, float)       \
  DO(float, bf16, bf16)        \
  DO(bf16, bf16, float)        \
  DO(bf16, bf16, bf16)

}  // namespace quintain

// Each returns whether there was memory for what it works with; nothing is computed else. The gradients
// of gamma and beta are added to what is there.
#define QUINTAIN_DECLARE_NORM(T, I, O)                                                            \
  QUINTAIN_EACH_ISA(bool residual_norm(const ResidualNorm<T, I, O>& given, int64_t begin,         \
                                       int64_t end);                                              \
                    bool residual_norm_gradient(const ResidualNormGradient<T, I, O>& given,       \
                                                int64_t begin, int64_t end,                       \
                                                float* gamma_gradient, float* beta_gradient);)
QUINTAIN_EACH_NORM(QUINTAIN_DECLARE_NORM)
#undef QUINTAIN_DECLARE_NORM

#endif  // QUINTAIN_KERNELS_RESIDUAL_NORM_H_
