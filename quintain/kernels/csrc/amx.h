// The processor's units for whole tiles of bfloat16 (AMX): eight tiles of up to 16 rows of 64 bytes.
//
// The functions of compilers' own headers tell too little of what they read: GCC 12 leaves out what is
// written to the shapes before they are loaded.

#ifndef QUINTAIN_KERNELS_AMX_H_
#define QUINTAIN_KERNELS_AMX_H_

#include <stdint.h>

namespace quintain {
namespace QUINTAIN_ISA {
namespace {

// What the processor is told of its tiles.
struct alignas(64) TileShapes {
  uint8_t palette;  // 1, or 0 for no tiles
  uint8_t start_row;
  uint8_t reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
};

}  // namespace
}  // namespace QUINTAIN_ISA
}  // namespace quintain

#ifdef QUINTAIN_SOFTWARE_TILES
#include "software_tiles.h"  // of the tests, for processors that have none
#else

namespace quintain {
namespace QUINTAIN_ISA {
namespace {

inline void keep_shapes(TileShapes* out) { __asm__ volatile("sttilecfg %0" : "=m"(*out)); }

inline void load_shapes(const TileShapes& shapes) {
  __asm__ volatile("ldtilecfg %0" ::"m"(shapes));
}

inline void release_tiles() { __asm__ volatile("tilerelease"); }

template <int kTile>
inline void zero_tile() {
  __asm__ volatile("tilezero %%tmm%c0" ::"i"(kTile));
}

// Rows are `step` bytes apart.
template <int kTile>
inline void load_tile(const void* from, int64_t step) {
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(step), "i"(kTile) : "memory");
}

template <int kTile>
inline void store_tile(void* to, int64_t step) {
  __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(step), "i"(kTile) : "memory");
}

// Adds the products of the left tile's rows of pairs and the right tile's columns of pairs.
template <int kSums, int kLeft, int kRight>
inline void multiply_tiles() {
  __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSums), "i"(kLeft), "i"(kRight));
}

}  // namespace
}  // namespace QUINTAIN_ISA
}  // namespace quintain

#endif  // QUINTAIN_SOFTWARE_TILES

#endif  // QUINTAIN_KERNELS_AMX_H_
