// Runs the kernels of the cross entropy on memory that ends where their numbers end.

#include "cross_entropy.h"
#include "driver.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <memory>

namespace {

template <typename T>
void Run(int64_t rows, int64_t classes) {
  std::unique_ptr<T[]> logits(new T[rows * classes]);
  std::unique_ptr<int32_t[]> labels(new int32_t[rows]);
  std::unique_ptr<float[]> numbers(new float[6 * rows]);
  for (int64_t i = 0; i < rows * classes; ++i) Set(&logits[i], float(i * 37 % 101) / 10 - 5);
  for (int64_t i = 0; i < rows; ++i) labels[i] = int32_t(i % classes);
  float* all = numbers.get();
  const quintain::LogitStatistics statistics{all, all + rows, all + 2 * rows, all + 3 * rows,
                                             all + 4 * rows};
  float* upstream = all + 5 * rows;
  for (int64_t i = 0; i < rows; ++i) upstream[i] = 1.0f;
  QUINTAIN_DISPATCH(measure_logits, logits.get(), labels.get(), statistics, classes, 0, rows);
  const quintain::CrossEntropyGradient given{statistics.maximum, statistics.exp_sum, upstream, 1.0f,
                                             0.0f};
  QUINTAIN_DISPATCH(cross_entropy_gradient, logits.get(), labels.get(), given, logits.get(), classes,
                    0, rows);
  for (int64_t row = 0; row < rows; ++row) {
    CHECK(statistics.exp_sum[row] >= 1.0f);
    double sum = 0;
    for (int64_t i = 0; i < classes; ++i) {
      sum += quintain::avx2::to_float(logits[row * classes + i]);
    }
    CHECK(std::fabs(sum) < (sizeof(T) == 2 ? 2e-2 : 1e-5));
  }
}

}  // namespace

void RunOnce() {
  for (int64_t classes : {1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 1001}) {
    for (int64_t rows : {0, 1, 3}) {
      Run<float>(rows, classes);
      Run<bf16>(rows, classes);
    }
  }
}

int main() { return RunSets(RunOnce); }
