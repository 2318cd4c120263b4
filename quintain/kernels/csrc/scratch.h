// Memory for what a kernel works with. Who calls the kernel is told where there is none.

#ifndef QUINTAIN_KERNELS_SCRATCH_H_
#define QUINTAIN_KERNELS_SCRATCH_H_

#include <stdint.h>
#include <stdlib.h>

namespace quintain {
namespace QUINTAIN_ISA {
namespace {

// Memory for `size` numbers; null where there is none left.
template <typename N>
class Room {
 public:
  explicit Room(int64_t size) : start_(static_cast<N*>(malloc((size + 1) * sizeof(N)))) {}
  ~Room() { free(start_); }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;
  operator N*() const { return start_; }

 private:
  N* start_;
};

}  // namespace
}  // namespace QUINTAIN_ISA
}  // namespace quintain

#endif  // QUINTAIN_KERNELS_SCRATCH_H_
