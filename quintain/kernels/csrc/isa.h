// Instruction sets: what is compiled for each of them, and which one this processor has.
//
// `NAME.h` declares its functions with QUINTAIN_EACH_ISA; `NAME.cc` defines them in
// `namespace quintain::QUINTAIN_ISA` and is compiled once for each set; operations call
// QUINTAIN_DISPATCH(function, arguments...).
//
// What several files share, such as `bfloat16.h`, is `static inline` and below QUINTAIN_ISA as well:
// of an inline function that two objects have, the linker keeps one, which may be that of a newer
// processor. For the same reason `NAME.cc` uses no templates of the standard library.

#ifndef QUINTAIN_KERNELS_ISA_H_
#define QUINTAIN_KERNELS_ISA_H_

#define QUINTAIN_EACH_ISA(...)                       \
  namespace quintain {                               \
  namespace avx2 { __VA_ARGS__ }                     \
  namespace avx512 { __VA_ARGS__ }                   \
  namespace avx512_bf16 { __VA_ARGS__ }              \
  }

namespace quintain {

enum class Isa { kNone = 0, kAvx2 = 1, kAvx512 = 2, kAvx512Bf16 = 3 };

// Returns the newest set that this processor, and its operating system, can run.
Isa FindIsa();

// Returns the set that is used: that of the processor, or an older one that `LimitIsa` asked for.
Isa UsedIsa();

}  // namespace quintain

// Makes the kernels use no newer set than this, for tests. Returns the one that is used.
extern "C" __attribute__((visibility("default"))) int quintain_limit_isa(int isa);

// Returns whether this processor multiplies tiles of bfloat16 (AMX), as TensorFlow's products do.
extern "C" __attribute__((visibility("default"))) int quintain_has_amx();

// Returns whether `products.h` is quicker here than TensorFlow's own products of bfloat16.
extern "C" __attribute__((visibility("default"))) int quintain_has_fast_products();

#define QUINTAIN_DISPATCH(function, ...)                                        \
  (::quintain::UsedIsa() == ::quintain::Isa::kAvx512Bf16                        \
       ? ::quintain::avx512_bf16::function(__VA_ARGS__)                         \
   : ::quintain::UsedIsa() == ::quintain::Isa::kAvx512                          \
       ? ::quintain::avx512::function(__VA_ARGS__)                              \
       : ::quintain::avx2::function(__VA_ARGS__))

#endif  // QUINTAIN_KERNELS_ISA_H_
