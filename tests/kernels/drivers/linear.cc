// Multiplies rows by matrices on memory that ends where their numbers end.

#include "linear.h"
#include "driver.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <vector>

namespace {

using quintain::Activation;
using quintain::kPanel;
using quintain::Matrix;
using quintain::Precision;

int8_t Weight(int64_t k, int64_t c) { return static_cast<int8_t>((k * 7 + c * 13) % 255 - 127); }

void Run(Precision precision, int64_t rows, int64_t inputs, int64_t outputs) {
  const int64_t columns = (outputs + kPanel - 1) / kPanel * kPanel;
  const int64_t size = precision == Precision::kFloat32 ? 4 : precision == Precision::kInt8 ? 1 : 2;
  const int64_t together = 4 / size;
  std::vector<char> packed(columns * inputs * size);
  std::vector<float> bias(columns, 0.25f), scales(columns, 1.0f), x(rows * inputs);
  std::vector<int32_t> sums(columns);
  for (int64_t k = 0; k < inputs; ++k) {
    for (int64_t c = 0; c < outputs; ++c) {
      const int64_t place = c / kPanel * kPanel * inputs +
                            (k / together * kPanel + c % kPanel) * together + k % together;
      const float value = Weight(k, c);
      uint32_t bits;
      std::memcpy(&bits, &value, 4);
      const uint16_t half = bits >> 16;  // Small integers have no more bits.
      sums[c] += 128 * Weight(k, c);
      if (size == 4) std::memcpy(packed.data() + place * 4, &value, 4);
      if (size == 2) std::memcpy(packed.data() + place * 2, &half, 2);
      if (size == 1) packed[place] = Weight(k, c);
    }
  }
  // The largest number of a row is 127, so that nothing is rounded.
  for (int64_t i = 0; i < rows * inputs; ++i) x[i] = i % inputs ? float(i * 37 % 255) - 127 : 127;
  const Matrix matrix = {precision,   inputs,        outputs,    packed.data(),
                         bias.data(), scales.data(), sums.data()};
  std::vector<char> scratch(rows * (2 * inputs + 4));
  std::vector<float> y(rows * outputs);
  QUINTAIN_DISPATCH(multiply, matrix, x.data(), rows, Activation::kNone, y.data(), outputs,
                    scratch.data());
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < outputs; ++c) {
      double sum = 0.25;
      for (int64_t k = 0; k < inputs; ++k) sum += double(x[r * inputs + k]) * Weight(k, c);
      CHECK(std::fabs(y[r * outputs + c] - sum) <= 1e-6 * 127 * 127 * inputs);
    }
  }
  std::vector<float> z(rows * outputs);
  QUINTAIN_DISPATCH(multiply, matrix, x.data(), rows, Activation::kRelu, z.data(), outputs,
                    scratch.data());
  for (int64_t i = 0; i < rows * outputs; ++i) CHECK(z[i] == std::fmax(y[i], 0.0f));
  if (rows == 0) return;
  x[inputs - 1] = NAN;
  QUINTAIN_DISPATCH(multiply, matrix, x.data(), rows, Activation::kRelu, y.data(), outputs,
                    scratch.data());
  CHECK(std::isnan(y[0]));
  for (int64_t i = outputs; i < rows * outputs; ++i) CHECK(!std::isnan(y[i]));
}

}  // namespace

void RunOnce() {
  for (int isa = 1; isa <= static_cast<int>(quintain::FindIsa()); ++isa) {
    CHECK(quintain_limit_isa(isa) == isa);
    for (Precision precision : {Precision::kFloat32, Precision::kBfloat16, Precision::kInt8}) {
      for (int64_t outputs : {1, 31, 32, 33, 65}) {
        for (int64_t rows : {0, 1, 3, 4, 11, 12, 13, 25}) Run(precision, rows, 36, outputs);
      }
    }
  }
}

int main() { return RunSets(RunOnce); }
