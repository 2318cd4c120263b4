// Multiplies matrices of bfloat16 on memory that ends where their numbers end.
//
// `PRODUCT_CALL(function, arguments...)` calls what is tested.

#ifndef QUINTAIN_TESTS_KERNELS_PRODUCT_RUNS_H_
#define QUINTAIN_TESTS_KERNELS_PRODUCT_RUNS_H_

#include "driver.h"
#include "products.h"

namespace {

using quintain::Product;

template <typename T>
void Run(int64_t rows, int64_t inputs, int64_t outputs, bool is_left_turned, bool is_right_turned) {
  const auto left = Numbers<bf16>(rows * inputs), bias = Numbers<bf16>(outputs);
  const auto right = Numbers<T>(inputs * outputs);
  std::vector<bf16> result(rows * outputs);
  std::vector<float> sums(outputs);
  Product given = {};
  given.rows = rows, given.inputs = inputs, given.outputs = outputs;
  given.is_left_transposed = is_left_turned, given.is_right_transposed = is_right_turned;
  PRODUCT_CALL(plan_product, &given);
  given.left = left.data(), given.bias = bias.data(), given.product = result.data();
  const int64_t panels = quintain::NumPanels(given), units = quintain::NumUnits(given);
  std::vector<uint32_t> packed(panels * quintain::PanelPairs(given));
  float* added = is_right_turned ? nullptr : sums.data();
  QUINTAIN_DISPATCH(pack_panels, given, right.data(), packed.data(), added, 0, panels / 2);
  QUINTAIN_DISPATCH(pack_panels, given, right.data(), packed.data(), added, panels / 2, panels);
  std::vector<uint16_t> packed_rows(given.packed_rows);
  const int64_t groups = quintain::NumGroups(given);
  PRODUCT_CALL(pack_left, given, packed_rows.data(), 0, groups / 2);
  PRODUCT_CALL(pack_left, given, packed_rows.data(), groups / 2, groups);
  if (rows > 0) {
    const uint16_t* left_rows = packed_rows.data();
    PRODUCT_CALL(multiply_units, given, left_rows, packed.data(), 0, units / 2);
    PRODUCT_CALL(multiply_units, given, left_rows, packed.data(), units / 2, units);
  }
  for (int64_t c = 0; c < outputs; ++c) {
    double total = 0;
    for (int64_t k = 0; k < inputs; ++k) {
      const T number = right[is_right_turned ? c * inputs + k : k * outputs + c];
      total += quintain::avx2::to_float(quintain::avx2::to_bf16(quintain::avx2::to_float(number)));
    }
    if (added != nullptr) CHECK(std::fabs(total - sums[c]) <= 1e-5 * (1 + 5 * inputs));
    for (int64_t r = 0; r < rows; ++r) {
      double sum = quintain::avx2::to_float(bias[c]);
      for (int64_t k = 0; k < inputs; ++k) {
        const T number = right[is_right_turned ? c * inputs + k : k * outputs + c];
        const bf16 rounded = quintain::avx2::to_bf16(quintain::avx2::to_float(number));
        sum += double(quintain::avx2::to_float(left[is_left_turned ? k * rows + r : r * inputs + k])) *
               quintain::avx2::to_float(rounded);
      }
      const double found = quintain::avx2::to_float(result[r * outputs + c]);
      CHECK(std::fabs(found - sum) <= std::fabs(sum) / 256 + 1e-5 * (5 + 25 * inputs));
    }
  }
}

}  // namespace

void RunOnce() {
  for (int64_t rows : {0, 1, 12, 16, 17, 41, 109}) {
    for (int64_t inputs : {0, 1, 2, 31, 64, 66}) {
      for (int64_t outputs : {1, 31, 32, 65}) {
        for (int turned = 0; turned < 4; ++turned) {
          Run<float>(rows, inputs, outputs, turned & 1, turned & 2);
          Run<bf16>(rows, inputs, outputs, turned & 1, turned & 2);
        }
      }
    }
  }
  Run<bf16>(900, 66, 33, true, false);  // more rows than are packed before the next inputs of any
}

#endif  // QUINTAIN_TESTS_KERNELS_PRODUCT_RUNS_H_
