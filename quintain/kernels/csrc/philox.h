// Random bits of dropout: those that TensorFlow's stateless operations draw.
//
// `tf.random.stateless_uniform(..., dtype=tf.int32)` writes the numbers of Philox4x32-10 one after the other, four for
// each value of a counter. Here their bytes (or pairs of bytes) become the factors of a dropout, for any range of its
// numbers, so that threads share no state and the way back draws the same again instead of keeping them.
//
// Source: Salmon et al., 2011 (https://doi.org/10.1145/2063384.2063405).

#ifndef QUINTAIN_KERNELS_PHILOX_H_
#define QUINTAIN_KERNELS_PHILOX_H_

#include <stdint.h>

#include "dropout_draw.h"

namespace quintain {
namespace QUINTAIN_ISA {

constexpr int kLanes = 16;                    // counters at a time
constexpr int kBatchBytes = kLanes * 16;      // what they give
constexpr int kDrawnBytes = 8 * kBatchBytes;  // what is drawn before it is used

// Writes the 256 bytes of the counters from `first` on.
static inline void draw_batch(const DropoutDraw& draw, uint64_t first, uint32_t* out) {
  uint32_t c0[kLanes], c1[kLanes], c2[kLanes], c3[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    const uint64_t low = draw.counter[0] + first + i;
    const uint64_t high = draw.counter[1] + (low < draw.counter[0] ? 1 : 0);
    c0[i] = static_cast<uint32_t>(low);
    c1[i] = static_cast<uint32_t>(low >> 32);
    c2[i] = static_cast<uint32_t>(high);
    c3[i] = static_cast<uint32_t>(high >> 32);
  }
  uint32_t k0 = static_cast<uint32_t>(draw.key), k1 = static_cast<uint32_t>(draw.key >> 32);
  for (int round = 0; round < 10; ++round) {
#pragma GCC ivdep
    for (int i = 0; i < kLanes; ++i) {
      const uint64_t p0 = static_cast<uint64_t>(c0[i]) * 0xD2511F53u;
      const uint64_t p1 = static_cast<uint64_t>(c2[i]) * 0xCD9E8D57u;
      const uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c1[i] ^ k0;
      const uint32_t n2 = static_cast<uint32_t>(p0 >> 32) ^ c3[i] ^ k1;
      c0[i] = n0;
      c1[i] = static_cast<uint32_t>(p1);
      c2[i] = n2;
      c3[i] = static_cast<uint32_t>(p0);
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
#pragma GCC ivdep
  for (int i = 0; i < kLanes; ++i) {
    out[4 * i] = c0[i];
    out[4 * i + 1] = c1[i];
    out[4 * i + 2] = c2[i];
    out[4 * i + 3] = c3[i];
  }
}

// Writes the bytes of the counters from `first` on: at least `num_bytes`, at most kDrawnBytes.
static __attribute__((noinline)) void draw_bits(const DropoutDraw& draw, uint64_t first,
                                                int num_bytes, uint32_t* bits) {
  for (int at = 0; at < num_bytes; at += kBatchBytes) draw_batch(draw, first + at / 16, bits + at / 4);
}

// Writes the factors, 0 or `draw.scale`, or 1 if nothing is dropped, of the numbers from `first` on.
static void draw_factors(const DropoutDraw& draw, int64_t first, int64_t count, float* factors) {
  if (draw.level_bytes == 0) {
    for (int64_t i = 0; i < count; ++i) factors[i] = 1.0f;
    return;
  }
  const int per_counter = 16 / draw.level_bytes;
  const float scale = draw.scale;
  alignas(64) uint32_t bits[kDrawnBytes / 4];
  const unsigned char* bytes = reinterpret_cast<const unsigned char*>(bits);
  int64_t done = 0;
  while (done < count) {
    const uint64_t counter = static_cast<uint64_t>(first + done) / per_counter;
    const int skipped = static_cast<int>((first + done) % per_counter);
    const int64_t left = count - done, most = kDrawnBytes / draw.level_bytes - skipped;
    const int taken = static_cast<int>(left < most ? left : most);
    draw_bits(draw, counter, (skipped + taken) * draw.level_bytes, bits);
    float* out = factors + done;
    if (draw.level_bytes == 1) {
      const int8_t* levels = reinterpret_cast<const int8_t*>(bytes) + skipped;
      const int8_t first_kept = static_cast<int8_t>(draw.first_kept);
#pragma GCC ivdep
      for (int i = 0; i < taken; ++i) out[i] = levels[i] >= first_kept ? scale : 0.0f;
    } else {
      const int16_t* levels = reinterpret_cast<const int16_t*>(bytes) + skipped;
      const int16_t first_kept = static_cast<int16_t>(draw.first_kept);
#pragma GCC ivdep
      for (int i = 0; i < taken; ++i) out[i] = levels[i] >= first_kept ? scale : 0.0f;
    }
    done += taken;
  }
}

}  // namespace QUINTAIN_ISA
}  // namespace quintain

#endif
