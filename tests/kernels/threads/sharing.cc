// Shares work among threads: each unit is done once, nobody waits for who comes late, and the parts of
// a product write to memory of their own.

#include "sharing.h"

#include <deque>
#include <functional>
#include <thread>

#include "../drivers/driver.h"
#include "products.h"

namespace {

using quintain::ShareUnits;

constexpr double kCost = 1e5;  // of a unit: worth a thread

// Threads that take functions in their order, as those of TensorFlow.
class Pool {
 public:
  explicit Pool(int num_threads) {
    for (int i = 0; i < num_threads; ++i) threads_.emplace_back([this] { Run(); });
  }

  ~Pool() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void Schedule(std::function<void()> function) {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting_.push_back(std::move(function));
    changed_.notify_one();
  }

 private:
  void Run() {
    while (true) {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return is_over_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      const auto function = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      function();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  std::vector<std::thread> threads_;
  bool is_over_ = false;
};

void DoEachOnce(Pool* pool, int num_threads, int64_t num_units) {
  std::vector<int> done(num_units);
  const auto schedule = [pool](std::function<void()> help) { pool->Schedule(std::move(help)); };
  ShareUnits(num_units, kCost, num_threads, schedule, [&](int64_t begin, int64_t end) {
    CHECK(begin < end);
    for (int64_t i = begin; i < end; ++i) ++done[i];
  });
  for (const int times : done) CHECK(times == 1);
}

// Several operations at once, as TensorFlow runs them.
void ShareAmongOperations() {
  Pool pool(3);
  std::vector<std::thread> operations;
  for (int i = 0; i < 3; ++i) {
    operations.emplace_back([&pool] {
      for (int round = 0; round < 40; ++round) DoEachOnce(&pool, 1 + round % 5, round * 7 % 67);
    });
  }
  for (std::thread& operation : operations) operation.join();
}

void WaitForNobody() {
  std::vector<std::function<void()>> late;
  int64_t done = 0;
  const auto schedule = [&late](std::function<void()> help) { late.push_back(std::move(help)); };
  ShareUnits(100, kCost, 4, schedule, [&](int64_t begin, int64_t end) { done += end - begin; });
  CHECK(done == 100 && late.size() == 3);
  for (const auto& help : late) help();
  CHECK(done == 100);
}

// Threads that are at work already, or work that is too small, wake nobody.
void WakeOnlyWhoHelps() {
  int woken = 0, done = 0;
  const auto schedule = [&woken](std::function<void()>) { ++woken; };
  const auto work = [&done](int64_t begin, int64_t end) { done += static_cast<int>(end - begin); };
  ShareUnits(100, 1.0, 4, schedule, work);
  ShareUnits(100, kCost, 1, schedule, work);
  const quintain::BusyThread first, second, third;
  ShareUnits(100, kCost, 4, schedule, work);
  CHECK(woken == 0 && done == 300);
}

// A helper gives way to another operation.
void LeaveWhereThereAreMore() {
  std::vector<std::function<void()>> helpers;
  int64_t helped = 0;
  const std::thread::id own = std::this_thread::get_id();
  const auto schedule = [&](std::function<void()> help) { helpers.push_back(std::move(help)); };
  ShareUnits(100, kCost, 2, schedule, [&](int64_t begin, int64_t end) {
    if (std::this_thread::get_id() != own) helped += end - begin;
    if (begin > 0 || helpers.empty()) return;
    const quintain::BusyThread another;
    std::thread(helpers[0]).join();
  });
  CHECK(helpers.size() > 1 && helped == 0);
}

void Multiply(Pool* pool, bool is_left_turned, bool is_right_turned) {
  const int64_t rows = 230, inputs = 70, outputs = 330;
  const auto left = Numbers<bf16>(rows * inputs);
  const auto right = Numbers<float>(inputs * outputs);
  std::vector<bf16> result(rows * outputs);
  std::vector<float> sums(outputs);
  quintain::Product given = {};
  given.rows = rows, given.inputs = inputs, given.outputs = outputs;
  given.is_left_transposed = is_left_turned, given.is_right_transposed = is_right_turned;
  given.left = left.data(), given.product = result.data();
  QUINTAIN_DISPATCH(plan_product, &given);
  std::vector<uint32_t> panels(quintain::NumPanels(given) * quintain::PanelPairs(given));
  std::vector<uint16_t> packed(given.packed_rows);
  float* added = is_right_turned ? nullptr : sums.data();
  const auto schedule = [pool](std::function<void()> help) { pool->Schedule(std::move(help)); };
  const auto share = [&](int64_t num_units, auto work) {
    ShareUnits(num_units, kCost, 3, schedule, work);
  };
  share(quintain::NumPanels(given), [&](int64_t begin, int64_t end) {
    QUINTAIN_DISPATCH(pack_panels, given, right.data(), panels.data(), added, begin, end);
  });
  share(quintain::NumGroups(given), [&](int64_t begin, int64_t end) {
    QUINTAIN_DISPATCH(pack_left, given, packed.data(), begin, end);
  });
  share(quintain::NumUnits(given), [&](int64_t begin, int64_t end) {
    QUINTAIN_DISPATCH(multiply_units, given, packed.data(), panels.data(), begin, end);
  });
}

}  // namespace

int main() {
  ShareAmongOperations();
  WaitForNobody();
  WakeOnlyWhoHelps();
  LeaveWhereThereAreMore();
  return RunSets([] {
    Pool pool(2);
    for (int turned = 0; turned < 4; ++turned) Multiply(&pool, turned & 1, turned & 2);
  });
}
