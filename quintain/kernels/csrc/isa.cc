// Compiled for any processor: it finds out what this one can do.

#include "isa.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace quintain {
namespace {

// Returns whether the processor has units for whole tiles of bfloat16, and Linux lets this process use
// them: it has to be asked.
bool HasTiles() {
  constexpr unsigned kAmxBf16 = 1u << 22, kAmxTile = 1u << 24;
  constexpr int kRequestPermission = 0x1023, kTileData = 18;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kAmxBf16) != 0 &&
         (d & kAmxTile) != 0 && syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

#ifdef QUINTAIN_KNOWS_AMX
constexpr Isa kNewest = Isa::kAmxBf16;
#else
constexpr Isa kNewest = static_cast<Isa>(QUINTAIN_NEWEST < 3 ? QUINTAIN_NEWEST : 3);
#endif

std::atomic<int> limit{static_cast<int>(kNewest)};

}  // namespace

Isa FindIsa() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return Isa::kNone;
  if (kNewest == Isa::kAvx2 || !__builtin_cpu_supports("avx512f") ||
      !__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512dq") ||
      !__builtin_cpu_supports("avx512vl")) {
    return Isa::kAvx2;
  }
  const bool is_newest =
      __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vnni");
  if (kNewest == Isa::kAvx512 || !is_newest) return Isa::kAvx512;
  return HasTiles() ? kNewest : Isa::kAvx512Bf16;
}

Isa UsedIsa() {
  static const Isa found = FindIsa();
  const int limited = limit.load(std::memory_order_relaxed);
  return static_cast<int>(found) < limited ? found : static_cast<Isa>(limited);
}

}  // namespace quintain

extern "C" int quintain_limit_isa(int isa) {
  const int newest = static_cast<int>(quintain::kNewest);
  quintain::limit.store(isa < 1 ? 1 : isa > newest ? newest : isa, std::memory_order_relaxed);
  return static_cast<int>(quintain::UsedIsa());
}

extern "C" int quintain_leaves_amx() {
  static const bool has_tiles = quintain::HasTiles();
  return has_tiles && quintain::UsedIsa() != quintain::Isa::kAmxBf16;
}

extern "C" int quintain_has_fast_products() {
  static const bool is_newest = quintain::FindIsa() >= quintain::Isa::kAvx512Bf16;
  return is_newest && !quintain_leaves_amx();
}
