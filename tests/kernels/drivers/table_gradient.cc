// Runs the kernel of a table's gradient on memory that ends where its numbers end.

#include "table_gradient.h"

#include "driver.h"

// Row 0 is looked up twice, the last one once, those between never.
template <typename T>
void Run(int64_t rows, int64_t width) {
  const auto dense = Numbers<T>(rows * width);
  const auto gradients = Numbers<float>(3 * width);
  const std::vector<int64_t> order = {0, 2, 1};
  std::vector<int64_t> starts(rows + 1, 2);
  starts[0] = 0;
  starts[rows] = 3;
  std::vector<float> total(rows * width);
  const quintain::LookedUp looked_up{gradients.data(), order.data(), starts.data()};
  QUINTAIN_DISPATCH(table_gradient, dense.data(), looked_up, total.data(), width, 0, 1);
  QUINTAIN_DISPATCH(table_gradient, dense.data(), looked_up, total.data(), width, 1, rows);
  CHECK(std::fabs(Sum(total) - Sum(dense) - Sum(gradients)) <= 1e-4 * rows * width);
}

void RunOnce() {
  for (int64_t rows : {1, 2, 5}) {
    for (int64_t width : {1, 3, 16, 511, 512, 513}) {
      Run<float>(rows, width);
      Run<bf16>(rows, width);
    }
  }
}

int main() { return RunSets(RunOnce); }
