// Sums of rows, and the numbers of an activation.

#ifndef QUINTAIN_KERNELS_ROWS_H_
#define QUINTAIN_KERNELS_ROWS_H_

#include <stdint.h>

namespace quintain {
namespace QUINTAIN_ISA {

// Sums what `term(i)` gives for each number of a row, in as many parts as vectorise well, so that
// every instruction set adds in the same order.
template <typename Term>
static inline float sum_row(int64_t width, Term term) {
  constexpr int kParts = 16;
  float sums[kParts] = {};
  int64_t start = 0;
  for (; start + kParts <= width; start += kParts) {
#pragma GCC ivdep
    for (int part = 0; part < kParts; ++part) sums[part] += term(start + part);
  }
  for (int part = 0; start + part < width; ++part) sums[part] += term(start + part);
  for (int half = kParts / 2; half > 0; half /= 2) {
    for (int part = 0; part < half; ++part) sums[part] += sums[part + half];
  }
  return sums[0];
}

}  // namespace QUINTAIN_ISA
}  // namespace quintain

#endif  // QUINTAIN_KERNELS_ROWS_H_
