// Matrices of a few rows as products of panels take them, and give them.
//
// A strip holds float32 sums, 32 columns after each other: panel by panel, and in each all rows.

#ifndef QUINTAIN_KERNELS_STRIPS_H_
#define QUINTAIN_KERNELS_STRIPS_H_

#include <string.h>

#include "bfloat16.h"
#include "scratch.h"
#include "tiles.h"
#include "transpose.h"

namespace quintain {
namespace QUINTAIN_ISA {
namespace {

// How numbers of a type are multiplied.
template <typename T>
struct Multiplied {
  typedef Float32 Kind;
};
template <>
struct Multiplied<bf16> {
  typedef Bfloat16 Kind;
};
template <typename T>
using Input = typename Multiplied<T>::Kind::Input;

template <typename T>
constexpr int kStep = Multiplied<T>::Kind::kStep;

inline int64_t count_panels(int64_t columns) { return (columns + kPanel - 1) / kPanel; }
inline int64_t widen(int64_t columns) { return count_panels(columns) * kPanel; }

// Returns as many inputs as products take at a time.
template <typename T>
inline int64_t fill_up(int64_t inputs) {
  return (inputs + kStep<T> - 1) / kStep<T> * kStep<T>;
}

// Returns the sum of a panel's width of numbers.
inline float add_up(const float* x) {
#ifdef __AVX512F__
  return _mm512_reduce_add_ps(_mm512_add_ps(load(x), load(x + kLanes)));
#else
  float sums[kPanel];
  memcpy(sums, x, sizeof(sums));
  for (int half = kPanel / 2; half > 0; half /= 2) {
    for (int c = 0; c < half; ++c) sums[c] += sums[c + half];
  }
  return sums[0];
#endif
}

// Returns the largest of a panel's width of numbers, none of which is NaN.
inline float find_top(const float* x) {
#ifdef __AVX512F__
  return _mm512_reduce_max_ps(_mm512_max_ps(load(x), load(x + kLanes)));
#else
  float top = x[0];
  for (int c = 1; c < kPanel; ++c) top = x[c] > top ? x[c] : top;
  return top;
#endif
}

// Rounds a panel's width of numbers.
inline void round_panel(const float* x, float* y) { memcpy(y, x, kPanel * sizeof(float)); }

inline void round_panel(const float* x, uint16_t* y) {
#ifdef __AVX512BF16__
  for (int i = 0; i < kPanel; i += 16) {
    const __m256i rounded = (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(x + i));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + i), rounded);
  }
#else
#pragma GCC ivdep
  for (int i = 0; i < kPanel; ++i) y[i] = to_bf16(x[i]).bits;
#endif
}

// Rows of whole inputs.
template <typename T>
struct Rows {
  const Input<T>* start;
  Steps steps;
};

// Returns rows, `step` numbers apart; copied where the inputs end within a pair.
template <typename T>
Rows<T> take_rows(const T* x, int64_t step, int64_t rows, int64_t inputs, Input<T>* copied) {
  const int64_t width = fill_up<T>(inputs);
  if (width == inputs) return {reinterpret_cast<const Input<T>*>(x), {step, kStep<T>}};
  for (int64_t r = 0; r < rows; ++r) {
    copied[r * width + inputs] = 0;
    memcpy(copied + r * width, x + r * step, inputs * sizeof(T));
  }
  return {copied, {width, kStep<T>}};
}

// Puts two rows of pairs, or one of float32, side by side as products take them.
inline void interleave(const uint16_t* first, const uint16_t* second, int64_t columns,
                       uint16_t* out) {
  uint32_t* words = reinterpret_cast<uint32_t*>(out);
#pragma GCC ivdep
  for (int64_t c = 0; c < columns; ++c) {
    words[c] = first[c] | static_cast<uint32_t>(second[c]) << 16;
  }
}

inline void interleave(const float* first, const float*, int64_t columns, float* out) {
  memcpy(out, first, columns * sizeof(float));
}

// Packs a matrix whose rows, `step` numbers apart, are inputs.
template <typename T>
void pack_inputs(const T* x, int64_t step, int64_t inputs, int64_t columns, Input<T>* out) {
  typedef Input<T> N;
  constexpr int kRows = kStep<T>;
  for (int64_t start = 0; start < columns; start += kPanel) {
    const int64_t left = columns - start, count = left < kPanel ? left : kPanel;
    for (int64_t k = 0; k < inputs; k += kRows, out += kRows * kPanel) {
      N buffers[2][kPanel];
      const N* rows[2];
      for (int r = 0; r < kRows; ++r) {
        const bool is_there = k + r < inputs;
        const T* row = x + (k + r) * step + start;
        rows[r] = reinterpret_cast<const N*>(row);
        if (is_there && count == kPanel) continue;
        memset(buffers[r], 0, sizeof(buffers[r]));
        if (is_there) memcpy(buffers[r], row, count * sizeof(T));
        rows[r] = buffers[r];
      }
      interleave(rows[0], rows[kRows - 1], kPanel, out);
    }
  }
}

// Writes rows of at most 16 words, `step` bytes apart, as columns, `out_step` words apart; zeros for
// those that are missing.
inline void turn(const char* x, int64_t step, int64_t rows, int64_t bytes, uint32_t* out,
                 int64_t out_step = kPanel) {
#ifdef __AVX512F__
  const __mmask64 wanted = bytes < 64 ? (uint64_t{1} << bytes) - 1 : ~uint64_t{0};
  __m512i words[16];
#pragma GCC unroll 16
  for (int64_t i = 0; i < 16; ++i) {
    words[i] = i < rows ? _mm512_maskz_loadu_epi8(wanted, x + i * step) : _mm512_setzero_si512();
  }
#else
  uint32_t words[16][16] = {};
  for (int64_t i = 0; i < rows && i < 16; ++i) memcpy(words[i], x + i * step, bytes);
#endif
  transpose(words, out, out_step);
}

// Packs a matrix whose rows, `step` numbers apart, are columns of the product.
template <typename T>
void pack_columns(const T* x, int64_t step, int64_t columns, int64_t inputs, Input<T>* out) {
  constexpr int64_t kChunk = 16 * kStep<T>;  // inputs that fill 16 words
  alignas(64) uint32_t turned[16][kPanel];
  const int64_t num_words = fill_up<T>(inputs) / kStep<T>;
  uint32_t* panel = reinterpret_cast<uint32_t*>(out);
  for (int64_t start = 0; start < columns; start += kPanel, panel += num_words * kPanel) {
    for (int64_t k = 0; k < inputs; k += kChunk) {
      const int64_t taken = inputs - k < kChunk ? inputs - k : kChunk;
      uint32_t* place = panel + k / kStep<T> * kPanel;
      uint32_t* words = taken == kChunk ? place : turned[0];
      for (int64_t c = 0; c < kPanel; c += 16) {
        const T* rows = x + (start + c) * step + k;
        turn(reinterpret_cast<const char*>(rows), step * sizeof(T), columns - start - c,
             taken * sizeof(T), words + c);
      }
      if (taken < kChunk) memcpy(place, turned, fill_up<T>(taken) / kStep<T> * sizeof(turned[0]));
    }
  }
}

// Multiplies rows by packed panels of so many columns into a strip, or adds to what is there.
template <typename T>
void multiply(const Rows<T>& x, int64_t rows, const Input<T>* panels, int64_t inputs,
              int64_t columns, float* strip, bool is_added = false) {
  typedef typename Multiplied<T>::Kind Kind;
  alignas(64) float sums[kTileRows][kPanel];
  const int64_t width = fill_up<T>(inputs);
  for (int64_t start = 0; start < rows; start += kTileRows) {
    const int count = static_cast<int>(rows - start < kTileRows ? rows - start : kTileRows);
    for (int64_t panel = 0; panel < count_panels(columns); ++panel) {
      float(*out)[kPanel] = reinterpret_cast<float(*)[kPanel]>(strip) + panel * rows + start;
      run_tile<Kind, kTileRows>(count, x.start + start * x.steps.row, x.steps,
                                panels + panel * width * kPanel, width, is_added ? sums : out);
      if (!is_added) continue;
      for (int r = 0; r < count; ++r) {
#pragma GCC ivdep
        for (int c = 0; c < kPanel; ++c) out[r][c] += sums[r][c];
      }
    }
  }
}

// Rounds a strip to rows, `step` numbers apart.
template <typename T>
void write_strip(const float* strip, int64_t rows, int64_t columns, T* out, int64_t step) {
  for (int64_t start = 0; start < columns; start += kPanel) {
    const int64_t left = columns - start, count = left < kPanel ? left : kPanel;
    for (int64_t r = 0; r < rows; ++r, strip += kPanel) {
      T* place = out + r * step + start;
      if (count == kPanel) {
        round_panel(strip, reinterpret_cast<Input<T>*>(place));
      } else {
        Input<T> rounded[kPanel];
        round_panel(strip, rounded);
        memcpy(place, rounded, count * sizeof(T));
      }
    }
  }
}

}  // namespace
}  // namespace QUINTAIN_ISA
}  // namespace quintain

#endif  // QUINTAIN_KERNELS_STRIPS_H_
