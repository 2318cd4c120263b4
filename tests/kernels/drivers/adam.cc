// Runs the kernels of Adam on memory that ends where their numbers end.

#include "adam.h"
#include "driver.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>

namespace {

// Writes the weights, both means and the averages into `numbers`, after an update.
template <typename T>
double Run(int64_t size, bool is_decaying, bool has_average, float* numbers) {
  std::unique_ptr<T[]> gradient(new T[size]);
  for (int64_t i = 0; i < size; ++i) Set(&gradient[i], float(i * 37 % 101) / 8 - 6);
  for (int64_t i = 0; i < 4 * size; ++i) numbers[i] = float(i * 41 % 97) / 97;
  const quintain::AdamBlock block{numbers,     numbers + size,
                                  numbers + 2 * size, has_average ? numbers + 3 * size : nullptr,
                                  is_decaying, size};
  const quintain::AdamScalars scalars{0.1f, 0.1f, 0.02f, 1e-9f, 0.5f, 0.01f, 0.9f};
  QUINTAIN_DISPATCH(update_adam, block, gradient.get(), scalars);
  double exact = 0;
  for (int64_t i = 0; i < size; ++i) {
    const double number = quintain::avx2::to_float(gradient[i]);
    exact += 0.5 * number * number;
  }
  const double sum = QUINTAIN_DISPATCH(sum_half_squares, gradient.get(), size);
  CHECK(std::fabs(sum - exact) <= 1e-6 * exact);
  return sum;
}

template <typename T>
void Compare(int64_t size, bool is_decaying, bool has_average) {
  std::unique_ptr<float[]> first(new float[4 * size]);
  std::unique_ptr<float[]> other(new float[4 * size]);
  quintain_limit_isa(1);
  const double sum = Run<T>(size, is_decaying, has_average, first.get());
  for (int isa = 2; isa <= static_cast<int>(quintain::FindIsa()); ++isa) {
    CHECK(quintain_limit_isa(isa) == isa);
    CHECK(Run<T>(size, is_decaying, has_average, other.get()) == sum);
    CHECK(size == 0 || std::memcmp(first.get(), other.get(), 4 * size * sizeof(float)) == 0);
  }
}

}  // namespace

void RunOnce() {
  for (int64_t size : {0, 1, 15, 16, 17, 31, 33, 64, 127, 2047, 2049, 70001}) {
    for (bool is_decaying : {false, true}) {
      for (bool has_average : {false, true}) {
        Compare<float>(size, is_decaying, has_average);
        Compare<bf16>(size, is_decaying, has_average);
      }
    }
  }
}

int main() { return RunSets(RunOnce); }
