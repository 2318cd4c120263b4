#include "residual_norm.h"

#include <math.h>

#include "bfloat16.h"
#include "philox.h"
#include "rows.h"
#include "scratch.h"

namespace quintain {
namespace QUINTAIN_ISA {

// Writes a row's total as it is stored, and as floats.
template <typename T, typename I>
static inline void add_row(const T* residual, const I* inputs, const float* factors, int64_t width, T* total,
                           float* row) {
  if (factors == nullptr && residual == nullptr) {
#pragma GCC ivdep
    for (int64_t i = 0; i < width; ++i) row[i] = to_float(inputs[i]);
    return;
  }
  if (factors == nullptr) {
#pragma GCC ivdep
    for (int64_t i = 0; i < width; ++i) store(to_float(residual[i]) + to_float(inputs[i]), total + i);
  } else if (residual == nullptr) {
#pragma GCC ivdep
    for (int64_t i = 0; i < width; ++i) store(to_float(inputs[i]) * factors[i], total + i);
  } else {
#pragma GCC ivdep
    for (int64_t i = 0; i < width; ++i) store(to_float(residual[i]) + to_float(inputs[i]) * factors[i], total + i);
  }
#pragma GCC ivdep
  for (int64_t i = 0; i < width; ++i) row[i] = to_float(total[i]);
}

template <typename T, typename I, typename O>
static inline bool forward(const ResidualNorm<T, I, O>& given, int64_t begin, int64_t end) {
  const int64_t width = given.width;
  const bool is_dropped = given.draw.level_bytes > 0;
  const Room<float> room(2 * width);
  if (room == nullptr) return false;
  float* row = room;
  float* factors = is_dropped ? row + width : nullptr;
  const float* gamma = given.gamma;
  const float* beta = given.beta;
  for (int64_t n = begin; n < end; ++n) {
    const int64_t at = n * width;
    if (is_dropped) draw_factors(given.draw, at, width, factors);
    add_row(given.residual == nullptr ? nullptr : given.residual + at, given.inputs + at, factors, width,
            given.total == nullptr ? nullptr : given.total + at, row);
    const float mean = sum_row(width, [row](int64_t i) { return row[i]; }) / width;
    const float variance = sum_row(width, [row, mean](int64_t i) {
      const float centred = row[i] - mean;
      return centred * centred;
    }) / width;
    const float scale = 1.0f / sqrtf(variance + given.epsilon);
    O* out = given.outputs + at;
#pragma GCC ivdep
    for (int64_t i = 0; i < width; ++i) store((row[i] - mean) * scale * gamma[i] + beta[i], out + i);
    given.means[n] = mean;
    given.scales[n] = scale;
  }
  return true;
}

template <typename T, typename I, typename O>
static inline bool backward(const ResidualNormGradient<T, I, O>& given, int64_t begin, int64_t end,
                            float* gamma_gradient, float* beta_gradient) {
  const int64_t width = given.width;
  const bool is_dropped = given.draw.level_bytes > 0;
  const Room<float> room(3 * width);
  if (room == nullptr) return false;
  float* buffer = room;
  float* normalised = buffer;
  float* scaled = buffer + width;
  float* factors = buffer + 2 * width;
  const float* gamma = given.gamma;
  for (int64_t n = begin; n < end; ++n) {
    const int64_t at = n * width;
    const float mean = given.means[n], scale = given.scales[n];
    const T* total = given.total + at;
    const O* upstream = given.upstream + at;
#pragma GCC ivdep
    for (int64_t i = 0; i < width; ++i) {
      const float x = (to_float(total[i]) - mean) * scale, up = to_float(upstream[i]);
      normalised[i] = x;
      scaled[i] = up * gamma[i];
      gamma_gradient[i] += up * x;
      beta_gradient[i] += up;
    }
    const float average = sum_row(width, [scaled](int64_t i) { return scaled[i]; }) / width;
    const float projection =
        sum_row(width, [scaled, normalised](int64_t i) { return scaled[i] * normalised[i]; }) / width;
#pragma GCC ivdep
    for (int64_t i = 0; i < width; ++i) scaled[i] = scale * (scaled[i] - average - normalised[i] * projection);
    if (given.total_upstream != nullptr) {
      const T* more = given.total_upstream + at;
#pragma GCC ivdep
      for (int64_t i = 0; i < width; ++i) scaled[i] += to_float(more[i]);
    }
    if (given.residual_gradient != nullptr) {
      T* out = given.residual_gradient + at;
#pragma GCC ivdep
      for (int64_t i = 0; i < width; ++i) store(scaled[i], out + i);
    }
    I* out = given.inputs_gradient + at;
    if (is_dropped) {
      draw_factors(given.draw, at, width, factors);
#pragma GCC ivdep
      for (int64_t i = 0; i < width; ++i) store(scaled[i] * factors[i], out + i);
    } else {
#pragma GCC ivdep
      for (int64_t i = 0; i < width; ++i) store(scaled[i], out + i);
    }
  }
  return true;
}

#define QUINTAIN_DEFINE(T, I, O)                                                                              \
  bool residual_norm(const ResidualNorm<T, I, O>& given, int64_t begin, int64_t end) {                        \
    return forward(given, begin, end);                                                                        \
  }                                                                                                           \
  bool residual_norm_gradient(const ResidualNormGradient<T, I, O>& given, int64_t begin, int64_t end,         \
                              float* gamma_gradient, float* beta_gradient) {                                  \
    return backward(given, begin, end, gamma_gradient, beta_gradient);                                        \
  }
QUINTAIN_EACH_NORM(QUINTAIN_DEFINE)

}  // namespace QUINTAIN_ISA
}  // namespace quintain
