#include "activation.h"

#include "exponential.h"
#include "philox.h"

namespace quintain {
namespace QUINTAIN_ISA {
namespace {

constexpr int kChunk = 2048;  // numbers whose factors are drawn at a time

template <typename T>
static void relu(const T* inputs, const DropoutDraw& draw, T* outputs, int64_t begin,
                 int64_t end) {
  float factors[kChunk];
  for (int64_t first = begin; first < end; first += kChunk) {
    const int count = static_cast<int>(end - first < kChunk ? end - first : kChunk);
    draw_factors(draw, first, count, factors);
    const T* in = inputs + first;
    T* out = outputs + first;
#pragma GCC ivdep
    for (int i = 0; i < count; ++i) {
      const float x = to_float(in[i]);
      store((x < 0.0f ? 0.0f : x) * factors[i], out + i);
    }
  }
}

// With t the tanh of GELU, the share below a number is (1 + t) / 2, a logistic function.
template <typename T>
static void gelu(const T* inputs, const DropoutDraw& draw, T* outputs, T* slopes, int64_t begin,
                 int64_t end) {
  constexpr float kScale = 0.7978845608028654f, kCubic = 0.044715f;
  float factors[kChunk];
  for (int64_t first = begin; first < end; first += kChunk) {
    const int count = static_cast<int>(end - first < kChunk ? end - first : kChunk);
    draw_factors(draw, first, count, factors);
    const T* in = inputs + first;
    T* out = outputs + first;
    T* slope = slopes + first;
#pragma GCC ivdep
    for (int i = 0; i < count; ++i) {
      const float x = to_float(in[i]);
      const float square = x * x;
      const float z = x * (2.0f * kScale + 2.0f * kScale * kCubic * square);
      const float e = exp_of_negative(z < 0.0f ? z : -z);
      const float share = 1.0f / (1.0f + e);
      const float below = z < 0.0f ? e * share : share;
      const float steepness = e * share * share;  // below * (1 - below)
      // The slope of z is at most 1e38 / x where the steepness is not 0.
      const float rise = steepness == 0.0f
                             ? 0.0f
                             : x * steepness * (2.0f * kScale + 6.0f * kScale * kCubic * square);
      store(x * below * factors[i], out + i);
      store((below + rise) * factors[i], slope + i);
    }
  }
}

template <typename T, typename Factor>
static inline void multiply(const T* upstream, T* gradient, int64_t width, int64_t begin,
                            int64_t end, float* sums, Factor factor) {
  for (int64_t row = begin; row < end; ++row) {
    const int64_t at = row * width;
    const T* up = upstream + at;
    T* out = gradient + at;
#pragma GCC ivdep
    for (int64_t i = 0; i < width; ++i) {
      const float value = to_float(up[i]) * factor(at + i);
      store(value, out + i);
      sums[i] += value;
    }
  }
}

}  // namespace

#define QUINTAIN_DEFINE_ACTIVATION(T)                                                             \
  void relu_dropout(const T* inputs, const DropoutDraw& draw, T* outputs, int64_t begin,          \
                    int64_t end) {                                                                \
    relu(inputs, draw, outputs, begin, end);                                                      \
  }                                                                                               \
  void gelu_dropout(const T* inputs, const DropoutDraw& draw, T* outputs, T* slopes,              \
                    int64_t begin, int64_t end) {                                                 \
    gelu(inputs, draw, outputs, slopes, begin, end);                                              \
  }                                                                                               \
  void relu_gradient(const T* outputs, const T* upstream, float scale, T* gradient,               \
                     int64_t width, int64_t begin, int64_t end, float* sums) {                    \
    multiply(upstream, gradient, width, begin, end, sums,                                         \
             [=](int64_t i) { return to_float(outputs[i]) > 0.0f ? scale : 0.0f; });              \
  }                                                                                               \
  void slope_gradient(const T* slopes, const T* upstream, T* gradient, int64_t width,             \
                      int64_t begin, int64_t end, float* sums) {                                  \
    multiply(upstream, gradient, width, begin, end, sums,                                         \
             [=](int64_t i) { return to_float(slopes[i]); });                                     \
  }                                                                                               \
  void add_rows(const T* rows, int64_t width, int64_t begin, int64_t end, float* sums) {          \
    for (int64_t row = begin; row < end; ++row) {                                                 \
      const T* numbers = rows + row * width;                                                      \
      _Pragma("GCC ivdep") for (int64_t i = 0; i < width; ++i) sums[i] += to_float(numbers[i]);   \
    }                                                                                             \
  }
QUINTAIN_DEFINE_ACTIVATION(float)
QUINTAIN_DEFINE_ACTIVATION(bf16)

}  // namespace QUINTAIN_ISA
}  // namespace quintain
