// Numbers of 16 bits: the upper half of a float32.

#ifndef QUINTAIN_KERNELS_BFLOAT16_H_
#define QUINTAIN_KERNELS_BFLOAT16_H_

#include <stdint.h>
#include <string.h>

namespace quintain {

struct bf16 {
  uint16_t bits;
};

namespace QUINTAIN_ISA {

static inline float to_float(float value) { return value; }

static inline float to_float(bf16 value) {
  const uint32_t bits = static_cast<uint32_t>(value.bits) << 16;
  float result;
  memcpy(&result, &bits, sizeof(result));
  return result;
}

// Rounds to the nearest, ties to even, and keeps NaN, as TensorFlow's casts do.
static inline bf16 to_bf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof(bits));
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t quiet_nan = (bits >> 16) | 0x40u;
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return bf16{static_cast<uint16_t>(is_nan ? quiet_nan : rounded)};
}

static inline void store(float value, float* place) { *place = value; }

static inline void store(float value, bf16* place) { *place = to_bf16(value); }

}  // namespace QUINTAIN_ISA
}  // namespace quintain

#endif  // QUINTAIN_KERNELS_BFLOAT16_H_
