// Random bits of dropout: those that TensorFlow's stateless operations draw.
//
// `tf.random.stateless_uniform(..., dtype=tf.int32)` writes the numbers of Philox4x32-10 one after the other, four for
// each value of a counter. Here their bytes (or pairs of bytes) become the factors of a dropout, for any range of its
// numbers, so that threads share no state and the way back draws the same again instead of keeping them.
//
// Source: Salmon et al., 2011 (https://doi.org/10.1145/2063384.2063405).

#ifndef QUINTAIN_KERNELS_PHILOX_H_
#define QUINTAIN_KERNELS_PHILOX_H_

#include <immintrin.h>
#include <stdint.h>

#include "dropout_draw.h"

namespace quintain {
namespace QUINTAIN_ISA {

constexpr int kLanes = 16;                    // counters at a time
constexpr int kBatchBytes = kLanes * 16;      // what they give
constexpr int kDrawnBytes = 8 * kBatchBytes;  // what is drawn before it is used

// Four words of four counters, each in the lower half of 64 bits; the upper half means nothing.
struct Words {
  __m256i word[4];
};

static inline Words read_counters(const DropoutDraw& draw, uint64_t first) {
  uint64_t words[4][4];
  for (int i = 0; i < 4; ++i) {
    const uint64_t low = draw.counter[0] + first + i;
    const uint64_t high = draw.counter[1] + (low < draw.counter[0] ? 1 : 0);
    words[0][i] = low;
    words[1][i] = low >> 32;
    words[2][i] = high;
    words[3][i] = high >> 32;
  }
  Words counters;
  for (int i = 0; i < 4; ++i) {
    counters.word[i] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(words[i]));
  }
  return counters;
}

static inline void mix(Words* words, __m256i key0, __m256i key1) {
  __m256i* w = words->word;
  const __m256i p0 = _mm256_mul_epu32(w[0], _mm256_set1_epi64x(0xD2511F53));
  const __m256i p1 = _mm256_mul_epu32(w[2], _mm256_set1_epi64x(0xCD9E8D57));
  w[0] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p1, 32), w[1]), key0);
  w[2] = _mm256_xor_si256(_mm256_xor_si256(_mm256_srli_epi64(p0, 32), w[3]), key1);
  w[1] = p1;
  w[3] = p0;
}

// Writes the words of each counter side by side.
static inline void write_words(const Words& words, uint32_t* out) {
  const __m256i* w = words.word;
  const __m256i first = _mm256_blend_epi32(w[0], _mm256_slli_epi64(w[1], 32), 0xAA);
  const __m256i second = _mm256_blend_epi32(w[2], _mm256_slli_epi64(w[3], 32), 0xAA);
  const __m256i even = _mm256_unpacklo_epi64(first, second);  // counters 0 and 2
  const __m256i odd = _mm256_unpackhi_epi64(first, second);   // 1 and 3
  __m256i* place = reinterpret_cast<__m256i*>(out);
  _mm256_storeu_si256(place, _mm256_permute2x128_si256(even, odd, 0x20));
  _mm256_storeu_si256(place + 1, _mm256_permute2x128_si256(even, odd, 0x31));
}

// Writes the 256 bytes of the counters from `first` on. By intrinsics of AVX2, which every set has:
// compilers make several times as much of the widening products.
static inline void draw_batch(const DropoutDraw& draw, uint64_t first, uint32_t* out) {
  Words words[kLanes / 4];
  for (int i = 0; i < kLanes / 4; ++i) words[i] = read_counters(draw, first + 4 * i);
  uint32_t key0 = static_cast<uint32_t>(draw.key), key1 = static_cast<uint32_t>(draw.key >> 32);
  for (int round = 0; round < 10; ++round) {
    const __m256i wide0 = _mm256_set1_epi64x(key0), wide1 = _mm256_set1_epi64x(key1);
    for (int i = 0; i < kLanes / 4; ++i) mix(&words[i], wide0, wide1);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  for (int i = 0; i < kLanes / 4; ++i) write_words(words[i], out + 16 * i);
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
