#include "attention_weights.h"

#include "exponential.h"
#include "philox.h"
#include "rows.h"
#include "scratch.h"

namespace quintain {
namespace QUINTAIN_ISA {
namespace {

// Short rows share a draw of random bits, of about this many numbers.
constexpr int64_t kDrawn = 2048;

static inline int64_t count_rows(const AttentionRows& given) {
  const int64_t rows = kDrawn / (given.num_keys > 0 ? given.num_keys : 1);
  return rows > 0 ? rows : 1;
}

// Returns the bias of a row: that of its example, head and query.
template <typename T>
static inline const T* find_bias(const T* bias, const AttentionRows& given, int64_t row) {
  const int64_t query = row % given.num_queries, rest = row / given.num_queries;
  const int64_t head = rest % given.num_heads, example = rest / given.num_heads;
  return bias + example * given.bias_steps[0] + head * given.bias_steps[1] +
         query * given.bias_steps[2];
}

static inline float find_maximum(const float* row, int64_t width) {
  constexpr int kParts = 16;
  float parts[kParts];
  for (int part = 0; part < kParts; ++part) parts[part] = -__builtin_inff();
  int64_t start = 0;
  for (; start + kParts <= width; start += kParts) {
#pragma GCC ivdep
    for (int part = 0; part < kParts; ++part) {
      parts[part] = row[start + part] > parts[part] ? row[start + part] : parts[part];
    }
  }
  for (int part = 0; start + part < width; ++part) {
    parts[part] = row[start + part] > parts[part] ? row[start + part] : parts[part];
  }
  for (int part = 1; part < kParts; ++part) {
    parts[0] = parts[part] > parts[0] ? parts[part] : parts[0];
  }
  return parts[0];
}

template <typename T>
static bool forward(const T* scores, const T* bias, const AttentionRows& given, T* weights,
                    T* dropped, int64_t begin, int64_t end) {
  const int64_t width = given.num_keys, drawn_rows = count_rows(given);
  const Room<float> room((drawn_rows + 1) * width);
  if (room == nullptr) return false;
  float* row = room;
  float* factors = row + width;
  for (int64_t n = begin; n < end; ++n) {
    const int64_t number = (n - begin) % drawn_rows;
    if (dropped != nullptr && number == 0) {
      const int64_t left = end - n;
      const int64_t taken = left < drawn_rows ? left : drawn_rows;
      draw_factors(given.draw, n * width, taken * width, factors);
    }
    const T* in = scores + n * width;
    const float scale = given.scale;
    if (bias == nullptr) {
#pragma GCC ivdep
      for (int64_t i = 0; i < width; ++i) row[i] = to_float(in[i]) * scale;
    } else if (given.bias_steps[3] == 0) {
      const float shift = to_float(*find_bias(bias, given, n));
#pragma GCC ivdep
      for (int64_t i = 0; i < width; ++i) row[i] = to_float(in[i]) * scale + shift;
    } else {
      const T* shift = find_bias(bias, given, n);
#pragma GCC ivdep
      for (int64_t i = 0; i < width; ++i) row[i] = to_float(in[i]) * scale + to_float(shift[i]);
    }
    const float maximum = find_maximum(row, width);
#pragma GCC ivdep
    for (int64_t i = 0; i < width; ++i) row[i] = exp_of_negative(row[i] - maximum);
    const float share = 1.0f / sum_row(width, [row](int64_t i) { return row[i]; });
    T* out = weights + n * width;
#pragma GCC ivdep
    for (int64_t i = 0; i < width; ++i) store(row[i] * share, out + i);
    if (dropped == nullptr) continue;
    T* kept = dropped + n * width;
    const float* factor = factors + number * width;
#pragma GCC ivdep
    for (int64_t i = 0; i < width; ++i) store(to_float(out[i]) * factor[i], kept + i);
  }
  return true;
}

// Calls `use(n, weight, row, mean)` for rows: the gradient of a score is its `weight`, times that of
// the weight, in `row`, less the mean.
template <typename T, typename Use>
static bool find_slopes(const T* weights, const T* upstream, const AttentionRows& given,
                        int64_t begin, int64_t end, Use use) {
  const int64_t width = given.num_keys, drawn_rows = count_rows(given);
  const bool is_dropped = given.draw.level_bytes > 0;
  const Room<float> room((drawn_rows + 1) * width);
  if (room == nullptr) return false;
  float* row = room;
  float* factors = row + width;
  for (int64_t n = begin; n < end; ++n) {
    const int64_t number = (n - begin) % drawn_rows;
    if (is_dropped && number == 0) {
      const int64_t left = end - n;
      const int64_t taken = left < drawn_rows ? left : drawn_rows;
      draw_factors(given.draw, n * width, taken * width, factors);
    }
    const T* up = upstream + n * width;
    const T* weight = weights + n * width;
    const float* factor = factors + number * width;
    if (is_dropped) {
#pragma GCC ivdep
      for (int64_t i = 0; i < width; ++i) row[i] = to_float(up[i]) * factor[i];
    } else {
#pragma GCC ivdep
      for (int64_t i = 0; i < width; ++i) row[i] = to_float(up[i]);
    }
    // Weights are stored rounded: divided by their sum, the mean leaves a gradient that adds up to 0.
    const float mean =
        sum_row(width, [row, weight](int64_t i) { return row[i] * to_float(weight[i]); }) /
        sum_row(width, [weight](int64_t i) { return to_float(weight[i]); });
    use(n, weight, row, mean);
  }
  return true;
}

template <typename T>
static bool backward(const T* weights, const T* upstream, const AttentionRows& given, T* gradient,
                     int64_t begin, int64_t end) {
  const int64_t width = given.num_keys;
  const float scale = given.scale;
  return find_slopes(weights, upstream, given, begin, end,
                     [=](int64_t n, const T* weight, const float* row, float mean) {
                       T* out = gradient + n * width;
#pragma GCC ivdep
                       for (int64_t i = 0; i < width; ++i) {
                         store(to_float(weight[i]) * (row[i] - mean) * scale, out + i);
                       }
                     });
}

template <typename T>
static bool sum_bias(const T* weights, const T* upstream, const AttentionRows& given,
                     BiasHeads heads, float* sums) {
  const int64_t width = given.num_keys, queries = given.num_queries;
  const auto add = [&](int64_t n, const T* weight, const float* row, float mean) {
    const auto slope = [=](int64_t i) { return to_float(weight[i]) * (row[i] - mean); };
    float* out = sums + n % queries * given.bias_steps[2];
    if (given.bias_steps[3] == 0) {
      *out += sum_row(width, slope);
      return;
    }
#pragma GCC ivdep
    for (int64_t i = 0; i < width; ++i) out[i] += slope(i);
  };
  for (int64_t i = 0; i < heads.count; ++i) {
    const int64_t begin = (heads.first + i * heads.step) * queries;
    if (!find_slopes(weights, upstream, given, begin, begin + queries, add)) return false;
  }
  return true;
}

}  // namespace

#define QUINTAIN_DEFINE_ATTENTION(T)                                                              \
  bool attention_weights(const T* scores, const T* bias, const AttentionRows& given, T* weights,  \
                         T* dropped, int64_t begin, int64_t end) {                                \
    return forward(scores, bias, given, weights, dropped, begin, end);                            \
  }                                                                                               \
  bool attention_weights_gradient(const T* weights, const T* upstream,                            \
                                  const AttentionRows& given, T* gradient, int64_t begin,         \
                                  int64_t end) {                                                  \
    return backward(weights, upstream, given, gradient, begin, end);                              \
  }                                                                                               \
  bool attention_weights_bias_gradient(const T* weights, const T* upstream,                       \
                                       const AttentionRows& given, BiasHeads heads,               \
                                       float* sums) {                                             \
    return sum_bias(weights, upstream, given, heads, sums);                                       \
  }
QUINTAIN_DEFINE_ATTENTION(float)
QUINTAIN_DEFINE_ATTENTION(bf16)

}  // namespace QUINTAIN_ISA
}  // namespace quintain
