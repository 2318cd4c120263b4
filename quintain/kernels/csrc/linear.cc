#include "linear.h"

#include <immintrin.h>

namespace quintain {
namespace QUINTAIN_ISA {

namespace {

#ifdef __AVX512F__
typedef __m512 Floats;
typedef __m512i Integers;
constexpr int kTileRows = 12;
inline Floats load(const float* p) { return _mm512_loadu_ps(p); }
inline Integers load_bits(const void* p) { return _mm512_loadu_si512(p); }
inline void store(float* p, Floats x) { _mm512_storeu_ps(p, x); }
inline void store(int32_t* p, Integers x) { _mm512_storeu_si512(p, x); }
inline Floats fill(float x) { return _mm512_set1_ps(x); }
inline Integers fill_bits(int32_t x) { return _mm512_set1_epi32(x); }
inline Floats multiply_add(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
inline Floats to_floats(Integers x) { return _mm512_castsi512_ps(x); }
inline Integers shift_up(Integers x) { return _mm512_slli_epi32(x, 16); }
inline Integers keep_high(Integers x) {
  return _mm512_and_si512(x, _mm512_set1_epi32(static_cast<int32_t>(0xffff0000)));
}
#else
typedef __m256 Floats;
typedef __m256i Integers;
constexpr int kTileRows = 3;
inline Floats load(const float* p) { return _mm256_loadu_ps(p); }
inline Integers load_bits(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
inline void store(float* p, Floats x) { _mm256_storeu_ps(p, x); }
inline void store(int32_t* p, Integers x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x);
}
inline Floats fill(float x) { return _mm256_set1_ps(x); }
inline Integers fill_bits(int32_t x) { return _mm256_set1_epi32(x); }
inline Floats multiply_add(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
inline Floats to_floats(Integers x) { return _mm256_castsi256_ps(x); }
inline Integers shift_up(Integers x) { return _mm256_slli_epi32(x, 16); }
inline Integers keep_high(Integers x) {
  return _mm256_and_si256(x, _mm256_set1_epi32(static_cast<int32_t>(0xffff0000)));
}
#endif

constexpr int kLanes = sizeof(Floats) / 4;
constexpr int kVectors = kPanel / kLanes;

inline int32_t load_word(const void* p) {
  int32_t word;
  __builtin_memcpy(&word, p, 4);
  return word;
}

// Adds the products of two bfloat16 numbers in each lane.
inline Floats add_pairs(Floats sum, Integers a, Integers b) {
#ifdef __AVX512BF16__
  return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
#else
  sum = multiply_add(to_floats(shift_up(a)), to_floats(shift_up(b)), sum);
  return multiply_add(to_floats(keep_high(a)), to_floats(keep_high(b)), sum);
#endif
}

// Adds the products of four numbers in each lane: `a` unsigned, `b` signed. Never saturates.
inline Integers add_fours(Integers sum, Integers a, Integers b) {
#if defined(__AVX512VNNI__)
  return _mm512_dpbusd_epi32(sum, a, b);
#elif defined(__AVX512BW__)
  const Integers even = _mm512_srai_epi16(_mm512_slli_epi16(b, 8), 8);
  const Integers low = _mm512_and_si512(a, _mm512_set1_epi16(255));
  sum = _mm512_add_epi32(sum, _mm512_madd_epi16(low, even));
  const Integers high = _mm512_srli_epi16(a, 8);
  return _mm512_add_epi32(sum, _mm512_madd_epi16(high, _mm512_srai_epi16(b, 8)));
#else
  const Integers even = _mm256_srai_epi16(_mm256_slli_epi16(b, 8), 8);
  const Integers low = _mm256_and_si256(a, _mm256_set1_epi16(255));
  sum = _mm256_add_epi32(sum, _mm256_madd_epi16(low, even));
  const Integers high = _mm256_srli_epi16(a, 8);
  return _mm256_add_epi32(sum, _mm256_madd_epi16(high, _mm256_srai_epi16(b, 8)));
#endif
}

// The three kinds of numbers. A panel's weights of `kStep` inputs fill kPanel words of 32 bits, and as
// many inputs of a row fill one, which `spread` puts into every lane.
struct Float32 {
  typedef float Input;
  typedef Floats Sums;
  static constexpr int kStep = 1;
  static inline Floats weights(const int32_t* p) { return load(reinterpret_cast<const float*>(p)); }
  static inline Floats spread(const float* x) { return fill(*x); }
  static inline Floats add(Floats sums, Floats a, Floats b) { return multiply_add(a, b, sums); }
};

struct Bfloat16 {
  typedef uint16_t Input;
  typedef Floats Sums;
  static constexpr int kStep = 2;
  static inline Integers weights(const int32_t* p) { return load_bits(p); }
  static inline Integers spread(const uint16_t* x) { return fill_bits(load_word(x)); }
  static inline Floats add(Floats sums, Integers a, Integers b) { return add_pairs(sums, a, b); }
};

struct Int8 {
  typedef uint8_t Input;
  typedef Integers Sums;
  static constexpr int kStep = 4;
  static inline Integers weights(const int32_t* p) { return load_bits(p); }
  static inline Integers spread(const uint8_t* x) { return fill_bits(load_word(x)); }
  static inline Integers add(Integers sums, Integers a, Integers b) { return add_fours(sums, a, b); }
};

// Multiplies R rows of inputs by one panel.
template <class Kind, int R, class Sum>
inline void multiply_tile(const typename Kind::Input* x, int64_t stride, const void* panel,
                          int64_t inputs, Sum (*out)[kPanel]) {
  const int32_t* w = static_cast<const int32_t*>(panel);
  typename Kind::Sums sums[R][kVectors];
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sums[r][v] = typename Kind::Sums{};
  }
  for (int64_t k = 0; k < inputs; k += Kind::kStep, w += kPanel) {
    decltype(Kind::weights(w)) b[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) b[v] = Kind::weights(w + v * kLanes);
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      const auto a = Kind::spread(x + r * stride + k);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[r][v] = Kind::add(sums[r][v], a, b[v]);
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) store(out[r] + v * kLanes, sums[r][v]);
  }
}

// Calls the tile of so many rows; fewer than a whole tile at the end.
template <class Kind, int R, class Sum>
inline void run_tile(int rows, const typename Kind::Input* x, int64_t stride, const void* panel,
                     int64_t inputs, Sum (*out)[kPanel]) {
  if constexpr (R > 0) {
    if (rows == R) {
      multiply_tile<Kind, R>(x, stride, panel, inputs, out);
    } else {
      run_tile<Kind, R - 1>(rows, x, stride, panel, inputs, out);
    }
  }
}

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
      run_tile<Kind, kTileRows>(count, x + row * inputs, inputs, panel, inputs, sums);
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
