// Attends, normalises and searches on memory that ends where the numbers end.

#include "decoding.h"
#include "driver.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <vector>

namespace {

float Number(int64_t i) { return float(i * 37 % 101) / 25 - 2; }

void Attend(int64_t heads, int64_t width, int64_t count) {
  const int64_t size = heads * width;
  std::vector<float> queries(size), pool((count + 1) * 2 * size), mixed(size);
  std::vector<float> scratch(heads * (count + 16));
  std::vector<int32_t> places(count);
  for (size_t i = 0; i < queries.size(); ++i) queries[i] = Number(i);
  for (size_t i = 0; i < pool.size(); ++i) pool[i] = Number(i + 5);
  for (int64_t t = 0; t < count; ++t) places[t] = int32_t(count - t);
  const quintain::Past past = {pool.data(), pool.data() + size, 2 * size, places.data(), count};
  QUINTAIN_DISPATCH(attend, queries.data(), past, heads, width, mixed.data(), scratch.data());
  for (int64_t h = 0; h < heads; ++h) {
    std::vector<double> weights(count);
    double sum = 0;
    for (int64_t t = 0; t < count; ++t) {
      double score = 0;
      for (int64_t i = h * width; i < (h + 1) * width; ++i) {
        score += double(queries[i]) * pool[places[t] * 2 * size + i];
      }
      sum += weights[t] = std::exp(score / std::sqrt(double(width)));
    }
    for (int64_t i = h * width; i < (h + 1) * width; ++i) {
      double expected = 0;
      for (int64_t t = 0; t < count; ++t) {
        expected += weights[t] / sum * pool[places[t] * 2 * size + size + i];
      }
      CHECK(std::fabs(mixed[i] - expected) < 1e-5);
    }
  }
}

void Normalize(int64_t rows, int64_t width) {
  std::vector<float> x(rows * width), y(rows * width), gamma(width, 2.0f), beta(width, 1.0f);
  for (size_t i = 0; i < x.size(); ++i) x[i] = Number(i), y[i] = Number(i * 3 + 1);
  std::vector<float> sums(x), total(rows * width);
  QUINTAIN_DISPATCH(add_rows, x.data(), y.data(), rows * width, total.data());
  QUINTAIN_DISPATCH(normalize, x.data(), y.data(), gamma.data(), beta.data(), 1e-6f, rows, width,
                    x.data());
  for (int64_t row = 0; row < rows; ++row) {
    double mean = 0, square = 0;
    for (int64_t i = row * width; i < (row + 1) * width; ++i) {
      CHECK(total[i] == sums[i] + y[i]);
      mean += (x[i] - 1) / 2 / width;
      square += (x[i] - 1) / 2 * (x[i] - 1) / 2 / width;
    }
    CHECK(std::fabs(mean) < 1e-5 && std::fabs(square - 1) < 1e-4);
  }
}

void Rank(int64_t count, int64_t wanted) {
  std::vector<float> values(count), best(wanted);
  std::vector<int32_t> ids(wanted), order(count);
  for (int64_t i = 0; i < count; ++i) values[i] = i % 5 == 4 ? -INFINITY : Number(i), order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return values[a] > values[b]; });
  const int64_t finite = count - count / 5;
  const int64_t found = QUINTAIN_DISPATCH(find_largest, values.data(), count, wanted, best.data(),
                                          ids.data());
  CHECK(found == std::min(wanted, finite));
  for (int64_t i = 0; i < found; ++i) CHECK(ids[i] == order[i] && best[i] == values[order[i]]);
  for (float shift : {0.0f, 4096.0f}) {  // Of large logits, no digit of a small logarithm is lost.
    for (float& value : values) value += shift;
    double sum = 0;
    const float largest = *std::max_element(values.begin(), values.end());
    for (float value : values) sum += std::exp(double(value) - largest);
    const quintain::LogSum total = QUINTAIN_DISPATCH(log_sum_exp, values.data(), count);
    CHECK(total.largest == largest);
    CHECK(std::fabs(total.log_rest - std::log(sum)) < 1e-6);
  }
}

}  // namespace

void RunOnce() {
  for (int isa = 1; isa <= static_cast<int>(quintain::FindIsa()); ++isa) {
    CHECK(quintain_limit_isa(isa) == isa);
    for (int64_t count : {1, 2, 15, 16, 17, 40}) {
      Attend(2, 8, count);
      Attend(3, 16, count);
      Attend(1, 24, count);
      for (int64_t rows : {0, 1, 3}) Normalize(rows, 8 * count);
      for (int64_t wanted : {1, 2, 8}) Rank(count, wanted);
      Rank(1000 + count, 8);
    }
  }
}

int main() { return RunSets(RunOnce); }
