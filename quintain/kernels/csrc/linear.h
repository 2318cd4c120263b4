// Products of rows with a matrix that was packed once, for decoding.
//
// A packed matrix has panels of 32 columns, which hold all inputs after each other: float32 one by
// one, bfloat16 in pairs, int8 in fours. The number of inputs is a multiple of 4. Each output is
// summed in the order of the inputs, whatever the number of rows, so that a row's result does not
// depend on the rows beside it.
#ifndef QUINTAIN_KERNELS_LINEAR_H_
#define QUINTAIN_KERNELS_LINEAR_H_

#include <cstdint>

#include "isa.h"
#include "panel.h"

namespace quintain {

enum class Precision : int32_t { kFloat32 = 0, kBfloat16 = 1, kInt8 = 2 };
enum class Activation : int32_t { kNone = 0, kRelu = 1, kSwiglu = 2 };

struct Matrix {
  Precision precision;
  int64_t inputs;
  int64_t outputs;
  const void* packed;
  const float* bias;     // One for each column of all panels.
  const float* scales;   // Of int8: what a column's numbers are multiplied by.
  const int32_t* sums;   // Of int8: 128 times the sum of a column.
};

}  // namespace quintain

// Writes activation(x * matrix + bias) for `rows` rows; kSwiglu, which halves rows, is not for it.
// `scratch` has room for rows * (inputs + 4) bytes in int8, twice that in bfloat16.
QUINTAIN_EACH_ISA(void multiply(const Matrix& matrix, const float* x, int64_t rows,
                                Activation activation, float* y, int64_t y_stride, void* scratch);)

#endif  // QUINTAIN_KERNELS_LINEAR_H_
