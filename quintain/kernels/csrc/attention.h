// Attention of all heads, from projections to mixed values, and its gradient.
//
// A unit of work is one head of one example. Scores are held for a block of queries at a time and
// computed again on the way back, so that memory grows with the number of keys, not with its square.
// What is added up over queries is added in their order by one thread.

#ifndef QUINTAIN_KERNELS_ATTENTION_H_
#define QUINTAIN_KERNELS_ATTENTION_H_

#include <stdint.h>

#include "bfloat16.h"
#include "bias_heads.h"
#include "dropout_draw.h"
#include "isa.h"

namespace quintain {

// Queries, keys and values lie as projections give them: heads side by side in a row for each
// position. Outputs and their gradient have `num_heads * size` numbers a row.
struct Attention {
  int64_t num_heads;
  int64_t num_queries;
  int64_t num_keys;
  int64_t size;         // numbers of a head
  int64_t query_step;   // from one query to the next, in numbers
  int64_t memory_step;  // from one key, or value, to the next
  float scale;          // multiplies scores
  // What to go on by in the bias from one example, head, query and key to the next; 0 where the
  // bias is the same for all.
  int64_t bias_steps[4];
  DropoutDraw draw;
};

// What is attended with; gradients lie likewise.
template <typename T>
struct Attended {
  T* queries;
  T* keys;
  T* values;
};

}  // namespace quintain

#define QUINTAIN_DECLARE_ATTEND(T)                                                                \
  QUINTAIN_EACH_ISA(                                                                              \
      /* mixed = dropout(softmax(queries * keys * scale + bias)) * values, for the heads of       \
         examples from `begin` to `end`. A bias may be null. Returns whether there was memory     \
         for what it works with; nothing is computed else. */                                     \
      bool attend(const Attended<const T>& from, const T* bias, const Attention& given, T* mixed, \
                  int64_t begin, int64_t end);                                                    \
      /* The gradients of all three from that of `mixed`; likewise. */                            \
      bool attend_gradient(const Attended<const T>& from, const T* bias, const T* upstream,       \
                           const Attention& given, const Attended<T>& gradient, int64_t begin,    \
                           int64_t end);                                                          \
      /* Adds the gradient of a head of the bias, from what these heads mixed, to sums that lie   \
         as the bias does; likewise. */                                                           \
      bool attend_bias_gradient(const Attended<const T>& from, const T* bias, const T* upstream,  \
                                const Attention& given, BiasHeads heads, float* sums);)
QUINTAIN_DECLARE_ATTEND(float)
QUINTAIN_DECLARE_ATTEND(bf16)
#undef QUINTAIN_DECLARE_ATTEND

#endif  // QUINTAIN_KERNELS_ATTENTION_H_
