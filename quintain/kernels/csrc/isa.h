// Instruction sets: what is compiled for each of them, and which one this processor has.
//
// `NAME.h` declares its functions with QUINTAIN_EACH_ISA; `NAME.cc` defines them in
// `namespace quintain::QUINTAIN_ISA` and is compiled once for each set; operations call
// QUINTAIN_DISPATCH(function, arguments...).
//
// What several files share, such as `bfloat16.h`, is `static inline` and below QUINTAIN_ISA as well:
// of an inline function that two objects have, the linker keeps one, which may be that of a newer
// processor. For the same reason `NAME.cc` uses no templates of the standard library.
//
// The units for whole tiles of bfloat16 (AMX) come beside AVX512-BF16: what is written for them is in
// `amx_NAME.cc`, and QUINTAIN_DISPATCH_AMX calls it where there are such units.

#ifndef QUINTAIN_KERNELS_ISA_H_
#define QUINTAIN_KERNELS_ISA_H_

// The newest set that is compiled, a number of `Isa`.
#ifndef QUINTAIN_NEWEST
#define QUINTAIN_NEWEST 4
#endif

#define QUINTAIN_EACH_ISA(...)                       \
  namespace quintain {                               \
  namespace avx2 { __VA_ARGS__ }                     \
  namespace avx512 { __VA_ARGS__ }                   \
  namespace avx512_bf16 { __VA_ARGS__ }              \
  }

#if QUINTAIN_NEWEST >= 4 && (__has_include(<amxbf16intrin.h>) || __has_include(<amxintrin.h>))
#define QUINTAIN_KNOWS_AMX  // The compiler does.
#define QUINTAIN_FOR_AMX(...)                        \
  namespace quintain {                               \
  namespace amx_bf16 { __VA_ARGS__ }                 \
  }
#else
#define QUINTAIN_FOR_AMX(...)
#endif

namespace quintain {

enum class Isa { kNone = 0, kAvx2 = 1, kAvx512 = 2, kAvx512Bf16 = 3, kAmxBf16 = 4 };

// Returns the newest compiled set that this processor, and its operating system, can run.
Isa FindIsa();

// Returns the set that is used: that of the processor, or an older one that `LimitIsa` asked for.
Isa UsedIsa();

}  // namespace quintain

// Makes the kernels use no newer set than this, for tests. Returns the one that is used.
extern "C" __attribute__((visibility("default"))) int quintain_limit_isa(int isa);

// Returns whether this processor multiplies tiles of bfloat16 (AMX) that TensorFlow uses, and we do not.
extern "C" __attribute__((visibility("default"))) int quintain_leaves_amx();

// Returns whether `products.h` is quicker here than TensorFlow's own products of bfloat16.
extern "C" __attribute__((visibility("default"))) int quintain_has_fast_products();

#if QUINTAIN_NEWEST >= 3
#define QUINTAIN_DISPATCH(function, ...)                                        \
  (::quintain::UsedIsa() >= ::quintain::Isa::kAvx512Bf16                        \
       ? ::quintain::avx512_bf16::function(__VA_ARGS__)                         \
   : ::quintain::UsedIsa() == ::quintain::Isa::kAvx512                          \
       ? ::quintain::avx512::function(__VA_ARGS__)                              \
       : ::quintain::avx2::function(__VA_ARGS__))
#elif QUINTAIN_NEWEST == 2
#define QUINTAIN_DISPATCH(function, ...)                                        \
  (::quintain::UsedIsa() == ::quintain::Isa::kAvx512                            \
       ? ::quintain::avx512::function(__VA_ARGS__)                              \
       : ::quintain::avx2::function(__VA_ARGS__))
#else
#define QUINTAIN_DISPATCH(function, ...) ::quintain::avx2::function(__VA_ARGS__)
#endif

#ifdef QUINTAIN_KNOWS_AMX
#define QUINTAIN_DISPATCH_AMX(function, ...)                                    \
  (::quintain::UsedIsa() == ::quintain::Isa::kAmxBf16                           \
       ? ::quintain::amx_bf16::function(__VA_ARGS__)                            \
       : QUINTAIN_DISPATCH(function, __VA_ARGS__))
#else
#define QUINTAIN_DISPATCH_AMX QUINTAIN_DISPATCH
#endif

#endif  // QUINTAIN_KERNELS_ISA_H_
