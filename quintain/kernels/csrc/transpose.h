// Rows of words as columns.

#ifndef QUINTAIN_KERNELS_TRANSPOSE_H_
#define QUINTAIN_KERNELS_TRANSPOSE_H_

#include <immintrin.h>
#include <stdint.h>

#include "panel.h"

namespace quintain {
namespace QUINTAIN_ISA {
namespace {

// Writes 16 rows of 16 words as 16 columns, `step` words apart.
#ifdef __AVX512F__
inline void transpose(__m512i (&rows)[16], uint32_t* out, int64_t step = kPanel) {
  __m512i pairs[16];
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    pairs[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
    pairs[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    rows[i] = _mm512_unpacklo_epi64(pairs[i], pairs[i + 2]);
    rows[i + 1] = _mm512_unpackhi_epi64(pairs[i], pairs[i + 2]);
    rows[i + 2] = _mm512_unpacklo_epi64(pairs[i + 1], pairs[i + 3]);
    rows[i + 3] = _mm512_unpackhi_epi64(pairs[i + 1], pairs[i + 3]);
  }
  // The quarter L of `rows[4 * i + q]` now has the column 4 * L + q of the rows from 4 * i on.
#pragma GCC unroll 4
  for (int q = 0; q < 4; ++q) {
    const __m512i even = _mm512_shuffle_i32x4(rows[q], rows[4 + q], 0x88);
    const __m512i odd = _mm512_shuffle_i32x4(rows[q], rows[4 + q], 0xdd);
    const __m512i later_even = _mm512_shuffle_i32x4(rows[8 + q], rows[12 + q], 0x88);
    const __m512i later_odd = _mm512_shuffle_i32x4(rows[8 + q], rows[12 + q], 0xdd);
    uint32_t* place = out + q * step;
    _mm512_storeu_si512(place, _mm512_shuffle_i32x4(even, later_even, 0x88));
    _mm512_storeu_si512(place + 4 * step, _mm512_shuffle_i32x4(odd, later_odd, 0x88));
    _mm512_storeu_si512(place + 8 * step, _mm512_shuffle_i32x4(even, later_even, 0xdd));
    _mm512_storeu_si512(place + 12 * step, _mm512_shuffle_i32x4(odd, later_odd, 0xdd));
  }
}
#endif

inline void transpose(const uint32_t (*in)[16], uint32_t* out, int64_t step = kPanel) {
#ifdef __AVX512F__
  __m512i rows[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) rows[i] = _mm512_loadu_si512(in[i]);
  transpose(rows, out, step);
#else
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 16; ++j) out[j * step + i] = in[i][j];
  }
#endif
}

}  // namespace
}  // namespace QUINTAIN_ISA
}  // namespace quintain

#endif  // QUINTAIN_KERNELS_TRANSPOSE_H_
