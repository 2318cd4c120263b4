#include "linear.h"

#include "tiles.h"

namespace quintain {
namespace QUINTAIN_ISA {

namespace {

inline void finish(float* y, const float* bias, int64_t columns, Activation activation) {
  if (activation == Activation::kRelu) {
    for (int64_t c = 0; c < columns; ++c) {
      const float x = y[c] + bias[c];
      y[c] = x < 0.0f ? 0.0f : x;  // NaN stays.
    }
  } else {
    for (int64_t c = 0; c < columns; ++c) y[c] += bias[c];
  }
}

template <class Kind, class Sum, int64_t kPanelBytes>
void multiply_kind(const Matrix& matrix, const typename Kind::Input* x, const float* row_scales,
                   int64_t rows, Activation activation, float* y, int64_t y_stride) {
  alignas(64) Sum sums[kTileRows][kPanel];
  alignas(64) float values[kPanel];
  const int64_t inputs = matrix.inputs;
  for (int64_t column = 0; column < matrix.outputs; column += kPanel) {
    const char* panel = static_cast<const char*>(matrix.packed) + column * inputs * kPanelBytes;
    const int64_t columns =
        matrix.outputs - column < kPanel ? matrix.outputs - column : kPanel;
    for (int64_t row = 0; row < rows; row += kTileRows) {
      const int count = static_cast<int>(rows - row < kTileRows ? rows - row : kTileRows);
      run_tile<Kind, kTileRows>(count, x + row * inputs, {inputs, Kind::kStep}, panel, inputs, sums);
      for (int r = 0; r < count; ++r) {
        if constexpr (sizeof(typename Kind::Input) == 1) {
          const float scale = row_scales[row + r];
          for (int64_t c = 0; c < kPanel; ++c) {
            const float sum = static_cast<float>(sums[r][c] - matrix.sums[column + c]);
            values[c] = sum * (scale * matrix.scales[column + c]);
          }
        } else {
          for (int64_t c = 0; c < kPanel; ++c) values[c] = sums[r][c];
        }
        finish(values, matrix.bias + column, kPanel, activation);
        __builtin_memcpy(y + (row + r) * y_stride + column, values, columns * 4);
      }
    }
  }
}

void to_bfloat16(const float* x, int64_t count, uint16_t* y) {
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits;
    __builtin_memcpy(&bits, x + i, 4);
    const uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    y[i] = static_cast<uint16_t>((bits & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : rounded);
  }
}

// Writes numbers from 1 to 255, 128 being 0. A row with NaN or infinity gets a scale of NaN.
float quantize(const float* x, int64_t count, uint8_t* y) {
  uint32_t most_bits = 0;
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits;
    __builtin_memcpy(&bits, x + i, 4);
    bits &= 0x7fffffff;
    most_bits = bits > most_bits ? bits : most_bits;
  }
  float most;
  __builtin_memcpy(&most, &most_bits, 4);
  if (most_bits >= 0x7f800000) {
    __builtin_memset(y, 128, count);
    return __builtin_nanf("");
  }
  const float inverse = most > 1e-30f ? 127.0f / most : 0.0f;
  constexpr float kRound = 12582912.0f;  // 1.5 * 2 ** 23: adding it rounds to the nearest integer.
  for (int64_t i = 0; i < count; ++i) {
    const float shifted = x[i] * inverse + kRound;
    uint32_t bits;
    __builtin_memcpy(&bits, &shifted, 4);
    y[i] = static_cast<uint8_t>((bits & 255) ^ 128);
  }
  return most / 127.0f;
}

}  // namespace

void multiply(const Matrix& matrix, const float* x, int64_t rows, Activation activation, float* y,
              int64_t y_stride, void* scratch) {
  const int64_t inputs = matrix.inputs;
  if (matrix.precision == Precision::kFloat32) {
    multiply_kind<Float32, float, 4>(matrix, x, nullptr, rows, activation, y, y_stride);
  } else if (matrix.precision == Precision::kBfloat16) {
    uint16_t* halves = static_cast<uint16_t*>(scratch);
    to_bfloat16(x, rows * inputs, halves);
    multiply_kind<Bfloat16, float, 2>(matrix, halves, nullptr, rows, activation, y, y_stride);
  } else {
    float* scales = static_cast<float*>(scratch);
    uint8_t* bytes = static_cast<uint8_t*>(scratch) + rows * 4;
    for (int64_t row = 0; row < rows; ++row) {
      scales[row] = quantize(x + row * inputs, inputs, bytes + row * inputs);
    }
    multiply_kind<Int8, int32_t, 1>(matrix, bytes, scales, rows, activation, y, y_stride);
  }
}

}  // namespace QUINTAIN_ISA
}  // namespace quintain
