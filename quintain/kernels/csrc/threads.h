// Work shared among TensorFlow's own threads, always with the same result.

#ifndef QUINTAIN_KERNELS_THREADS_H_
#define QUINTAIN_KERNELS_THREADS_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

#include "sharing.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/util/work_sharder.h"

namespace quintain {

// Calls `work(begin, end)` for parts of `[0, num_rows)`; `cost` is about the nanoseconds of a row.
// Each row's result must not depend on others. There are no more threads than the device has, or
// than this one may use; helpers are the device's own, so that none is ours to start or end.
template <typename Work>
void ForRows(tensorflow::OpKernelContext* context, int64_t num_rows, int64_t cost, Work work) {
  auto& threads = *context->device()->tensorflow_cpu_worker_threads();
  const int num_threads =
      std::min(threads.num_threads, tensorflow::GetPerThreadMaxParallelism());
  const auto schedule = [&threads](auto help) { threads.workers->Schedule(std::move(help)); };
  ShareUnits(num_rows, std::max<int64_t>(cost, 1), num_threads, schedule, work);
}

// The same for work that returns whether there was memory for what it works with.
template <typename Work>
absl::Status ForRowsWithScratch(tensorflow::OpKernelContext* context, int64_t num_rows,
                                int64_t cost, Work work) {
  std::atomic<bool> is_short{false};
  ForRows(context, num_rows, cost, [&](int64_t begin, int64_t end) {
    if (!work(begin, end)) is_short.store(true, std::memory_order_relaxed);
  });
  if (!is_short.load(std::memory_order_relaxed)) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      context->op_kernel().type_string(), ": there is no memory left for what it works with."));
}

// Calls `work(block, begin, end)` for blocks of `block_rows` rows, whatever the number of threads:
// sums over a block, added up in the order of the blocks, are the same from run to run. It returns
// whether there was memory.
template <typename Work>
absl::Status ForBlocks(tensorflow::OpKernelContext* context, int64_t num_rows, int64_t block_rows,
               int64_t cost, Work work) {
  const int64_t num_blocks = (num_rows + block_rows - 1) / block_rows;
  const auto work_all = [&](int64_t first, int64_t last) {
    for (int64_t block = first; block < last; ++block) {
      const int64_t begin = block * block_rows;
      if (!work(block, begin, std::min(begin + block_rows, num_rows))) return false;
    }
    return true;
  };
  return ForRowsWithScratch(context, num_blocks, cost * block_rows, work_all);
}

}  // namespace quintain

#endif  // QUINTAIN_KERNELS_THREADS_H_
