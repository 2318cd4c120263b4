// The gradient of a table of embeddings that is multiplied as a whole and looked up as well.

#ifndef QUINTAIN_KERNELS_TABLE_GRADIENT_H_
#define QUINTAIN_KERNELS_TABLE_GRADIENT_H_

#include <stdint.h>

#include "bfloat16.h"
#include "isa.h"

namespace quintain {

// Gradients of what was looked up, sorted by the table's rows.
struct LookedUp {
  const float* gradients;  // `[N, width]`
  const int64_t* order;    // numbers of the gradients, those of the table's first row first
  const int64_t* starts;   // where those of each row of the table start in `order`, and the end
};

}  // namespace quintain

// Rows `[begin, end)` of the table: `total = dense + sum of what was looked up`, whose gradients
// are added up in their order first. `total` may be `dense`.
QUINTAIN_EACH_ISA(
    void table_gradient(const float* dense, LookedUp looked_up, float* total, int64_t width,
                        int64_t begin, int64_t end);
    void table_gradient(const bf16* dense, LookedUp looked_up, float* total, int64_t width,
                        int64_t begin, int64_t end);)

#endif  // QUINTAIN_KERNELS_TABLE_GRADIENT_H_
