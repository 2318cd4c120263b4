// Whose scores a bias of attention is added to.

#ifndef QUINTAIN_KERNELS_BIAS_HEADS_H_
#define QUINTAIN_KERNELS_BIAS_HEADS_H_

#include <stdint.h>

namespace quintain {

// Heads, counted through all examples, that one head of a bias is added to, or a part of them.
struct BiasHeads {
  int64_t first;
  int64_t step;  // to the next
  int64_t count;
};

}  // namespace quintain

#endif  // QUINTAIN_KERNELS_BIAS_HEADS_H_
