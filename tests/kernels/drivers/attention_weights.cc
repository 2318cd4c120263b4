// Runs the kernels of attention's weights on memory that ends where their numbers end.

#include "attention_weights.h"

#include "driver.h"

template <typename T>
void Run(int level_bytes, int64_t keys) {
  const int64_t rows = 2 * 2 * 3, size = rows * keys;  // examples, heads, queries
  const auto scores = Numbers<T>(size);
  const auto bias = Numbers<T>(2 * 3 * keys);
  std::vector<T> weights(size), dropped(size), gradient(size);
  const quintain::AttentionRows given{2, 3, keys, 0.5f, {3 * keys, 0, keys, 1}, Draw(level_bytes)};
  T* kept = level_bytes ? dropped.data() : nullptr;
  RunShort([&] {
    return QUINTAIN_DISPATCH(attention_weights, scores.data(), bias.data(), given, weights.data(),
                             kept, 0, rows);
  });
  CHECK(std::fabs(Sum(weights) - rows) <= 0.02 * rows);
  RunShort([&] {
    return QUINTAIN_DISPATCH(attention_weights_gradient, weights.data(), scores.data(), given,
                             gradient.data(), 0, rows);
  });
  CHECK(std::isfinite(Sum(gradient)));
  std::vector<float> sums(2 * 3 * keys);
  const quintain::BiasHeads second{2, 1, 2};  // of the example, whose bias is the last
  RunShort([&] {
    return QUINTAIN_DISPATCH(attention_weights_bias_gradient, weights.data(), scores.data(), given,
                             second, sums.data() + 3 * keys);
  });
  CHECK(std::isfinite(Sum(sums)));
  CHECK(std::fabs(Sum(sums)) <= 1e-3 * keys);  // Those of a query add up to zero.
  const T* nothing = nullptr;
  QUINTAIN_DISPATCH(attention_weights, scores.data(), nothing, given, weights.data(), kept, 1,
                    rows);
}

int main() {
  return RunAll({1, 15, 16, 33, 48, 1025, 2049}, [](int level_bytes, int64_t keys) {
    Run<float>(level_bytes, keys);
    Run<bf16>(level_bytes, keys);
  });
}
