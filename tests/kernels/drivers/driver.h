// What drivers share: checks, and for those of the layers memory that ends where the numbers end, and draws.

#ifndef QUINTAIN_TESTS_KERNELS_DRIVER_H_
#define QUINTAIN_TESTS_KERNELS_DRIVER_H_

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <vector>

#include "bfloat16.h"
#include "dropout_draw.h"
#include "isa.h"

#define CHECK(condition)                                                      \
  if (!(condition)) {                                                         \
    std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);      \
    std::exit(1);                                                             \
  }

using quintain::bf16;

inline void Set(float* place, float value) { *place = value; }
inline void Set(bf16* place, float value) { *place = quintain::avx2::to_bf16(value); }

// Numbers between -5 and 5.
template <typename T>
std::vector<T> Numbers(int64_t size) {
  std::vector<T> numbers(size);
  for (int64_t i = 0; i < size; ++i) Set(&numbers[i], float(i * 37 % 101) / 10 - 5);
  numbers.shrink_to_fit();
  return numbers;
}

template <typename T>
double Sum(const std::vector<T>& numbers) {
  double sum = 0;
  for (const T number : numbers) sum += quintain::avx2::to_float(number);
  return sum;
}

// Half of the numbers dropped, from levels of a width in bytes; 0 for nothing. The counter's lower
// half is about to overflow.
inline quintain::DropoutDraw Draw(int level_bytes) {
  quintain::DropoutDraw draw;
  draw.key = 0x123456789abcdef;
  draw.counter[0] = ~uint64_t{0} - 2;
  draw.level_bytes = level_bytes;
  draw.scale = level_bytes ? 2.0f : 1.0f;
  return draw;
}

// How often memory may still be asked for by what is tested, which calls `malloc` for it and is linked
// with `--wrap=malloc`; below 0 as often as it likes.
static int mallocs_left = -1;

extern "C" void* __real_malloc(size_t size);
extern "C" void* __wrap_malloc(size_t size) {
  if (mallocs_left == 0) return nullptr;
  if (mallocs_left > 0) --mallocs_left;
  return __real_malloc(size);
}

// Calls `run()`, which returns whether there was memory, with less than it needs, then with enough.
template <typename Run>
void RunShort(Run run) {
  int mallocs = 0;
  for (bool is_enough = false; !is_enough; ++mallocs) {
    mallocs_left = mallocs;
    is_enough = run();
    mallocs_left = -1;
    CHECK(mallocs < 100);
  }
  CHECK(mallocs > 1);
}

// Calls `run()` with every instruction set of this machine.
template <typename Run>
int RunSets(Run run) {
  for (int isa = 1; isa <= static_cast<int>(quintain::FindIsa()); ++isa) {
    CHECK(quintain_limit_isa(isa) == isa);
    run();
  }
  return 0;
}

// Calls `run(level_bytes, size)` with every instruction set.
template <typename Run>
int RunAll(std::initializer_list<int64_t> sizes, Run run) {
  return RunSets([&] {
    for (int level_bytes : {0, 1, 2}) {
      for (int64_t size : sizes) run(level_bytes, size);
    }
  });
}

#endif  // QUINTAIN_TESTS_KERNELS_DRIVER_H_
