// Scores of attention to weights, some of them dropped.

#ifndef QUINTAIN_KERNELS_ATTENTION_WEIGHTS_H_
#define QUINTAIN_KERNELS_ATTENTION_WEIGHTS_H_

#include <stdint.h>

#include "bfloat16.h"
#include "bias_heads.h"
#include "dropout_draw.h"
#include "isa.h"

namespace quintain {

// Rows of `num_keys` scores, for every query of every head of every example.
struct AttentionRows {
  int64_t num_heads;
  int64_t num_queries;
  int64_t num_keys;
  float scale;  // multiplies scores
  // What to go on by in the bias from one example, head, query and key to the next; 0 where the
  // bias is the same for all.
  int64_t bias_steps[4];
  DropoutDraw draw;
};

}  // namespace quintain

#define QUINTAIN_DECLARE_ATTENTION(T)                                                             \
  QUINTAIN_EACH_ISA(                                                                              \
      /* weights = softmax(scores * scale + bias); dropped = weights, dropped out. A bias may be  \
         null; `dropped` is null where nothing is, and `weights` may be the scores. Returns       \
         whether there was memory for what it works with; nothing is computed else. */            \
      bool attention_weights(const T* scores, const T* bias, const AttentionRows& given,          \
                             T* weights, T* dropped, int64_t begin, int64_t end);                 \
      /* The gradient of scores from that of the dropped weights; both may be the same. */        \
      bool attention_weights_gradient(const T* weights, const T* upstream,                        \
                                      const AttentionRows& given, T* gradient, int64_t begin,     \
                                      int64_t end);                                               \
      /* Adds the gradient of a head of the bias, from that of the dropped weights of heads, to   \
         sums that lie as the bias does. */                                                       \
      bool attention_weights_bias_gradient(const T* weights, const T* upstream,                   \
                                           const AttentionRows& given, BiasHeads heads,           \
                                           float* sums);)
QUINTAIN_DECLARE_ATTENTION(float)
QUINTAIN_DECLARE_ATTENTION(bf16)
#undef QUINTAIN_DECLARE_ATTENTION

#endif  // QUINTAIN_KERNELS_ATTENTION_WEIGHTS_H_
