#include "products.h"

#include <string.h>

#include "product_units.h"
#include "tiles.h"
#include "transpose.h"

namespace quintain {
namespace QUINTAIN_ISA {
namespace {

constexpr int64_t kCollision = 2048;        // inputs: such rows share their place in the first cache
constexpr int64_t kPadding = 32;            // numbers of a cache line
constexpr int64_t kStreams = 16;            // rows in memory that are read beside each other
constexpr int kWords = 16;                  // pairs of inputs, and columns, that are turned at a time

inline void round_row(const bf16* x, int64_t count, uint16_t* y) { memcpy(y, x, count * 2); }

inline void round_row(const float* x, int64_t count, uint16_t* y) {
#ifdef __AVX512BF16__
  if (count == kPanel) {
    for (int i = 0; i < kPanel; i += 16) {
      const __m256i rounded = (__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(x + i));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + i), rounded);
    }
    return;
  }
  for (int64_t i = 0; i < count; i += 16) {
    const __mmask16 wanted = count - i < 16 ? (1u << (count - i)) - 1 : 0xffff;
    const __m512 numbers = _mm512_maskz_loadu_ps(wanted, x + i);
    _mm256_mask_storeu_epi16(y + i, wanted, (__m256i)_mm512_cvtneps_pbh(numbers));
  }
#else
  for (int64_t i = 0; i < count; ++i) y[i] = to_bf16(x[i]).bits;
#endif
}

// Returns `count` numbers, and zeros up to a panel's width.
inline const uint16_t* take_row(const bf16* x, int64_t count, uint16_t* buffer) {
  if (count == kPanel) return reinterpret_cast<const uint16_t*>(x);
  memset(buffer, 0, kPanel * 2);
  if (count > 0) memcpy(buffer, x, count * 2);
  return buffer;
}

inline const uint16_t* take_row(const float* x, int64_t count, uint16_t* buffer) {
  if (count < kPanel) memset(buffer, 0, kPanel * 2);
  if (count > 0) round_row(x, count, buffer);
  return buffer;
}

// Fetches numbers of a row into the second cache, for the next ones that are read beside each other.
template <typename T>
inline void prefetch(const T* x, int count) {
  for (int i = 0; i < count * static_cast<int>(sizeof(T)); i += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(x) + i, _MM_HINT_T1);
  }
}

inline float widen(uint16_t bits) { return to_float(bf16{bits}); }

// Packs the inputs from `begin` to `end` of columns of rows that lie below each other.
template <typename T>
void pack_rows(const Product& product, const T* right, int64_t column, int64_t columns,
               int64_t begin, int64_t end, uint32_t* panel, float* sums) {
  uint16_t buffers[2][kPanel];
  float totals[kPanel] = {};
  for (int64_t c = 0; sums != nullptr && c < columns; ++c) totals[c] = sums[column + c];
  for (int64_t k = begin; k < end; k += 2) {
    const T* row = right + k * product.outputs + column;
    prefetch(row + kStreams * product.outputs, kPanel);
    prefetch(row + (kStreams + 1) * product.outputs, kPanel);
    const bool is_last = k + 1 == product.inputs;
    const uint16_t* first = take_row(row, columns, buffers[0]);
    const uint16_t* second = take_row(is_last ? row : row + product.outputs, is_last ? 0 : columns,
                                      buffers[1]);
    uint32_t* out = panel + k / 2 * kPanel;
#pragma GCC ivdep
    for (int c = 0; c < kPanel; ++c) out[c] = first[c] | static_cast<uint32_t>(second[c]) << 16;
    if (sums == nullptr) continue;
#pragma GCC ivdep
    for (int c = 0; c < kPanel; ++c) totals[c] += widen(first[c]) + widen(second[c]);
  }
  for (int64_t c = 0; sums != nullptr && c < columns; ++c) sums[column + c] = totals[c];
}

// Packs the inputs from `begin` to `end`, at most 2 * kWords, of at most kWords columns that lie in
// memory as rows; of columns that are missing, zeros.
template <typename T>
void pack_columns(const Product& product, const T* right, int64_t column, int64_t columns,
                  int64_t begin, int64_t end, uint32_t* panel) {
  alignas(64) uint32_t words[kWords][kWords];
  alignas(64) uint32_t turned[kWords][kWords];
  const int64_t count = end - begin, pairs = (count + 1) / 2;
  if (count < 2 * kWords || columns < kWords) memset(words, 0, sizeof(words));
  for (int64_t c = 0; c < columns && c < kWords; ++c) {
    const T* x = right + (column + c) * product.inputs + begin;
    prefetch(x + kWords * product.inputs, 2 * kWords);
    round_row(x, count, reinterpret_cast<uint16_t*>(words[c]));
  }
  uint32_t* out = panel + begin / 2 * kPanel;
  if (pairs == kWords) {
    transpose(words, out);
    return;
  }
  transpose(words, turned[0], kWords);
  for (int64_t i = 0; i < pairs; ++i) memcpy(out + i * kPanel, turned[i], sizeof(turned[i]));
}

// In both cases some rows of memory are read beside each other, and those after them fetched meanwhile:
// processors fetch ahead only few by themselves.
template <typename T>
void pack(const Product& product, const T* right, uint32_t* packed, float* sums, int64_t begin,
          int64_t end) {
  const int64_t inputs = product.inputs;
  for (int64_t n = begin; product.is_right_transposed && n < end; ++n) {
    const int64_t columns = count_columns(product, n);
    for (int64_t c = 0; c < kPanel; c += kWords) {
      for (int64_t k = 0; k < inputs; k += 2 * kWords) {
        const int64_t stop = k + 2 * kWords < inputs ? k + 2 * kWords : inputs;
        pack_columns(product, right, n * kPanel + c, columns - c, k, stop,
                     packed + n * PanelPairs(product) + c);
      }
    }
  }
  for (int64_t k = 0; !product.is_right_transposed && k < inputs; k += kStreams) {
    const int64_t stop = k + kStreams < inputs ? k + kStreams : inputs;
    for (int64_t n = begin; n < end; ++n) {
      pack_rows(product, right, n * kPanel, count_columns(product, n), k, stop,
                packed + n * PanelPairs(product), sums);
    }
  }
  const int64_t written = (inputs + 1) / 2 * kPanel, rest = PanelPairs(product) - written;
  for (int64_t n = begin; rest > 0 && n < end; ++n) {
    memset(packed + n * PanelPairs(product) + written, 0, rest * sizeof(*packed));
  }
}

// Numbers from one tile of packed rows to the next.
inline int64_t count_tile(const Product& product) {
  const int64_t whole = (product.inputs + 1) / 2 * 2;
  return product.is_left_transposed ? whole * kTileRows + kPadding
                                    : (whole + kPadding) * kTileRows;
}

// The rows of the left matrix as `multiply_tile` reads them.
struct Rows {
  const uint16_t* x;
  Steps steps;
  int64_t tile;  // from one tile to the next
};

Rows find_rows(const Product& product, const uint16_t* packed) {
  const int64_t inputs = product.inputs;
  if (product.packed_rows == 0) {
    return {reinterpret_cast<const uint16_t*>(product.left), {inputs, 2}, kTileRows * inputs};
  }
  if (product.is_left_transposed) return {packed, {2, 2 * kTileRows}, count_tile(product)};
  return {packed, {(inputs + 1) / 2 * 2 + kPadding, 2}, count_tile(product)};
}

// Copies rows to where they don't share their places in the cache, and end with a pair.
void copy_rows(const Product& product, uint16_t* packed, int64_t begin, int64_t end) {
  const int64_t inputs = product.inputs, step = (inputs + 1) / 2 * 2 + kPadding;
  const uint16_t* x = reinterpret_cast<const uint16_t*>(product.left);
  for (int64_t r = begin; r < end; ++r) {
    memcpy(packed + r * step, x + r * inputs, inputs * 2);
    packed[r * step + inputs] = 0;
  }
}

// Packs columns as the rows of tiles, pairs of inputs after each other.
void pack_tiles(const Product& product, uint16_t* packed, int64_t begin, int64_t end) {
  const int64_t inputs = product.inputs, rows = product.rows, tile = count_tile(product);
  const uint16_t* x = reinterpret_cast<const uint16_t*>(product.left);
  for (int64_t chunk = 0; chunk < inputs; chunk += kStreams) {
    const int64_t stop = chunk + kStreams < inputs ? chunk + kStreams : inputs;
    for (int64_t start = begin; start < end; start += kTileRows) {
      const int64_t rest = rows - start;
      uint16_t* out = packed + start / kTileRows * tile + chunk * kTileRows;
      for (int64_t k = chunk; k < stop; k += 2, out += 2 * kTileRows) {
        const uint16_t* low = x + k * rows + start;
        const bool is_last = k + 1 == inputs;
        const uint16_t* high = is_last ? low : low + rows;
        prefetch(low + kStreams * rows, 1);
        prefetch(high + kStreams * rows, 1);
#ifdef __AVX512F__
        // What is written beyond the tile is written again by the next pair, or is padding.
        const __mmask16 wanted = rest < 16 ? (1u << rest) - 1 : 0xffff;
        const __m512i lows = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(wanted, low));
        const __m512i highs =
            _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(is_last ? 0 : wanted, high));
        _mm512_storeu_si512(out, _mm512_or_si512(lows, shift_up(highs)));
#else
        for (int r = 0; r < kTileRows && r < rest; ++r) {
          const uint32_t upper = is_last ? 0 : high[r];
          reinterpret_cast<uint32_t*>(out)[r] = low[r] | upper << 16;
        }
#endif
      }
    }
  }
}

// Where a tile's sums go, with the bias.
struct Outputs {
  bf16* start;
  int64_t step;     // from one row to the next
  int64_t columns;  // at most a panel's
  const float* bias;
};

inline void keep_row(const Outputs& out, int row, const Floats* sums) {
  bf16* place = out.start + row * out.step;
  float numbers[kPanel];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    store(numbers + v * kLanes, sums[v] + load(out.bias + v * kLanes));
  }
  round_row(numbers, out.columns, reinterpret_cast<uint16_t*>(place));
}

}  // namespace

void pack_panels(const Product& product, const float* right, uint32_t* packed, float* sums,
                 int64_t begin, int64_t end) {
  pack(product, right, packed, sums, begin, end);
}

void pack_panels(const Product& product, const bf16* right, uint32_t* packed, float* sums,
                 int64_t begin, int64_t end) {
  pack(product, right, packed, sums, begin, end);
}

void plan_product(Product* product) {
  const int64_t inputs = product->inputs, tiles = plan_blocks(product, kTileRows);
  const bool is_copied = inputs > 0 && (inputs % 2 == 1 || inputs % kCollision == 0);
  const bool is_packed = product->is_left_transposed || is_copied;
  product->packed_rows = is_packed ? tiles * count_tile(*product) : 0;
  product->panel_inputs = (inputs + 1) / 2 * 2;
}

void pack_left(const Product& product, uint16_t* packed, int64_t begin, int64_t end) {
  const int64_t first = begin * kGroupRows, last = end * kGroupRows;
  const int64_t stop = last < product.rows ? last : product.rows;
  if (product.is_left_transposed) {
    pack_tiles(product, packed, first, stop);
  } else {
    copy_rows(product, packed, first, stop);
  }
}

void multiply_units(const Product& product, const uint16_t* packed_rows, const uint32_t* packed,
                    int64_t begin, int64_t end) {
  const int64_t pairs = product.panel_inputs / 2;
  const Rows left = find_rows(product, packed_rows);
  for (int64_t number = begin; number < end; ++number) {
    const Unit unit(product, packed, number);
    const int64_t num_tiles = (unit.rows + kTileRows - 1) / kTileRows;
    Ahead ahead = {reinterpret_cast<const char*>(unit.next),
                   (kPanel * 4 + num_tiles - 1) / num_tiles};
    for (int64_t start = unit.first; start < unit.first + unit.rows; start += kTileRows) {
      const int64_t above = unit.first + unit.rows - start;
      const int count = static_cast<int>(above < kTileRows ? above : kTileRows);
      const Outputs out = {product.product + start * product.outputs + unit.column, product.outputs,
                           unit.columns, unit.bias};
      run_tile<Bfloat16, kTileRows>(count, left.x + start / kTileRows * left.tile, left.steps,
                                    unit.panel, product.panel_inputs, out, ahead);
      ahead.next += pairs * ahead.step;
    }
  }
}

}  // namespace QUINTAIN_ISA
}  // namespace quintain
