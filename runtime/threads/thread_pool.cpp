// SPDX-License-Identifier: Apache-2.0
#include "runtime/threads/thread_pool.h"

#include <algorithm>
#include <chrono>
#include <system_error>

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include "runtime/log.h"
#include "runtime/threads/openmp.h"

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>

#include "runtime/format_error.h"
#endif

namespace sinter::runtime::threads {
namespace {

thread_local bool in_job = false;      // of the calling thread
thread_local bool is_counted = false;  // this thread counts as a caller

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

constexpr std::uint64_t range_of(std::uint64_t begin, std::uint64_t end) {
  return begin | end << 32;
}

std::atomic_ref<std::uint64_t> range_at(Job::Share& share) {
  return std::atomic_ref<std::uint64_t>(share.range);
}

/// Whether there are parts that nobody has taken.
bool has_parts(Job& job) {
  for (int m = 0; m < job.members; ++m) {
    const std::uint64_t range = range_at(job.shares[m]).load(std::memory_order_relaxed);
    if ((range & 0xffffffff) < range >> 32) return true;
  }
  return false;
}

void run_body(Job& job, int me) {
  in_job = true;
  try {
    Member member(job, me);
    job.body(job.context, member);
  } catch (...) {
    {
      const std::lock_guard lock(job.failure_mutex);
      if (!job.failure) job.failure = std::current_exception();
    }
    for (int m = 0; m < job.members; ++m) range_at(job.shares[m]).store(0);
  }
  in_job = false;
}

/// Blocks signals, which are for the program's own threads.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~NoSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

void bind_to(const std::vector<int>& cpus) {
  if (cpus.empty()) return;
  const int most = *std::ranges::max_element(cpus) + 1;
  cpu_set_t* set = CPU_ALLOC(static_cast<std::size_t>(most));
  const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(most));
  CPU_ZERO_S(bytes, set);
  for (const int cpu : cpus) CPU_SET_S(static_cast<std::size_t>(cpu), bytes, set);
  ::sched_setaffinity(0, bytes, set);  // set_thread_pool has checked the processors
  CPU_FREE(set);
}

}  // namespace

std::optional<std::int64_t> Member::next() {
  // Other members steal the rest of a worker's share; the caller stays to the end.
  if (me_ != 0 && job_.pool->is_crowded()) return std::nullopt;
  for (;;) {
    auto range = range_at(job_.shares[victim_]);
    std::uint64_t now = range.load(std::memory_order_relaxed);
    for (;;) {
      const std::uint64_t begin = now & 0xffffffff, end = now >> 32;
      if (begin >= end) break;
      const bool own = victim_ == me_;
      const std::uint64_t left = own ? range_of(begin + 1, end) : range_of(begin, end - 1);
      if (range.compare_exchange_weak(now, left, std::memory_order_relaxed))
        return static_cast<std::int64_t>(own ? begin : end - 1);
    }
    victim_ = victim_ + 1 == job_.members ? 0 : victim_ + 1;
    if (victim_ == me_) return std::nullopt;
  }
}

ThreadPool::ThreadPool(ThreadPoolOptions options) : options_(std::move(options)) {
  for (int i = 1; i < options_.threads; ++i) {
    workers_.push_back(std::make_unique<Worker>());
    workers_.back()->place = i - 1;
  }
}

ThreadPool::~ThreadPool() { stop(); }

ThreadPool::Caller::Caller(ThreadPool& pool) : pool_(is_counted || in_job ? nullptr : &pool) {
  if (!pool_) return;
  is_counted = true;
  pool_->callers_.fetch_add(1);
}

ThreadPool::Caller::~Caller() {
  if (!pool_) return;
  pool_->callers_.fetch_sub(1);
  is_counted = false;
}

bool ThreadPool::is_crowded() const {
  return callers_.load(std::memory_order_relaxed) + active_.load(std::memory_order_relaxed) >
         size();
}

/// Spins until `ready` returns true; false after the spin time.
template <typename Ready>
bool ThreadPool::spin(const Ready& ready) const {
  using Clock = std::chrono::steady_clock;
  constexpr int kLooksPerTime = 16;
  const auto end = Clock::now() + std::chrono::microseconds(options_.spin_microseconds);
  do {
    for (int i = 0; i < kLooksPerTime; ++i) {
      if (ready()) return true;
      relax();
    }
  } while (Clock::now() < end);
  return false;
}

void ThreadPool::run_job(Job& job, std::int64_t parts, int threads) {
  if (parts <= 0) return;
  if (parts >> 32 != 0) throw internal_error("a job of {} parts: at most 2^32 - 1", parts);
  job.pool = this;
  if (in_job) {
    job.shares[0].range = range_of(0, static_cast<std::uint64_t>(parts));
    Member alone(job, 0);
    job.body(job.context, alone);
    return;
  }
  const Caller caller(*this);
  const int callers = std::max(1, callers_.load(std::memory_order_relaxed));
  const int fair = (size() + callers - 1) / callers - 1,
            left = size() - callers - active_.load(std::memory_order_relaxed),
            useful = static_cast<int>(std::min<std::int64_t>(parts, threads)) - 1;
  std::uint16_t team[kMaxThreads];
  const int workers = reserve(team, std::min({fair, left, useful}));
  job.members = workers + 1;
  for (int m = 0; m < job.members; ++m)
    range_at(job.shares[m])
        .store(range_of(static_cast<std::uint64_t>(parts * m / job.members),
                        static_cast<std::uint64_t>(parts * (m + 1) / job.members)),
               std::memory_order_relaxed);
  int sleepers = 0;
  for (int w = 0; w < workers; ++w) {
    workers_[team[w]]->me = w + 1;
    if (!offer(*workers_[team[w]], job)) job.sleeping[sleepers++] = team[w];
  }
  if (sleepers > 0) {
    job.sleepers.store(sleepers, std::memory_order_release);
    wake(job, 1);
  }
  run_body(job, 0);
  for (int w = 0; w < workers; ++w) {
    // A worker that has not begun by now would find no parts left.
    auto offered = reinterpret_cast<std::uintptr_t>(&job);
    if (!workers_[team[w]]->task.compare_exchange_strong(offered, kNothing))
      await(*workers_[team[w]], job);
  }
  if (job.failure) std::rethrow_exception(job.failure);
}

/// Reserves up to `most` idle workers; returns their number.
int ThreadPool::reserve(std::uint16_t* workers, int most) {
  if (most <= 0 || stopping_.load(std::memory_order_relaxed)) return 0;
  if (!started_.load(std::memory_order_acquire)) start();
  int count = 0;
  for (std::size_t w = 0; w < running_ && count < most; ++w) {
    std::uintptr_t nothing = kNothing;
    if (workers_[w]->task.load(std::memory_order_relaxed) == kNothing &&
        workers_[w]->task.compare_exchange_strong(nothing, kReserved))
      workers[count++] = static_cast<std::uint16_t>(w);
  }
  return count;
}

/// False if the worker sleeps, and must be woken to see the job.
// Dekker-style handshake: a worker sets `asleep` and then reads `task`; a caller writes `task` and
// then reads `asleep`. All four are sequentially consistent, so at least one sees the other's
// write.
bool ThreadPool::offer(Worker& worker, Job& job) {
  worker.task.store(reinterpret_cast<std::uintptr_t>(&job));
  return worker.asleep.load() == 0;
}

/// Wakes up to `most` of the job's sleepers, unless no parts are left for them. Called by members,
/// for whom the caller waits. A worker from which the caller has meanwhile taken the job back wakes
/// for nothing.
void ThreadPool::wake(Job& job, int most) {
  for (; most > 0; --most) {
    if (job.woken.load(std::memory_order_relaxed) >= job.sleepers.load(std::memory_order_acquire) ||
        !has_parts(job))
      return;
    const int next = job.woken.fetch_add(1, std::memory_order_relaxed);
    if (next >= job.sleepers.load(std::memory_order_acquire)) return;
    Worker& worker = *workers_[job.sleeping[next]];
    worker.asleep.store(0);
    worker.asleep.notify_one();
  }
}

void ThreadPool::await(Worker& worker, const Job& job) {
  const std::uintptr_t begun = reinterpret_cast<std::uintptr_t>(&job) | kBegun;
  const auto is_done = [&] { return worker.task.load() != begun; };
  if (spin(is_done)) return;
  worker.awaited.fetch_add(1);
  for (;;) {
    const std::uint32_t finished = worker.finished.load();
    if (is_done()) break;
    worker.finished.wait(finished);
  }
  worker.awaited.fetch_sub(1);
}

/// Whether a session computes that may offer this worker a job soon: in a run steps follow one
/// another, and some are one thread's.
bool ThreadPool::expects_jobs(const Worker& worker) const {
  const int callers = callers_.load(std::memory_order_relaxed);
  return callers > 0 && callers + worker.place < size();
}

Job* ThreadPool::next_job(Worker& worker) {
  constexpr int kPatience = 8;  // spins in the midst of a run
  for (int spins = 0;;) {
    std::uintptr_t task = kNothing;
    const auto has_task = [&] {
      task = worker.task.load(std::memory_order_acquire);
      return task > kReserved || stopping_.load(std::memory_order_relaxed);
    };
    if (!spin(has_task)) {
      if (++spins < kPatience && expects_jobs(worker)) continue;
      spins = 0;
      worker.asleep.store(1);
      if (worker.task.load() == kNothing && !stopping_.load()) worker.asleep.wait(1);
      worker.asleep.store(0);
      continue;
    }
    if (task > kReserved && worker.task.compare_exchange_strong(task, task | kBegun))
      return reinterpret_cast<Job*>(task);
    if (stopping_.load()) return nullptr;
  }
}

void ThreadPool::work(Worker& worker) {
  bind_to(options_.cpus);
  stay_out_of_openmp();
  while (Job* job = next_job(worker)) {
    active_.fetch_add(1, std::memory_order_relaxed);
    wake(*job, 2);
    run_body(*job, worker.me);
    active_.fetch_sub(1, std::memory_order_relaxed);
    // Clears `task` last: its caller then destroys the job.
    worker.task.store(kNothing);
    if (worker.awaited.load() == 0) continue;
    worker.finished.fetch_add(1);
    worker.finished.notify_all();
  }
}

void ThreadPool::start() {
  const std::lock_guard lock(start_mutex_);
  if (started_.load() || stopping_.load()) return;
  const NoSignals inherited;
  for (std::unique_ptr<Worker>& worker : workers_) {
    try {
      worker->thread = std::thread([this, &own = *worker] { work(own); });
    } catch (const std::system_error& error) {
      log(LogLevel::kWarning, [&] {
        return fmt::format(
            "{} of the {} threads of the pool could not be started ({}): {} compute; "
            "SINTER_THREADS sets how many there are to be",
            workers_.size() - running_, size(), error.what(), running_ + 1);
      });
      break;
    }
    ::pthread_setname_np(worker->thread.native_handle(), "sinter");
    ++running_;
  }
  started_.store(true, std::memory_order_release);
}

void ThreadPool::stop() {
  const std::lock_guard lock(start_mutex_);
  join();
}

void ThreadPool::join() {
  stopping_.store(true);
  for (std::unique_ptr<Worker>& worker : workers_) {
    worker->asleep.store(0);
    worker->asleep.notify_one();
  }
  for (std::unique_ptr<Worker>& worker : workers_)
    if (worker->thread.joinable()) worker->thread.join();
}

}  // namespace sinter::runtime::threads
