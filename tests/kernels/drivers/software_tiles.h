// Tiles in software, in the place of the processor's in `amx.h`: what Intel's manual says of each
// instruction. What a processor refuses ends the program here.

#ifndef QUINTAIN_TESTS_KERNELS_SOFTWARE_TILES_H_
#define QUINTAIN_TESTS_KERNELS_SOFTWARE_TILES_H_

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

namespace quintain {
namespace QUINTAIN_ISA {
namespace {

thread_local TileShapes used_shapes;
thread_local uint8_t tiles[8][16][64];

inline void require(bool is_right) {
  if (!is_right) abort();
}

// Requires a tile that is there, and returns its number of rows.
inline int count_rows(int tile) {
  require(used_shapes.palette == 1 && used_shapes.rows[tile] > 0);
  return used_shapes.rows[tile];
}

inline void keep_shapes(TileShapes* out) { *out = used_shapes; }

inline void release_tiles() {
  used_shapes = {};
  memset(tiles, 0, sizeof(tiles));
}

inline void load_shapes(const TileShapes& shapes) {
  release_tiles();
  if (shapes.palette == 0) return;
  require(shapes.palette == 1 && shapes.start_row == 0);
  for (uint8_t byte : shapes.reserved) require(byte == 0);
  for (int i = 0; i < 16; ++i) {
    require((shapes.row_bytes[i] == 0) == (shapes.rows[i] == 0));
    require(shapes.row_bytes[i] <= 64 && shapes.rows[i] <= 16 && (i < 8 || shapes.rows[i] == 0));
  }
  used_shapes = shapes;
}

template <int kTile>
inline void zero_tile() {
  count_rows(kTile);
  memset(tiles[kTile], 0, sizeof(tiles[kTile]));
}

template <int kTile>
inline void load_tile(const void* from, int64_t step) {
  zero_tile<kTile>();
  for (int r = 0; r < count_rows(kTile); ++r) {
    const char* row = static_cast<const char*>(from) + r * step;
    memcpy(tiles[kTile][r], row, used_shapes.row_bytes[kTile]);
  }
}

template <int kTile>
inline void store_tile(void* to, int64_t step) {
  for (int r = 0; r < count_rows(kTile); ++r) {
    memcpy(static_cast<char*>(to) + r * step, tiles[kTile][r], used_shapes.row_bytes[kTile]);
  }
}

// Returns a bfloat16 number of a row; denormal ones are zero.
inline float take_number(const uint8_t* row, int place) {
  uint16_t half;
  memcpy(&half, row + 2 * place, 2);
  if ((half & 0x7f80) == 0) half &= 0x8000;
  const uint32_t bits = static_cast<uint32_t>(half) << 16;
  float number;
  memcpy(&number, &bits, 4);
  return number;
}

template <int kSums, int kLeft, int kRight>
inline void multiply_tiles() {
  static_assert(kSums != kLeft && kSums != kRight && kLeft != kRight, "The processor refuses it.");
  const int rows = count_rows(kSums), words = count_rows(kRight);
  require(count_rows(kLeft) == rows && used_shapes.row_bytes[kLeft] == 4 * words);
  require(used_shapes.row_bytes[kRight] == used_shapes.row_bytes[kSums]);
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < used_shapes.row_bytes[kSums] / 4; ++c) {
      float totals[2] = {};
      for (int k = 0; k < words; ++k) {
        for (int i = 0; i < 2; ++i) {
          totals[i] = __builtin_fmaf(take_number(tiles[kLeft][r], 2 * k + i),
                                     take_number(tiles[kRight][k], 2 * c + i), totals[i]);
        }
      }
      float sum;
      memcpy(&sum, tiles[kSums][r] + 4 * c, 4);
      sum += totals[0] + totals[1];
      memcpy(tiles[kSums][r] + 4 * c, &sum, 4);
    }
  }
}

}  // namespace
}  // namespace QUINTAIN_ISA
}  // namespace quintain

#endif  // QUINTAIN_TESTS_KERNELS_SOFTWARE_TILES_H_
