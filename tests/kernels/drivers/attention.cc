// Runs the kernels of attention on memory that ends where their numbers end.

#include "attention.h"

#include "driver.h"

template <typename T>
void Run(int level_bytes, int64_t keys, int64_t size, int64_t queries) {
  const int64_t heads = 2, units = 2 * heads, width = heads * size;
  const int64_t rows = 2 * queries * width, memory_rows = 2 * keys * 2 * width;
  const auto query = Numbers<T>(rows), memory = Numbers<T>(memory_rows), up = Numbers<T>(rows);
  const auto bias = Numbers<T>(2 * queries * keys);
  std::vector<T> mixed(rows), query_gradient(rows), memory_gradient(memory_rows);
  const quintain::Attention given{heads, queries,   keys, size, width,
                                  2 * width, 0.125f, {queries * keys, 0, keys, 1}, Draw(level_bytes)};
  const quintain::Attended<const T> from{query.data(), memory.data(), memory.data() + width};
  const quintain::Attended<T> gradient{query_gradient.data(), memory_gradient.data(),
                                       memory_gradient.data() + width};
  RunShort([&] {
    return QUINTAIN_DISPATCH(attend, from, bias.data(), given, mixed.data(), 0, units);
  });
  RunShort([&] {
    return QUINTAIN_DISPATCH(attend_gradient, from, bias.data(), up.data(), given, gradient, 0,
                             units);
  });
  std::vector<float> sums(2 * queries * keys);
  const quintain::BiasHeads second{heads, 1, heads};  // of the example, whose bias is the last
  RunShort([&] {
    return QUINTAIN_DISPATCH(attend_bias_gradient, from, bias.data(), up.data(), given, second,
                             sums.data() + queries * keys);
  });
  CHECK(std::isfinite(Sum(sums)));
  CHECK(std::fabs(Sum(sums)) <= 1e-3 * queries * keys);  // Those of a query add up to zero.
  CHECK(std::isfinite(Sum(mixed)));
  CHECK(std::isfinite(Sum(query_gradient)));
  CHECK(std::isfinite(Sum(memory_gradient)));
  const T* nothing = nullptr;
  const std::vector<T> before = mixed;
  QUINTAIN_DISPATCH(attend, from, nothing, given, mixed.data(), 1, 2);
  QUINTAIN_DISPATCH(attend, from, bias.data(), given, mixed.data(), 1, 2);
  CHECK(Sum(mixed) == Sum(before));
}

int main() {
  return RunAll({1, 2, 15, 33, 64, 2049}, [](int level_bytes, int64_t keys) {
    for (int64_t size : {1, 7, 32, 65}) {
      Run<float>(level_bytes, keys, size, 3);
      Run<bf16>(level_bytes, keys, size, keys > 64 ? 25 : 101);
    }
  });
}
