// Products of matrices in bfloat16, added up in float32, for processors that multiply pairs of such
// numbers (`vdpbf16ps`).
//
// The right matrix is packed into panels first, and the left one into tiles of rows where it can't be
// read as it is; then each unit of work multiplies a block of rows by one panel. An output is summed in
// the order of the inputs by one thread, so that it depends on its row and column only.
//
// Processors that multiply whole tiles (AMX) have their own way to read rows and to multiply, in
// `amx_products.cc`, with the same panels.

#ifndef QUINTAIN_KERNELS_PRODUCTS_H_
#define QUINTAIN_KERNELS_PRODUCTS_H_

#include <stdint.h>

#include "bfloat16.h"
#include "isa.h"
#include "panel.h"

namespace quintain {

// `product [rows, outputs] = left [rows, inputs] * right [inputs, outputs] + bias`.
struct Product {
  int64_t rows;
  int64_t inputs;
  int64_t outputs;
  bool is_left_transposed;   // kept as [inputs, rows]
  bool is_right_transposed;  // kept as [outputs, inputs]
  int64_t block_rows;        // rows that share a panel, and
  int64_t packed_rows;       // numbers of the packed left matrix, 0 for none,
  int64_t panel_inputs;      // and inputs of a panel, zeros from `inputs` on: see `plan_product`
  const bf16* left;
  const bf16* bias;  // null for none
  bf16* product;
};

// Numbers of a packed panel, in pairs of two inputs.
static inline int64_t PanelPairs(const Product& product) { return product.panel_inputs / 2 * kPanel; }

static inline int64_t NumPanels(const Product& product) {
  return (product.outputs + kPanel - 1) / kPanel;
}

// Rows of the left matrix that are packed together: whole tiles, and whole lines of the cache.
constexpr int64_t kGroupRows = 96;

static inline int64_t NumGroups(const Product& product) {
  return product.packed_rows > 0 ? (product.rows + kGroupRows - 1) / kGroupRows : 0;
}

static inline int64_t NumUnits(const Product& product) {
  return (product.rows + product.block_rows - 1) / product.block_rows * NumPanels(product);
}

}  // namespace quintain

#define QUINTAIN_DECLARE_PACK(T)                                                                   \
  QUINTAIN_EACH_ISA(                                                                               \
      /* Packs the panels from `begin` to `end`, and adds their columns to `sums`, if that is not  \
         null; then the right matrix may not be transposed. */                                     \
      void pack_panels(const Product& product, const T* right, uint32_t* packed, float* sums,      \
                       int64_t begin, int64_t end);)
QUINTAIN_DECLARE_PACK(float)
QUINTAIN_DECLARE_PACK(bf16)
#undef QUINTAIN_DECLARE_PACK

#define QUINTAIN_MULTIPLY(...) QUINTAIN_EACH_ISA(__VA_ARGS__) QUINTAIN_FOR_AMX(__VA_ARGS__)
QUINTAIN_MULTIPLY(
    // Chooses blocks of one size, of as many rows as stay in the processor's caches; and whether the
    // left matrix is packed: where it is transposed, and where its rows share their places there.
    void plan_product(Product* product);
    // Packs the groups of the left matrix from `begin` to `end`.
    void pack_left(const Product& product, uint16_t* packed, int64_t begin, int64_t end);
    // Computes the units from `begin` to `end`.
    void multiply_units(const Product& product, const uint16_t* packed_rows,
                        const uint32_t* packed, int64_t begin, int64_t end);)
#undef QUINTAIN_MULTIPLY

#endif  // QUINTAIN_KERNELS_PRODUCTS_H_
