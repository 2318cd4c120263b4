// Products of a few rows with one panel of a packed matrix, whose sums stay in registers.
//
// A panel has 32 columns, which hold all inputs after each other: float32 one by one, bfloat16 in
// pairs, int8 in fours. Each output is summed in the order of the inputs.

#ifndef QUINTAIN_KERNELS_TILES_H_
#define QUINTAIN_KERNELS_TILES_H_

#include <immintrin.h>
#include <stdint.h>

#include "panel.h"

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

// What to go on by in the inputs from one row, and from one `kStep` of inputs, to the next.
struct Steps {
  int64_t row;
  int64_t input;
};

// What is read into the second cache during a tile: the place, and the bytes for each `kStep` of inputs.
struct Ahead {
  const char* next;
  int64_t step;  // 0 for nothing
};

// Keeps a row's sums of one panel.
template <class Sum, class Vector>
inline void keep_row(Sum (*out)[kPanel], int row, const Vector* sums) {
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) store(out[row] + v * kLanes, sums[v]);
}

// Multiplies R rows of inputs by one panel, and gives each row's sums to `keep_row(out, ...)`.
//
// Every third row has a pointer of its own, from which the next two are reached by its step and twice
// that: compilers otherwise keep twelve distances, most of them in memory, which takes 6 % longer.
template <class Kind, int R, class Out>
inline void multiply_tile(const typename Kind::Input* x, Steps steps, const void* panel,
                          int64_t inputs, Out out, Ahead ahead = {}) {
  constexpr int kThirds = (R + 2) / 3;
  const int32_t* w = static_cast<const int32_t*>(panel);
  const typename Kind::Input* rows[kThirds];
#pragma GCC unroll 4
  for (int i = 0; i < kThirds; ++i) rows[i] = x + 3 * i * steps.row;
  typename Kind::Sums sums[R][kVectors];
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sums[r][v] = typename Kind::Sums{};
  }
  for (int64_t k = 0; k < inputs; k += Kind::kStep, w += kPanel) {
    if (ahead.step > 0) _mm_prefetch(ahead.next, _MM_HINT_T1);
    ahead.next += ahead.step;
    decltype(Kind::weights(w)) b[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) b[v] = Kind::weights(w + v * kLanes);
#pragma GCC unroll 12
    for (int r = 0; r < R; ++r) {
      const auto a = Kind::spread(rows[r / 3] + r % 3 * steps.row);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sums[r][v] = Kind::add(sums[r][v], a, b[v]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < kThirds; ++i) {
      rows[i] += steps.input;
      __asm__("" : "+r"(rows[i]));  // They stay pointers that move.
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r) keep_row(out, r, sums[r]);
}

// Calls the tile of so many rows; fewer than a whole tile at the end.
template <class Kind, int R, class Out>
inline void run_tile(int rows, const typename Kind::Input* x, Steps steps, const void* panel,
                     int64_t inputs, Out out, Ahead ahead = {}) {
  if constexpr (R > 0) {
    if (rows == R) {
      multiply_tile<Kind, R>(x, steps, panel, inputs, out, ahead);
    } else {
      run_tile<Kind, R - 1>(rows, x, steps, panel, inputs, out, ahead);
    }
  }
}

}  // namespace
}  // namespace QUINTAIN_ISA
}  // namespace quintain

#endif  // QUINTAIN_KERNELS_TILES_H_
