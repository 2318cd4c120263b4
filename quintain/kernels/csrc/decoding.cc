#include "decoding.h"

#include <immintrin.h>

#include "exponential.h"

namespace quintain {
namespace QUINTAIN_ISA {

namespace {

constexpr float kInfinity = __builtin_inff();

#ifdef __AVX512F__
constexpr int64_t kLanes = 16;
#else
constexpr int64_t kLanes = 8;
#endif

typedef float Eight __attribute__((vector_size(32)));
#ifdef __AVX512F__
typedef float Sixteen __attribute__((vector_size(64)));
#endif

template <class Floats>
inline Floats load(const float* p) {
  Floats x;
  __builtin_memcpy(&x, p, sizeof(x));
  return x;
}

inline float add_lanes(const Eight& x) {
  return ((x[0] + x[4]) + (x[1] + x[5])) + ((x[2] + x[6]) + (x[3] + x[7]));
}

#ifdef __AVX512F__
inline float add_lanes(const Sixteen& x) {
  Eight halves[2];
  __builtin_memcpy(halves, &x, sizeof(x));
  return add_lanes(halves[0] + halves[1]);
}
#endif

template <class Floats>
inline float dot(const float* a, const float* b, int64_t count) {
  Floats sum = {};
  for (int64_t i = 0; i < count; i += sizeof(Floats) / 4) {
    sum += load<Floats>(a + i) * load<Floats>(b + i);
  }
  return add_lanes(sum);
}

template <class Floats>
void attend_by(const float* queries, const Past& past, int64_t heads, int64_t head_width,
               float* mixed, float* weights) {
  const int64_t width = heads * head_width;
  const int64_t room = (past.count + 15) / 16 * 16;
  const float scale = 1.0f / __builtin_sqrtf(static_cast<float>(head_width));
  for (int64_t t = 0; t < past.count; ++t) {
    const float* keys = past.keys + past.places[t] * past.stride;
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t start = h * head_width;
      weights[h * room + t] = scale * dot<Floats>(queries + start, keys + start, head_width);
    }
  }
  for (int64_t h = 0; h < heads; ++h) {
    float* row = weights + h * room;
    float most = -kInfinity;
    for (int64_t t = 0; t < past.count; ++t) most = row[t] > most ? row[t] : most;
    for (int64_t t = past.count; t < room; ++t) row[t] = -kInfinity;
    for (int64_t t = 0; t < room; ++t) row[t] = exp_of_negative(row[t] - most);
    float sum = 0.0f;
    for (int64_t t = 0; t < past.count; ++t) sum += row[t];
    const float share = 1.0f / sum;
    for (int64_t t = 0; t < room; ++t) row[t] *= share;
  }
  for (int64_t i = 0; i < width; ++i) mixed[i] = 0.0f;
  for (int64_t t = 0; t < past.count; ++t) {
    const float* values = past.values + past.places[t] * past.stride;
    for (int64_t h = 0; h < heads; ++h) {
      const float weight = weights[h * room + t];
      const int64_t end = (h + 1) * head_width;
      for (int64_t i = h * head_width; i < end; i += sizeof(Floats) / 4) {
        const Floats sum = load<Floats>(mixed + i) + weight * load<Floats>(values + i);
        __builtin_memcpy(mixed + i, &sum, sizeof(sum));
      }
    }
  }
}

// Returns whether a number of the next lanes is above a limit.
inline bool any_above(const float* values, float limit) {
#ifdef __AVX512F__
  return _mm512_cmp_ps_mask(_mm512_loadu_ps(values), _mm512_set1_ps(limit), _CMP_GT_OQ) != 0;
#else
  const __m256 above = _mm256_cmp_ps(_mm256_loadu_ps(values), _mm256_set1_ps(limit), _CMP_GT_OQ);
  return _mm256_movemask_ps(above) != 0;
#endif
}

}  // namespace

void attend(const float* queries, const Past& past, int64_t heads, int64_t head_width,
            float* mixed, float* scratch) {
#ifdef __AVX512F__
  if (head_width % 16 == 0) {
    attend_by<Sixteen>(queries, past, heads, head_width, mixed, scratch);
    return;
  }
#endif
  attend_by<Eight>(queries, past, heads, head_width, mixed, scratch);
}

void normalize(const float* x, const float* y, const float* gamma, const float* beta,
               float epsilon, int64_t rows, int64_t width, float* normalized) {
  for (int64_t row = 0; row < rows; ++row) {
    const float* a = x + row * width;
    float* out = normalized + row * width;
    if (y != nullptr) {
      const float* b = y + row * width;
      for (int64_t i = 0; i < width; ++i) out[i] = a[i] + b[i];
    } else {
      for (int64_t i = 0; i < width; ++i) out[i] = a[i];
    }
    Eight sum = {};
    for (int64_t i = 0; i < width; i += 8) sum += load<Eight>(out + i);
    const float mean = add_lanes(sum) / static_cast<float>(width);
    Eight squares = {};
    for (int64_t i = 0; i < width; i += 8) {
      const Eight centred = load<Eight>(out + i) - mean;
      squares += centred * centred;
    }
    const float variance = add_lanes(squares) / static_cast<float>(width);
    const float scale = 1.0f / __builtin_sqrtf(variance + epsilon);
    for (int64_t i = 0; i < width; ++i) out[i] = (out[i] - mean) * scale * gamma[i] + beta[i];
  }
}

void swiglu(const float* halves, int64_t rows, int64_t width, float* gated) {
  for (int64_t row = 0; row < rows; ++row) {
    const float* gates = halves + 2 * row * width;
    const float* values = gates + width;
    float* out = gated + row * width;
#pragma GCC ivdep
    for (int64_t i = 0; i < width; ++i) {
      const float x = gates[i];
      const float e = exp_of_negative(x < 0.0f ? x : -x);
      const float share = 1.0f / (1.0f + e);
      out[i] = x * (x < 0.0f ? e * share : share) * values[i];
    }
  }
}

void add_rows(const float* x, const float* y, int64_t count, float* total) {
  for (int64_t i = 0; i < count; ++i) total[i] = x[i] + y[i];
}

LogSum log_sum_exp(const float* logits, int64_t count) {
  const int64_t whole = count / 16 * 16;
  float most[16], sums[16];
  for (int64_t j = 0; j < 16; ++j) {
    most[j] = -kInfinity;
    sums[j] = 0.0f;
  }
  for (int64_t i = 0; i < whole; i += 16) {
    for (int64_t j = 0; j < 16; ++j) most[j] = logits[i + j] > most[j] ? logits[i + j] : most[j];
  }
  for (int64_t i = whole; i < count; ++i) {
    most[i - whole] = logits[i] > most[i - whole] ? logits[i] : most[i - whole];
  }
  float top = most[0];
  for (int64_t j = 1; j < 16; ++j) top = most[j] > top ? most[j] : top;
  for (int64_t i = 0; i < whole; i += 16) {
    for (int64_t j = 0; j < 16; ++j) sums[j] += exp_of_negative(logits[i + j] - top);
  }
  for (int64_t i = whole; i < count; ++i) sums[i - whole] += exp_of_negative(logits[i] - top);
  float sum = 0.0f;
  for (int64_t j = 0; j < 16; ++j) sum += sums[j];
  return {top, __builtin_logf(sum)};
}

int64_t find_largest(const float* values, int64_t count, int64_t wanted, float* best,
                     int32_t* ids) {
  int64_t found = 0;
  float limit = -kInfinity;
  for (int64_t start = 0; start < count; start += kLanes) {
    const bool is_whole = start + kLanes <= count;
    if (is_whole && !any_above(values + start, limit)) continue;
    const int64_t end = is_whole ? start + kLanes : count;
    for (int64_t i = start; i < end; ++i) {
      if (!(values[i] > limit)) continue;
      int64_t place = found < wanted ? found++ : wanted - 1;
      for (; place > 0 && values[i] > best[place - 1]; --place) {
        best[place] = best[place - 1];
        ids[place] = ids[place - 1];
      }
      best[place] = values[i];
      ids[place] = static_cast<int32_t>(i);
      if (found == wanted) limit = best[wanted - 1];
    }
  }
  return found;
}

}  // namespace QUINTAIN_ISA
}  // namespace quintain
