// Dropout, and what its result is added to.

#ifndef QUINTAIN_KERNELS_DROPOUT_H_
#define QUINTAIN_KERNELS_DROPOUT_H_

#include <stdint.h>

#include "bfloat16.h"
#include "dropout_draw.h"
#include "isa.h"

// outputs = residual + inputs * factors; the residual may be null.
#define QUINTAIN_DECLARE_DROPOUT(From, To)                                                        \
  QUINTAIN_EACH_ISA(void dropout(const From* inputs, const To* residual,                          \
                                 const DropoutDraw& draw, To* outputs, int64_t begin,             \
                                 int64_t end);)
QUINTAIN_DECLARE_DROPOUT(float, float)
QUINTAIN_DECLARE_DROPOUT(float, bf16)
QUINTAIN_DECLARE_DROPOUT(bf16, float)
QUINTAIN_DECLARE_DROPOUT(bf16, bf16)
#undef QUINTAIN_DECLARE_DROPOUT

#endif  // QUINTAIN_KERNELS_DROPOUT_H_
