// Runs the kernels of activations on memory that ends where their numbers end.

#include "activation.h"

#include "driver.h"

template <typename T>
void Run(int level_bytes, int64_t width) {
  const int64_t rows = 3, size = rows * width;
  const auto inputs = Numbers<T>(size);
  std::vector<T> outputs(size), slopes(size), gradient(size);
  std::vector<float> sums(width);
  const quintain::DropoutDraw draw = Draw(level_bytes);
  QUINTAIN_DISPATCH(relu_dropout, inputs.data(), draw, outputs.data(), 0, size);
  QUINTAIN_DISPATCH(relu_gradient, outputs.data(), inputs.data(), draw.scale, gradient.data(),
                    width, 0, rows, sums.data());
  CHECK(std::fabs(Sum(sums) - Sum(gradient)) <= 0.02 * size);
  QUINTAIN_DISPATCH(gelu_dropout, inputs.data(), draw, outputs.data(), slopes.data(), 0, size);
  QUINTAIN_DISPATCH(slope_gradient, slopes.data(), inputs.data(), gradient.data(), width, 0, rows,
                    sums.data());
  QUINTAIN_DISPATCH(add_rows, inputs.data(), width, 0, rows, sums.data());
  CHECK(std::isfinite(Sum(sums)));
}

int main() {
  return RunAll({0, 1, 15, 17, 33, 701}, [](int level_bytes, int64_t width) {
    Run<float>(level_bytes, width);
    Run<bf16>(level_bytes, width);
  });
}
