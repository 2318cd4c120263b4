// Runs the kernels of sums and their normalisation on memory that ends where their numbers end.

#include "residual_norm.h"

#include "driver.h"

template <typename T, typename I, typename O>
void Run(int level_bytes, int64_t width) {
  const int64_t rows = 3, size = rows * width;
  const auto residual = Numbers<T>(size);
  const auto inputs = Numbers<I>(size);
  const auto weights = Numbers<float>(width);
  std::vector<T> total(size), residual_gradient(size);
  std::vector<I> inputs_gradient(size);
  std::vector<O> outputs(size);
  std::vector<float> means(rows), scales(rows), gamma(width), beta(width);
  const quintain::ResidualNorm<T, I, O> given{
      width,          1e-6f,        Draw(level_bytes), residual.data(), inputs.data(),
      weights.data(), weights.data(), total.data(),      outputs.data(),  means.data(),
      scales.data()};
  RunShort([&] { return QUINTAIN_DISPATCH(residual_norm, given, 0, rows); });
  const quintain::ResidualNormGradient<T, I, O> upstream{
      width,          Draw(level_bytes), total.data(),   means.data(),
      scales.data(),  weights.data(),    total.data(),   outputs.data(),
      residual_gradient.data(), inputs_gradient.data()};
  RunShort([&] {
    return QUINTAIN_DISPATCH(residual_norm_gradient, upstream, 0, rows, gamma.data(), beta.data());
  });
  CHECK(std::isfinite(Sum(inputs_gradient)));
  CHECK(std::fabs(Sum(beta) - Sum(outputs)) <= 1e-3 * size);
}

int main() {
  return RunAll({1, 2, 31, 33, 64, 513}, [](int level_bytes, int64_t width) {
    Run<float, float, float>(level_bytes, width);
    Run<float, float, bf16>(level_bytes, width);
    Run<float, bf16, float>(level_bytes, width);
    Run<float, bf16, bf16>(level_bytes, width);
    Run<bf16, bf16, float>(level_bytes, width);
    Run<bf16, bf16, bf16>(level_bytes, width);
  });
}
