// `exp` that the compiler can vectorise.

#ifndef QUINTAIN_KERNELS_EXPONENTIAL_H_
#define QUINTAIN_KERNELS_EXPONENTIAL_H_

#include <stdint.h>
#include <string.h>

namespace quintain {
namespace QUINTAIN_ISA {

// Returns `exp(x)` for `x <= 0`, within 2 units in the last place, and 0 below -87.3, where float32
// has no normal numbers left. NaN gives NaN.
//
// `x = k log(2) + r` with a whole number k and `|r| <= log(2) / 2`; `exp(r)` is its series up to the
// seventh power.
static inline float exp_of_negative(float x) {
  const float lowest = -87.3f;
  const float shift = 12582912.0f;  // 1.5 * 2^23: the sum's last bits are the whole number.
  const float bounded = x < lowest ? lowest : x;
  const float shifted = bounded * 1.44269504088896341f + shift;
  const float k = shifted - shift;
  float r = bounded - k * 0.693359375f;
  r = r - k * -2.12194440e-4f;
  float series = 1.0f / 5040.0f;
  series = series * r + 1.0f / 720.0f;
  series = series * r + 1.0f / 120.0f;
  series = series * r + 1.0f / 24.0f;
  series = series * r + 1.0f / 6.0f;
  series = series * r + 0.5f;
  series = series * r + 1.0f;
  series = series * r + 1.0f;
  uint32_t bits;
  memcpy(&bits, &shifted, sizeof(bits));
  bits = (bits << 23) + (127u << 23);  // 2^k
  float power;
  memcpy(&power, &bits, sizeof(power));
  const float result = series * power;
  return x < lowest ? 0.0f : result;
}

}  // namespace QUINTAIN_ISA
}  // namespace quintain

#endif  // QUINTAIN_KERNELS_EXPONENTIAL_H_
