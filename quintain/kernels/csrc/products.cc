#include "products.h"

#include <stdlib.h>
#include <string.h>

#include "tiles.h"
#include "transpose.h"

namespace quintain {
namespace QUINTAIN_ISA {
namespace {

constexpr int64_t kBlockBytes = 640 << 10;  // of rows: they stay in the second cache beside a panel
constexpr int64_t kBlockRows = 192;         // at most; whole tiles of each instruction set
constexpr int64_t kCollision = 2048;        // inputs: such rows share their place in the first cache
constexpr int64_t kRowChunk = 32;           // inputs of columns that are packed at a time
constexpr int64_t kPadding = 32;            // numbers of a cache line
constexpr int kChunk = 32;                  // inputs of a column that are packed at a time

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

// Packs the inputs from `begin` to `end`, at most kChunk, of columns that lie in memory as rows.
template <typename T>
void pack_columns(const Product& product, const T* right, int64_t column, int64_t columns,
                  int64_t begin, int64_t end, uint32_t* panel) {
  alignas(64) uint32_t words[kPanel][kChunk / 2];
  alignas(64) uint32_t turned[kChunk / 2][kPanel];
  const int64_t count = end - begin;
  const bool is_whole = count == kChunk;
  if (!is_whole || columns < kPanel) memset(words, 0, sizeof(words));
  for (int64_t c = 0; c < columns; ++c) {
    round_row(right + (column + c) * product.inputs + begin, count,
              reinterpret_cast<uint16_t*>(words[c]));
  }
  uint32_t* out = panel + begin / 2 * kPanel;
  for (int c = 0; c < kPanel; c += 16) transpose(words + c, (is_whole ? out : turned[0]) + c);
  if (!is_whole) memcpy(out, turned, (count + 1) / 2 * kPanel * 4);
}

// Goes through the inputs by chunks, so that memory is read in its order where rows are long.
template <typename T>
void pack(const Product& product, const T* right, uint32_t* packed, float* sums, int64_t begin,
          int64_t end) {
  for (int64_t k = 0; k < product.inputs; k += kChunk) {
    const int64_t k_end = k + kChunk < product.inputs ? k + kChunk : product.inputs;
    for (int64_t number = begin; number < end; ++number) {
      const int64_t column = number * kPanel, left = product.outputs - column;
      const int64_t columns = left < kPanel ? left : kPanel;
      uint32_t* panel = packed + number * PanelPairs(product);
      if (product.is_right_transposed) {
        pack_columns(product, right, column, columns, k, k_end, panel);
      } else {
        pack_rows(product, right, column, columns, k, k_end, panel, sums);
      }
    }
  }
}

// A block of rows as `multiply_tile` reads it.
struct Rows {
  const uint16_t* x;
  Steps steps;
  int64_t tile;  // from one tile to the next
};

Rows take_rows(const Product& product, int64_t row) {
  const uint16_t* x = reinterpret_cast<const uint16_t*>(product.left) + row * product.inputs;
  return {x, {product.inputs, 2}, kTileRows * product.inputs};
}

// Copies rows to where they don't share their places in the cache, and end with a pair.
Rows copy_rows(const Product& product, int64_t row, int64_t rows, uint16_t* buffer) {
  const int64_t inputs = product.inputs, step = (inputs + 1) / 2 * 2 + kPadding;
  const uint16_t* x = reinterpret_cast<const uint16_t*>(product.left) + row * inputs;
  for (int64_t r = 0; r < rows; ++r) {
    memcpy(buffer + r * step, x + r * inputs, inputs * 2);
    buffer[r * step + inputs] = 0;
  }
  return {buffer, {step, 2}, kTileRows * step};
}

// Packs columns as the rows of tiles, pairs of inputs after each other.
Rows pack_tiles(const Product& product, int64_t row, int64_t rows, uint16_t* buffer) {
  const int64_t inputs = product.inputs, tile = (inputs + 1) / 2 * 2 * kTileRows + kPadding;
  const uint16_t* x = reinterpret_cast<const uint16_t*>(product.left) + row;
  for (int64_t chunk = 0; chunk < inputs; chunk += kRowChunk) {
    const int64_t end = chunk + kRowChunk < inputs ? chunk + kRowChunk : inputs;
    for (int64_t start = 0; start < rows; start += kTileRows) {
      const int64_t rest = product.rows - row - start;
      uint16_t* out = buffer + start / kTileRows * tile + chunk * kTileRows;
      for (int64_t k = chunk; k < end; k += 2, out += 2 * kTileRows) {
        const uint16_t* low = x + k * product.rows + start;
        const bool is_last = k + 1 == inputs;
        const uint16_t* high = is_last ? low : low + product.rows;
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
  return {buffer, {2, 2 * kTileRows}, tile};
}

// Writes a tile's sums, with the bias.
void finish(const Product& product, float (*sums)[kPanel], int64_t row, int count,
            int64_t column) {
  const int64_t left = product.outputs - column, columns = left < kPanel ? left : kPanel;
  float bias[kPanel] = {};
  for (int64_t c = 0; product.bias != nullptr && c < columns; ++c) {
    bias[c] = to_float(product.bias[column + c]);
  }
  for (int r = 0; r < count; ++r) {
    for (int c = 0; product.bias != nullptr && c < kPanel; ++c) sums[r][c] += bias[c];
    bf16* out = product.product + (row + r) * product.outputs + column;
    round_row(sums[r], columns, reinterpret_cast<uint16_t*>(out));
  }
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

int64_t choose_block_rows(int64_t rows, int64_t inputs) {
  const int64_t fitting = kBlockBytes / 2 / (inputs > 0 ? inputs : 1);
  const int64_t wanted = (fitting < kBlockRows ? fitting : kBlockRows) / kTileRows;
  const int64_t most = wanted > 1 ? wanted : 1, tiles = (rows + kTileRows - 1) / kTileRows;
  const int64_t blocks = (tiles + most - 1) / most;
  return (blocks > 0 ? (tiles + blocks - 1) / blocks : 1) * kTileRows;
}

void multiply_units(const Product& product, const uint32_t* packed, int64_t begin, int64_t end) {
  const int64_t inputs = product.inputs, num_panels = NumPanels(product);
  const int64_t pairs = (inputs + 1) / 2, block_rows = product.block_rows;
  const bool is_copied = inputs > 0 && (inputs % 2 == 1 || inputs % kCollision == 0);
  uint16_t* buffer = nullptr;
  if (product.is_left_transposed || is_copied) {
    buffer = static_cast<uint16_t*>(malloc(block_rows * (2 * pairs + kPadding) * 2));
  }
  alignas(64) float sums[kTileRows][kPanel];
  Rows left = {};
  int64_t left_block = -1;
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t block = unit / num_panels, panel = unit % num_panels;
    const int64_t first = block * block_rows, rest = product.rows - first;
    const int64_t rows = rest < block_rows ? rest : block_rows;
    if (block != left_block) {
      left = product.is_left_transposed ? pack_tiles(product, first, rows, buffer)
             : is_copied                ? copy_rows(product, first, rows, buffer)
                                        : take_rows(product, first);
      left_block = block;
    }
    const int64_t num_tiles = (rows + kTileRows - 1) / kTileRows;
    const uint32_t* next = packed + (panel + 1) % num_panels * PanelPairs(product);
    Ahead ahead = {reinterpret_cast<const char*>(next),
                   (kPanel * 4 + num_tiles - 1) / num_tiles};
    for (int64_t start = 0; start < rows; start += kTileRows) {
      const int count = static_cast<int>(rows - start < kTileRows ? rows - start : kTileRows);
      run_tile<Bfloat16, kTileRows>(count, left.x + start / kTileRows * left.tile, left.steps,
                                    packed + panel * PanelPairs(product), 2 * pairs, sums, ahead);
      ahead.next += pairs * ahead.step;
      finish(product, sums, first + start, count, panel * kPanel);
    }
  }
  free(buffer);
}

}  // namespace QUINTAIN_ISA
}  // namespace quintain
