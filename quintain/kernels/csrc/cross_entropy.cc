#include "cross_entropy.h"

#include "exponential.h"

namespace quintain {
namespace QUINTAIN_ISA {
namespace {

// Sums are kept in as many parts as the widest vectors have numbers, four vectors of them, so that
// every instruction set adds in the same order.
constexpr int kLanes = 64;

struct Sums {
  float maximum;
  float sum;
};

static inline float add_lanes(const float* lanes) {
  float total = 0.0f;
  for (int lane = 0; lane < kLanes; ++lane) total += lanes[lane];
  return total;
}

template <typename T>
static inline Sums find_maximum_and_sum(const T* row, int64_t size) {
  float largest[kLanes];
  float sums[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) {
    largest[lane] = -__builtin_inff();
    sums[lane] = 0.0f;
  }
  int64_t start = 0;
  for (; start + kLanes <= size; start += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const float value = to_float(row[start + lane]);
      largest[lane] = value > largest[lane] ? value : largest[lane];
      sums[lane] += value;
    }
  }
  for (int lane = 0; start + lane < size; ++lane) {
    const float value = to_float(row[start + lane]);
    largest[lane] = value > largest[lane] ? value : largest[lane];
    sums[lane] += value;
  }
  float maximum = largest[0];
  for (int lane = 1; lane < kLanes; ++lane) {
    maximum = largest[lane] > maximum ? largest[lane] : maximum;
  }
  return Sums{maximum, add_lanes(sums)};
}

template <typename T>
static inline float sum_exponentials(const T* row, float maximum, int64_t size) {
  float sums[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) sums[lane] = 0.0f;
  int64_t start = 0;
  for (; start + kLanes <= size; start += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      sums[lane] += exp_of_negative(to_float(row[start + lane]) - maximum);
    }
  }
  for (int lane = 0; start + lane < size; ++lane) {
    sums[lane] += exp_of_negative(to_float(row[start + lane]) - maximum);
  }
  return add_lanes(sums);
}

// Returns whether a label is the first of the largest. As TensorFlow begins with the first class and
// the lowest finite number, that is the first class where nothing is above it, as in a row of NaN.
template <typename T>
static inline bool is_likeliest(const T* row, int64_t label, float maximum) {
  if (!(maximum > -__FLT_MAX__)) return label == 0;
  if (to_float(row[label]) != maximum) return false;
  int num_equal = 0;
  for (int64_t place = 0; place < label; ++place) num_equal += to_float(row[place]) == maximum;
  return num_equal == 0;
}

template <typename T>
static void measure(const T* logits, const int32_t* labels, LogitStatistics statistics,
                    int64_t num_classes, int64_t begin, int64_t end) {
  for (int64_t index = begin; index < end; ++index) {
    const T* row = logits + index * num_classes;
    const int64_t label = labels[index];
    const bool is_class = label >= 0 && label < num_classes;
    const float label_logit = is_class ? to_float(row[label]) : __builtin_nanf("");
    const Sums sums = find_maximum_and_sum(row, num_classes);
    statistics.maximum[index] = sums.maximum;
    statistics.exp_sum[index] = sum_exponentials(row, sums.maximum, num_classes);
    statistics.logit_sum[index] = sums.sum;
    statistics.label_logit[index] = label_logit;
    const bool is_right = is_class && is_likeliest(row, label, sums.maximum);
    statistics.is_right[index] = is_right ? 1.0f : 0.0f;
  }
}

template <typename T>
static void differentiate(const T* logits, const int32_t* labels, CrossEntropyGradient given,
                          T* gradient, int64_t num_classes, int64_t begin, int64_t end) {
  const float off = given.off;
  for (int64_t index = begin; index < end; ++index) {
    const T* row = logits + index * num_classes;
    T* results = gradient + index * num_classes;
    const float maximum = given.maximum[index];
    const float scale = 1.0f / given.exp_sum[index];
    const float upstream = given.upstream[index];
    const int64_t label = labels[index];
    const float label_chance = exp_of_negative(to_float(row[label]) - maximum) * scale;
#pragma GCC ivdep
    for (int64_t place = 0; place < num_classes; ++place) {
      const float chance = exp_of_negative(to_float(row[place]) - maximum) * scale;
      store((chance - off) * upstream, &results[place]);
    }
    store((label_chance - given.on) * upstream, &results[label]);
  }
}

}  // namespace

void measure_logits(const float* logits, const int32_t* labels, LogitStatistics statistics,
                    int64_t num_classes, int64_t begin, int64_t end) {
  measure(logits, labels, statistics, num_classes, begin, end);
}

void measure_logits(const bf16* logits, const int32_t* labels, LogitStatistics statistics,
                    int64_t num_classes, int64_t begin, int64_t end) {
  measure(logits, labels, statistics, num_classes, begin, end);
}

void cross_entropy_gradient(const float* logits, const int32_t* labels, CrossEntropyGradient given,
                            float* gradient, int64_t num_classes, int64_t begin, int64_t end) {
  differentiate(logits, labels, given, gradient, num_classes, begin, end);
}

void cross_entropy_gradient(const bf16* logits, const int32_t* labels, CrossEntropyGradient given,
                            bf16* gradient, int64_t num_classes, int64_t begin, int64_t end) {
  differentiate(logits, labels, given, gradient, num_classes, begin, end);
}

}  // namespace QUINTAIN_ISA
}  // namespace quintain
