// The arithmetic of `adam.h`.

// A product and a sum rounded once would be another number than TensorFlow's.
#if defined(__clang__)
#pragma clang fp contract(off)
#else
#pragma GCC optimize("fp-contract=off")
#endif

#include "adam.h"

namespace quintain {
namespace QUINTAIN_ISA {
namespace {

constexpr int kLanes = 32;
constexpr int64_t kChunk = 2048;  // Squares that are added in float: 64 in each lane.

template <typename Gradient, bool is_decaying, bool has_average>
void update(const AdamBlock& block, const Gradient* __restrict__ gradient, AdamScalars s) {
  const float share = 1.0f - s.kept;
  float* __restrict__ weight = block.weight;
  float* __restrict__ mean = block.mean;
  float* __restrict__ square = block.square;
  float* __restrict__ average = block.average;
  for (int64_t i = 0; i < block.size; ++i) {
    const float g = to_float(gradient[i]) * s.scale;
    float w = weight[i];
    if (is_decaying) w -= w * s.decay;
    const float m = mean[i] + (g - mean[i]) * s.one_less_beta_1;
    const float v = square[i] + (g * g - square[i]) * s.one_less_beta_2;
    w -= (m * s.rate) / (__builtin_sqrtf(v) + s.epsilon);
    mean[i] = m;
    square[i] = v;
    weight[i] = w;
    if (has_average) average[i] = s.kept * average[i] + share * w;
  }
}

template <typename Gradient>
void choose(const AdamBlock& block, const Gradient* gradient, const AdamScalars& scalars) {
  if (block.average == nullptr) {
    block.is_decaying ? update<Gradient, true, false>(block, gradient, scalars)
                      : update<Gradient, false, false>(block, gradient, scalars);
  } else {
    block.is_decaying ? update<Gradient, true, true>(block, gradient, scalars)
                      : update<Gradient, false, true>(block, gradient, scalars);
  }
}

template <typename Number>
double sum(const Number* __restrict__ numbers, int64_t size) {
  double total = 0.0;
  for (int64_t start = 0; start < size; start += kChunk) {
    const int64_t end = start + kChunk < size ? start + kChunk : size;
    float lanes[kLanes] = {};
    int64_t i = start;
    for (; i + kLanes <= end; i += kLanes) {
      for (int lane = 0; lane < kLanes; ++lane) {
        const float number = to_float(numbers[i + lane]);
        lanes[lane] += number * number;
      }
    }
    for (int lane = 0; i < end; ++i, ++lane) {
      const float number = to_float(numbers[i]);
      lanes[lane] += number * number;
    }
    for (int lane = 0; lane < kLanes; ++lane) total += lanes[lane];
  }
  return 0.5 * total;
}

}  // namespace

void update_adam(const AdamBlock& block, const float* gradient, const AdamScalars& scalars) {
  choose(block, gradient, scalars);
}

void update_adam(const AdamBlock& block, const bf16* gradient, const AdamScalars& scalars) {
  choose(block, gradient, scalars);
}

double sum_half_squares(const float* numbers, int64_t size) { return sum(numbers, size); }

double sum_half_squares(const bf16* numbers, int64_t size) { return sum(numbers, size); }

}  // namespace QUINTAIN_ISA
}  // namespace quintain
