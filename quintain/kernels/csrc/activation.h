// Activation and dropout after the first product of a feed-forward part; sums of columns.

#ifndef QUINTAIN_KERNELS_ACTIVATION_H_
#define QUINTAIN_KERNELS_ACTIVATION_H_

#include <stdint.h>

#include "bfloat16.h"
#include "dropout_draw.h"
#include "isa.h"

#define QUINTAIN_DECLARE_ACTIVATION(T)                                                            \
  QUINTAIN_EACH_ISA(                                                                              \
      /* outputs = max(inputs, 0), dropped out; both may be the same. */                          \
      void relu_dropout(const T* inputs, const DropoutDraw& draw, T* outputs, int64_t begin,      \
                        int64_t end);                                                             \
      /* Likewise for GELU, approximated by tanh, with what gradients are multiplied by. */       \
      void gelu_dropout(const T* inputs, const DropoutDraw& draw, T* outputs, T* slopes,          \
                        int64_t begin, int64_t end);                                              \
      /* Gradients of rows: upstream * scale where the output is positive; and adds their sums. */\
      void relu_gradient(const T* outputs, const T* upstream, float scale, T* gradient,           \
                         int64_t width, int64_t begin, int64_t end, float* sums);                 \
      /* Likewise upstream * slopes. */                                                           \
      void slope_gradient(const T* slopes, const T* upstream, T* gradient, int64_t width,         \
                          int64_t begin, int64_t end, float* sums);                               \
      void add_rows(const T* rows, int64_t width, int64_t begin, int64_t end, float* sums);)
QUINTAIN_DECLARE_ACTIVATION(float)
QUINTAIN_DECLARE_ACTIVATION(bf16)
#undef QUINTAIN_DECLARE_ACTIVATION

#endif  // QUINTAIN_KERNELS_ACTIVATION_H_
