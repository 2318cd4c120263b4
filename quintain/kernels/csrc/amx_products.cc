// The products of `products.h` by the processor's units for whole tiles (AMX).
//
// A tile has up to 16 rows of 64 bytes. 32 rows of the left matrix times a panel are added up in
// four tiles; two more hold 32 inputs of the rows, and two the same inputs of the panel, in pairs.
// Tiles take denormal numbers for zero, and sum the first and the second numbers of 16 pairs apart.

#include "products.h"

#ifdef QUINTAIN_KNOWS_AMX

#include <string.h>

#include "amx.h"
#include "product_units.h"
#include "strips.h"

namespace quintain {
namespace QUINTAIN_ISA {
namespace {

constexpr int64_t kDepth = 32;           // inputs of a tile's row
constexpr int64_t kHeight = 16;          // rows of a tile
constexpr int64_t kGroup = 2 * kHeight;  // rows that are multiplied together
constexpr int64_t kSpan = 384;           // rows that are turned before the next inputs of any

// The tiles of this thread, which are given back with the shapes that they had.
class Tiles {
 public:
  Tiles() { keep_shapes(&others_); }

  ~Tiles() {
    if (others_.palette == 0) {
      release_tiles();
    } else {
      load_shapes(others_);
    }
  }

  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;

  // Shapes them for so many rows of the left matrix, at most a group's.
  void shape(int64_t rows) {
    if (rows == rows_) return;
    rows_ = rows;
    const int64_t upper = rows < kHeight ? rows : kHeight, lower = rows - upper;
    TileShapes shapes = {};
    shapes.palette = 1;
    const int64_t heights[8] = {upper, upper, lower, lower, upper, lower, kHeight, kHeight};
    for (int tile = 0; tile < 8; ++tile) {
      if (heights[tile] == 0) continue;
      shapes.row_bytes[tile] = 64;
      shapes.rows[tile] = static_cast<uint8_t>(heights[tile]);
    }
    load_shapes(shapes);
  }

 private:
  TileShapes others_;
  int64_t rows_ = 0;
};

// Multiplies a group of rows by one panel.
template <bool kHasLower>
void multiply_group(const uint16_t* x, const uint32_t* panel, int64_t inputs, float* strip,
                    Ahead ahead) {
  zero_tile<0>();
  zero_tile<1>();
  if (kHasLower) {
    zero_tile<2>();
    zero_tile<3>();
  }
  for (int64_t k = 0; k < inputs; k += kDepth, panel += kDepth / 2 * kPanel) {
    for (int64_t i = 0; i < ahead.step; i += 64) _mm_prefetch(ahead.next + i, _MM_HINT_T1);
    ahead.next += ahead.step;
    load_tile<6>(panel, kPanel * 4);
    load_tile<7>(panel + kPanel / 2, kPanel * 4);
    load_tile<4>(x + k, inputs * 2);
    multiply_tiles<0, 4, 6>();
    multiply_tiles<1, 4, 7>();
    if (kHasLower) {
      load_tile<5>(x + kHeight * inputs + k, inputs * 2);
      multiply_tiles<2, 5, 6>();
      multiply_tiles<3, 5, 7>();
    }
  }
  store_tile<0>(strip, kPanel * 4);
  store_tile<1>(strip + kPanel / 2, kPanel * 4);
  if (kHasLower) {
    store_tile<2>(strip + kHeight * kPanel, kPanel * 4);
    store_tile<3>(strip + kHeight * kPanel + kPanel / 2, kPanel * 4);
  }
}

// Packs columns as rows, of some inputs after the others, which are fetched into the second cache
// meanwhile.
void pack_turned(const Product& product, uint16_t* packed, int64_t begin, int64_t end) {
  const int64_t inputs = product.inputs, step = product.panel_inputs / 2;
  uint32_t* words = reinterpret_cast<uint32_t*>(packed);
  alignas(64) uint32_t pairs[kDepth / 2][kPanel];
  for (int64_t k = 0; k < inputs; k += kDepth) {
    const int64_t taken = inputs - k < kDepth ? inputs - k : kDepth;
    if (taken < kDepth) memset(pairs, 0, sizeof(pairs));
    for (int64_t row = begin; row < end; row += kPanel) {
      const int64_t rows = end - row < kPanel ? end - row : kPanel;
      const bf16* next = product.left + (k + kDepth) * product.rows + row;
      for (int64_t i = 0; i < kDepth; ++i) _mm_prefetch(next + i * product.rows, _MM_HINT_T1);
      pack_inputs(product.left + k * product.rows + row, product.rows, taken, rows,
                  reinterpret_cast<uint16_t*>(pairs));
      for (int64_t r = 0; r < rows; r += kHeight) {
        turn(reinterpret_cast<const char*>(pairs[0] + r), sizeof(pairs[0]), kDepth / 2, 64,
             words + (row + r) * step + k / 2, step);
      }
    }
  }
}

}  // namespace

void plan_product(Product* product) {
  const int64_t inputs = product->inputs, groups = plan_blocks(product, kGroup);
  product->panel_inputs = (inputs + kDepth - 1) / kDepth * kDepth;
  const bool is_packed = product->is_left_transposed || inputs % kDepth != 0;
  product->packed_rows = is_packed ? groups * kGroup * product->panel_inputs : 0;
}

void pack_left(const Product& product, uint16_t* packed, int64_t begin, int64_t end) {
  const int64_t first = begin * kGroupRows, last = end * kGroupRows;
  const int64_t stop = last < product.rows ? last : product.rows;
  if (product.is_left_transposed) {
    for (int64_t row = first; row < stop; row += kSpan) {
      pack_turned(product, packed, row, row + kSpan < stop ? row + kSpan : stop);
    }
    return;
  }
  const int64_t inputs = product.inputs, step = product.panel_inputs;
  for (int64_t row = first; row < stop; ++row) {
    memcpy(packed + row * step, product.left + row * inputs, inputs * 2);
    memset(packed + row * step + inputs, 0, (step - inputs) * 2);
  }
}

void multiply_units(const Product& product, const uint16_t* packed_rows, const uint32_t* packed,
                    int64_t begin, int64_t end) {
  const int64_t inputs = product.panel_inputs;
  const uint16_t* left = product.packed_rows > 0
                             ? packed_rows
                             : reinterpret_cast<const uint16_t*>(product.left);
  constexpr int64_t kLines = kDepth * kPanel * 2 / 64;  // of the cache, in 32 inputs of a panel
  alignas(64) float strip[kGroup * kPanel];
  Tiles tiles;
  for (int64_t number = begin; number < end; ++number) {
    const Unit unit(product, packed, number);
    const int64_t num_groups = (unit.rows + kGroup - 1) / kGroup;
    Ahead ahead = {reinterpret_cast<const char*>(unit.next),
                   (kLines + num_groups - 1) / num_groups * 64};
    for (int64_t row = unit.first; row < unit.first + unit.rows; row += kGroup) {
      const int64_t above = unit.first + unit.rows - row, count = above < kGroup ? above : kGroup;
      tiles.shape(count);
      (count > kHeight ? multiply_group<true> : multiply_group<false>)(
          left + row * inputs, unit.panel, inputs, strip, ahead);
      ahead.next += inputs / kDepth * ahead.step;
      for (int64_t r = 0; r < count; ++r) {
        for (int c = 0; c < kPanel; ++c) strip[r * kPanel + c] += unit.bias[c];
      }
      write_strip(strip, count, unit.columns,
                  product.product + row * product.outputs + unit.column, product.outputs);
    }
  }
}

}  // namespace QUINTAIN_ISA
}  // namespace quintain

#endif  // QUINTAIN_KNOWS_AMX
