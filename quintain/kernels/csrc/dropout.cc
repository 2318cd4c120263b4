#include "dropout.h"

#include "philox.h"

namespace quintain {
namespace QUINTAIN_ISA {
namespace {

constexpr int kChunk = 2048;  // numbers whose factors are drawn at a time

template <typename From, typename To>
static void drop(const From* inputs, const To* residual, const DropoutDraw& draw, To* outputs,
                 int64_t begin, int64_t end) {
  float factors[kChunk];
  for (int64_t first = begin; first < end; first += kChunk) {
    const int count = static_cast<int>(end - first < kChunk ? end - first : kChunk);
    draw_factors(draw, first, count, factors);
    const From* in = inputs + first;
    To* out = outputs + first;
    if (residual == nullptr) {
#pragma GCC ivdep
      for (int i = 0; i < count; ++i) store(to_float(in[i]) * factors[i], out + i);
    } else {
      const To* more = residual + first;
#pragma GCC ivdep
      for (int i = 0; i < count; ++i) {
        store(to_float(more[i]) + to_float(in[i]) * factors[i], out + i);
      }
    }
  }
}

}  // namespace

#define QUINTAIN_DEFINE_DROPOUT(From, To)                                                         \
  void dropout(const From* inputs, const To* residual, const DropoutDraw& draw, To* outputs,      \
               int64_t begin, int64_t end) {                                                      \
    drop(inputs, residual, draw, outputs, begin, end);                                            \
  }
QUINTAIN_DEFINE_DROPOUT(float, float)
QUINTAIN_DEFINE_DROPOUT(float, bf16)
QUINTAIN_DEFINE_DROPOUT(bf16, float)
QUINTAIN_DEFINE_DROPOUT(bf16, bf16)

}  // namespace QUINTAIN_ISA
}  // namespace quintain
