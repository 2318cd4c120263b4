// The width of the panels of packed matrices.

#ifndef QUINTAIN_KERNELS_PANEL_H_
#define QUINTAIN_KERNELS_PANEL_H_

#include <stdint.h>

namespace quintain {

constexpr int64_t kPanel = 32;

}  // namespace quintain

#endif  // QUINTAIN_KERNELS_PANEL_H_
