#include "table_gradient.h"

namespace quintain {
namespace QUINTAIN_ISA {
namespace {

constexpr int kChunk = 512;  // numbers that are summed at a time

template <typename T>
static void add_row(const T* dense, const LookedUp& looked_up, float* total, int64_t width,
                    int64_t first, int64_t last) {
  float sums[kChunk];
  for (int64_t start = 0; start < width; start += kChunk) {
    const int count = static_cast<int>(width - start < kChunk ? width - start : kChunk);
    for (int i = 0; i < count; ++i) sums[i] = 0.0f;
    for (int64_t place = first; place < last; ++place) {
      const float* gradient = looked_up.gradients + looked_up.order[place] * width + start;
#pragma GCC ivdep
      for (int i = 0; i < count; ++i) sums[i] += gradient[i];
    }
#pragma GCC ivdep
    for (int i = 0; i < count; ++i) total[start + i] = to_float(dense[start + i]) + sums[i];
  }
}

template <typename T>
static void add(const T* dense, const LookedUp& looked_up, float* total, int64_t width,
                int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const int64_t first = looked_up.starts[row], last = looked_up.starts[row + 1];
    const T* in = dense + row * width;
    float* out = total + row * width;
    if (first < last) {
      add_row(in, looked_up, out, width, first, last);
    } else {
#pragma GCC ivdep
      for (int64_t i = 0; i < width; ++i) out[i] = to_float(in[i]);
    }
  }
}

}  // namespace

#define QUINTAIN_DEFINE_TABLE_GRADIENT(T)                                                   \
  void table_gradient(const T* dense, LookedUp looked_up, float* total, int64_t width,      \
                      int64_t begin, int64_t end) {                                         \
    add(dense, looked_up, total, width, begin, end);                                        \
  }
QUINTAIN_DEFINE_TABLE_GRADIENT(float)
QUINTAIN_DEFINE_TABLE_GRADIENT(bf16)

}  // namespace QUINTAIN_ISA
}  // namespace quintain
