// Runs the kernel of dropout on memory that ends where its numbers end.

#include "dropout.h"

#include "driver.h"

template <typename From, typename To>
void Run(int level_bytes, int64_t size) {
  const auto inputs = Numbers<From>(size);
  const auto residual = Numbers<To>(size);
  std::vector<To> whole(size), parts(size);
  const quintain::DropoutDraw draw = Draw(level_bytes);
  QUINTAIN_DISPATCH(dropout, inputs.data(), residual.data(), draw, whole.data(), 0, size);
  QUINTAIN_DISPATCH(dropout, inputs.data(), residual.data(), draw, parts.data(), 0, size / 3);
  QUINTAIN_DISPATCH(dropout, inputs.data(), residual.data(), draw, parts.data(), size / 3, size);
  CHECK(Sum(whole) == Sum(parts));
  const To* nothing = nullptr;
  QUINTAIN_DISPATCH(dropout, inputs.data(), nothing, draw, whole.data(), 0, size);
}

int main() {
  return RunAll({0, 1, 15, 17, 255, 257, 2049, 5003}, [](int level_bytes, int64_t size) {
    Run<float, float>(level_bytes, size);
    Run<bf16, float>(level_bytes, size);
    Run<float, bf16>(level_bytes, size);
    Run<bf16, bf16>(level_bytes, size);
  });
}
