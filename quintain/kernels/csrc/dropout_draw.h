// What a dropout draws, the same for every instruction set.

#ifndef QUINTAIN_KERNELS_DROPOUT_DRAW_H_
#define QUINTAIN_KERNELS_DROPOUT_DRAW_H_

#include <stdint.h>

namespace quintain {

// A number stays where its random level is at least `first_kept`.
struct DropoutDraw {
  uint64_t key = 0;
  uint64_t counter[2] = {0, 0};
  int32_t first_kept = 0;
  int32_t level_bytes = 1;  // 1 or 2: random bytes for each number; 0 if nothing is dropped
  float scale = 1.0f;       // by which what stays is multiplied
};

}  // namespace quintain

#endif
