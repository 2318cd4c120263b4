// What is between the products of a decoder: attention of one position, normalisation, and the
// search for the most probable ids.
#ifndef QUINTAIN_KERNELS_DECODING_H_
#define QUINTAIN_KERNELS_DECODING_H_

#include <cstdint>

#include "isa.h"

namespace quintain {

// Keys and values that a row attends to: those of place p are at keys + p * stride and at
// values + p * stride.
struct Past {
  const float* keys;
  const float* values;
  int64_t stride;
  const int32_t* places;
  int64_t count;
};

// Of the sum of exponentials of numbers.
struct LogSum {
  float largest;   // of the numbers
  float log_rest;  // logarithm of the sum of `exp(number - largest)`; NaN if a number is no number
};

}  // namespace quintain

// Mixes the values of a past for one row of queries; heads are beside each other, their width a
// multiple of 8. `scratch` has room for heads * (count + 16) numbers.
QUINTAIN_EACH_ISA(void attend(const float* queries, const Past& past, int64_t heads,
                              int64_t head_width, float* mixed, float* scratch);)

// Normalises rows of x + y, or of x where y is null; `normalized` may be x.
QUINTAIN_EACH_ISA(void normalize(const float* x, const float* y, const float* gamma,
                                 const float* beta, float epsilon, int64_t rows, int64_t width,
                                 float* normalized);)

// Adds rows.
QUINTAIN_EACH_ISA(void add_rows(const float* x, const float* y, int64_t count, float* total);)

// Multiplies the second half of each row by SiLU of the first; `gated`, [rows, width], may be
// `halves`, [rows, 2 * width].
QUINTAIN_EACH_ISA(void swiglu(const float* halves, int64_t rows, int64_t width, float* gated);)

// Returns the logarithm of the sum of exponentials, in two parts: their sum has lost the small one's
// last digits where logits are large.
QUINTAIN_EACH_ISA(LogSum log_sum_exp(const float* logits, int64_t count);)

// Finds the `wanted` largest numbers, the largest first, of equal ones the first; returns how many
// there are above minus infinity.
QUINTAIN_EACH_ISA(int64_t find_largest(const float* values, int64_t count, int64_t wanted,
                                       float* best, int32_t* ids);)

#endif  // QUINTAIN_KERNELS_DECODING_H_
