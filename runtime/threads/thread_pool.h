// SPDX-License-Identifier: Apache-2.0
// A work-stealing pool whose threads take parts of a caller's work. See sinter/threads.h for users'
// settings.
//
// A job's parts are divided into one share for each member of its team. A member takes parts from
// the front of its own share, so that a core sees the same rows in each job. Then it steals from
// the back of others' shares. So the share of a member that does not arrive, because the machine is
// busy, is done by others, and nobody waits for it. The caller is a member. It waits only for parts
// that a member has begun.
//
// Waking a thread takes the waker microseconds. So the caller wakes one of its team's sleepers, and
// each thread that arrives wakes two more, as long as parts are left.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include <sinter/threads.h>

namespace sinter::runtime::threads {

inline constexpr int kMaxThreads = 256;

/// Nanoseconds of one thread's work that justify a further thread, whose caches have none of the
/// data and which the caller offers work and waits for. The one place that decides who is worth it.
inline constexpr double kNanosecondsOfThread = 4000;
/// Threads, at most `most`, that are worth what one thread does in `nanoseconds`; at least 1.
constexpr int team_for(double nanoseconds, int most) {
  const double worth = nanoseconds / kNanosecondsOfThread;
  return !(worth > 1) || most <= 1 ? 1 : worth < most ? static_cast<int>(worth) : most;
}

/// Number of parts for divisible work on `threads` threads: 8 for each thread, so that others can
/// finish the parts of a late or slow thread.
constexpr std::int64_t parts_of(int threads) { return threads > 1 ? 8 * threads : 1; }

class Member;
class ThreadPool;

/// One caller's work; it lives on the caller's stack.
struct Job {
  using Body = void (*)(const void* context, Member& member);
  Job(Body function, const void* argument) : body(function), context(argument) {}

  struct alignas(64) Share {
    std::uint64_t range;  // begin in the lower half, end in the upper: see Member::next
  };

  Body body;
  const void* context;
  ThreadPool* pool = nullptr;
  int members = 1;
  std::exception_ptr failure;
  std::mutex failure_mutex;
  // Sleepers of the team, which the caller lists before it publishes their number.
  std::atomic<int> sleepers{0}, woken{0};
  std::uint16_t sleeping[kMaxThreads];
  Share shares[kMaxThreads];  // only the first `members` are used
};

/// One thread's membership of a team.
class Member {
 public:
  Member(Job& job, int me) : job_(job), me_(me), victim_(me) {}

  /// 0 for the caller; unique in the job, and less than the requested number of threads.
  int me() const { return me_; }
  /// Takes a part that nobody else has. Nullopt if none is left, or if other callers need the
  /// thread.
  std::optional<std::int64_t> next();

 private:
  Job& job_;
  int me_, victim_;
};

class ThreadPool {
 public:
  /// `options.threads` > 0. The first job starts the threads.
  explicit ThreadPool(ThreadPoolOptions options);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  /// The process's pool.
  static ThreadPool& shared();

  int size() const { return options_.threads; }
  /// Waits for the pool's threads to finish their current jobs, and ends them. Later jobs run on
  /// their callers alone.
  void stop();

  /// Calls `body(member)` on the calling thread and concurrently on up to `threads` - 1 others. A
  /// body takes parts of 0 .. parts - 1 (parts < 2^32) with Member::next until none is left.
  /// Returns when all parts are done. Throws the first exception of a body, and then drops parts
  /// that were not begun. A nested call runs on its thread alone.
  template <typename Body>
  void run(std::int64_t parts, int threads, const Body& body) {
    Job job(
        [](const void* context, Member& member) { (*static_cast<const Body*>(context))(member); },
        &body);
    run_job(job, parts, threads);
  }

  /// Counts the calling thread as computing for this object's lifetime, in jobs and between them:
  /// the pool's other callers get one thread fewer.
  class Caller {
   public:
    explicit Caller(ThreadPool& pool = shared());
    ~Caller();
    Caller(const Caller&) = delete;
    Caller& operator=(const Caller&) = delete;

   private:
    ThreadPool* pool_;
  };

 private:
  friend class Member;
  /// A thread of the pool. `task` is kNothing, kReserved (by a caller that is about to offer a
  /// job), an offered job, or the current job plus kBegun.
  struct alignas(64) Worker {
    std::atomic<std::uintptr_t> task{0};
    std::atomic<std::uint32_t> asleep{0};
    int place = 0;  // among the workers
    int me = 0;     // its number in the team, written before a job is offered
    alignas(64) std::atomic<std::uint32_t> finished{0};  // counts finished jobs while a caller
                                                         // waits
    std::atomic<std::uint32_t> awaited{0};               // number of callers that wait for it
    std::thread thread;
  };
  static constexpr std::uintptr_t kNothing = 0, kBegun = 1, kReserved = 2;

  void run_job(Job& job, std::int64_t parts, int threads);
  int reserve(std::uint16_t* workers, int most);
  static bool offer(Worker& worker, Job& job);
  void wake(Job& job, int most);
  void await(Worker& worker, const Job& job);
  void start();
  void join();
  void work(Worker& worker);
  Job* next_job(Worker& worker);
  /// More threads compute than the pool has.
  bool is_crowded() const;
  bool expects_jobs(const Worker& worker) const;
  template <typename Ready>
  bool spin(const Ready& ready) const;

  ThreadPoolOptions options_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::mutex start_mutex_;
  std::atomic<bool> started_{false}, stopping_{false};
  std::size_t running_ = 0;                              // started workers; written before started_
  alignas(64) std::atomic<int> callers_{0}, active_{0};  // active: workers that execute a job
};

/// ThreadPool::run of the process's pool.
template <typename Body>
void run_parts(std::int64_t parts, int threads, const Body& body) {
  ThreadPool::shared().run(parts, threads, body);
}

}  // namespace sinter::runtime::threads
