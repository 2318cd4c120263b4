// Work that a thread has, and others may help with. Nobody waits for a thread that comes late.

#ifndef QUINTAIN_KERNELS_SHARING_H_
#define QUINTAIN_KERNELS_SHARING_H_

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

namespace quintain {

constexpr double kWorthwhile = 25e3;  // nanoseconds of work for which a thread is woken
constexpr double kSmallest = 10e3;    // nanoseconds of the parts that are taken last

// Threads of this process that are at some such work. It decides who helps, never what comes out.
inline std::atomic<int> busy_threads{0};

class BusyThread {
 public:
  BusyThread() { busy_threads.fetch_add(1, std::memory_order_relaxed); }
  ~BusyThread() { busy_threads.fetch_sub(1, std::memory_order_relaxed); }
  BusyThread(const BusyThread&) = delete;
  BusyThread& operator=(const BusyThread&) = delete;
};

// What is left of the units of one operation. It outlives the operation while a helper holds it, who
// finds nothing in it then.
class SharedUnits {
 public:
  SharedUnits(int64_t num_units, double cost, int num_threads)
      : num_units_(num_units), cost_(cost), num_threads_(num_threads) {}

  // Takes the next units: a large part of what is left at first, so that each thread goes through
  // memory in its order, and small ones at the end, so that all end together.
  bool Take(int64_t* begin, int64_t* end) {
    const int64_t smallest = 1 + static_cast<int64_t>(kSmallest / cost_);
    int64_t first = next_.load(std::memory_order_relaxed);
    do {
      const int64_t left = num_units_ - first;
      if (left <= 0) return false;
      const int64_t count = std::max(smallest, left / (2 * num_threads_));
      *begin = first;
      *end = first + std::min(left, count);
    } while (!next_.compare_exchange_weak(first, *end, std::memory_order_relaxed));
    return true;
  }

  // Tells that taken units are done.
  void Finish(int64_t count) {
    if (finished_.fetch_add(count, std::memory_order_acq_rel) + count < num_units_) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    all_done_.notify_all();
  }

  // Waits until all units are done that were taken. It looks for as long as waking would take.
  void Wait() {
    for (int i = 0; i < 2000; ++i) {
      if (IsDone()) return;
      __builtin_ia32_pause();
    }
    std::unique_lock<std::mutex> lock(mutex_);
    all_done_.wait(lock, [this] { return IsDone(); });
  }

  // Returns whether another thread would find enough to do, and the processor has one for it; that
  // counts as a helper until `Leave`.
  bool Invite() {
    const double left = (num_units_ - next_.load(std::memory_order_relaxed)) * cost_;
    if (left < kWorthwhile || helpers_.load(std::memory_order_relaxed) >= num_threads_ - 1 ||
        busy_threads.load(std::memory_order_relaxed) >= num_threads_) {
      return false;
    }
    helpers_.fetch_add(1, std::memory_order_relaxed);
    return true;
  }

  void Leave() { helpers_.fetch_sub(1, std::memory_order_relaxed); }

  // Returns whether more threads are at work than there may be, as when another operation begins.
  bool IsCrowded() const { return busy_threads.load(std::memory_order_relaxed) > num_threads_; }

 private:
  bool IsDone() const { return finished_.load(std::memory_order_acquire) == num_units_; }

  const int64_t num_units_;
  const double cost_;  // nanoseconds of a unit
  const int num_threads_;
  std::atomic<int64_t> next_{0}, finished_{0};
  std::atomic<int> helpers_{0};
  std::mutex mutex_;
  std::condition_variable all_done_;
};

// Calls `work(begin, end)` for parts of `[0, num_units)`, in this thread and in others.
//
// How it is split depends on chance, so each unit's result must not depend on others. A helper joins
// where fewer than `num_threads` threads of this process are at such work, and leaves when there are more.
//
// Args:
//   cost: About the nanoseconds of a unit.
//   num_threads: The most threads, with this one.
//   schedule: Called with a function that another thread is to call at some time, or never.
template <typename Schedule, typename Work>
void ShareUnits(int64_t num_units, double cost, int num_threads, Schedule schedule, Work work) {
  if (num_units <= 0) return;
  const BusyThread busy;
  if (num_threads <= 1 || num_units == 1 || num_units * cost < 2 * kWorthwhile) {
    work(0, num_units);
    return;
  }
  const auto shared = std::make_shared<SharedUnits>(num_units, cost, num_threads);
  const Work* here = &work;  // It is there while units are left or at work.
  int64_t begin, end;
  while (shared->Take(&begin, &end)) {
    while (shared->Invite()) {
      schedule([shared, here] {
        int64_t begin, end;
        const BusyThread busy;
        while (!shared->IsCrowded() && shared->Take(&begin, &end)) {
          (*here)(begin, end);
          shared->Finish(end - begin);
        }
        shared->Leave();
      });
    }
    work(begin, end);
    shared->Finish(end - begin);
  }
  shared->Wait();
}

}  // namespace quintain

#endif  // QUINTAIN_KERNELS_SHARING_H_
