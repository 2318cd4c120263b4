// Blocks of rows and panels of a product, whatever multiplies them.

#ifndef QUINTAIN_KERNELS_PRODUCT_UNITS_H_
#define QUINTAIN_KERNELS_PRODUCT_UNITS_H_

#include "bfloat16.h"
#include "products.h"

namespace quintain {
namespace QUINTAIN_ISA {
namespace {

constexpr int64_t kBlockBytes = 640 << 10;  // of rows: they stay in the second cache beside a panel
constexpr int64_t kBlockRows = 192;         // at most; whole tiles of each instruction set

// Chooses blocks of one size, of whole tiles with so many rows. Returns the number of tiles.
inline int64_t plan_blocks(Product* product, int64_t tile_rows) {
  const int64_t rows = product->rows, inputs = product->inputs;
  const int64_t fitting = kBlockBytes / 2 / (inputs > 0 ? inputs : 1);
  const int64_t wanted = (fitting < kBlockRows ? fitting : kBlockRows) / tile_rows;
  const int64_t most = wanted > 1 ? wanted : 1, tiles = (rows + tile_rows - 1) / tile_rows;
  const int64_t blocks = (tiles + most - 1) / most;
  product->block_rows = (blocks > 0 ? (tiles + blocks - 1) / blocks : 1) * tile_rows;
  return tiles;
}

// Returns how many columns a panel has.
inline int64_t count_columns(const Product& product, int64_t number) {
  const int64_t left = product.outputs - number * kPanel;
  return left < kPanel ? left : kPanel;
}

// A block of rows and the panel that it is multiplied by.
struct Unit {
  Unit(const Product& product, const uint32_t* packed, int64_t unit) {
    const int64_t num_panels = NumPanels(product), number = unit % num_panels;
    first = unit / num_panels * product.block_rows;
    const int64_t rest = product.rows - first;
    rows = rest < product.block_rows ? rest : product.block_rows;
    column = number * kPanel;
    columns = count_columns(product, number);
    panel = packed + number * PanelPairs(product);
    next = packed + (number + 1) % num_panels * PanelPairs(product);
    for (int64_t c = 0; product.bias != nullptr && c < columns; ++c) {
      bias[c] = to_float(product.bias[column + c]);
    }
  }

  int64_t first, rows;
  int64_t column, columns;
  const uint32_t* panel;
  const uint32_t* next;  // the panel that comes after it
  float bias[kPanel] = {};
};

}  // namespace
}  // namespace QUINTAIN_ISA
}  // namespace quintain

#endif  // QUINTAIN_KERNELS_PRODUCT_UNITS_H_
