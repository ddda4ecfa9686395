// SPDX-License-Identifier: Apache-2.0
// A pool of threads that take parts of a caller's work. See sinter/threads.h for what users set.
//
// A job's parts are divided into one share for each member of its team. A member takes parts from
// the front of its own share, so that from job to job a core sees the same rows, and then from the
// back of others': a member that has not come, because the machine is busy, has its share taken by
// those that have, and nobody waits for it. The caller is a member. It waits only for parts that
// somebody has begun.
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
/// Parts for `threads` threads, of work that can be divided at will: eight for each thread, so that
/// others soon finish what a late or slow thread leaves.
constexpr std::int64_t parts_of(int threads) { return threads > 1 ? 8 * threads : 1; }

class Member;
class ThreadPool;

/// One caller's work, on the caller's stack while it runs.
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
  Share shares[kMaxThreads];  // the first `members` of them: the others are never touched
};

/// One thread's membership of a team.
class Member {
 public:
  Member(Job& job, int me) : job_(job), me_(me), victim_(me) {}

  /// The caller is 0; no other thread of this job has the same number, which is less than the
  /// number of threads that were asked for.
  int me() const { return me_; }
  /// A part that nobody else has taken. Nothing when there is none left, or when other callers need
  /// the thread.
  std::optional<std::int64_t> next();

 private:
  Job& job_;
  int me_, victim_;
};

class ThreadPool {
 public:
  /// `options.threads` > 0. Threads are started when there is a job for them.
  explicit ThreadPool(ThreadPoolOptions options);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  /// The process's pool.
  static ThreadPool& shared();

  int size() const { return options_.threads; }
  /// Waits for the pool's threads, which finish what they have begun, and ends them. Jobs run on
  /// their callers alone from then on.
  void stop();

  /// Calls `body(member)` on the calling thread and on up to `threads` - 1 others at once, and
  /// returns when all have returned and all of 0 .. parts - 1 (parts < 2^32) have been taken: a
  /// body takes parts (Member::next) until it gets none. Throws the first exception that a body
  /// threw; parts that were not begun are dropped then. Called by a body, it runs alone.
  template <typename Body>
  void run(std::int64_t parts, int threads, const Body& body) {
    Job job(
        [](const void* context, Member& member) { (*static_cast<const Body*>(context))(member); },
        &body);
    run_job(job, parts, threads);
  }

  /// The calling thread computes, in jobs and in between, as long as this lives: the pool's other
  /// callers get that many threads fewer.
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
  /// A thread of the pool. `task` is what it is to do: kNothing, kReserved by a caller that is
  /// about to say, a job that is offered, or (kBegun added) one that it is at.
  struct alignas(64) Worker {
    std::atomic<std::uintptr_t> task{0};
    std::atomic<std::uint32_t> asleep{0};
    int me = 0;  // its number in the team, written before a job is offered
    alignas(64) std::atomic<std::uint32_t> finished{0};  // jobs, while somebody waits
    std::atomic<std::uint32_t> awaited{0};               // callers that wait for it
    std::thread thread;
  };
  static constexpr std::uintptr_t kNothing = 0, kBegun = 1, kReserved = 2;

  void run_job(Job& job, std::int64_t parts, int threads);
  int reserve(std::uint16_t* workers, int most);
  void offer(Worker& worker, Job& job);
  void await(Worker& worker, const Job& job);
  void start();
  void join();
  void work(Worker& worker);
  Job* next_job(Worker& worker);
  /// More threads compute than the pool may have.
  bool is_crowded() const;
  template <typename Ready>
  bool spin(const Ready& ready) const;

  ThreadPoolOptions options_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::mutex start_mutex_;
  std::atomic<bool> started_{false}, stopping_{false};
  std::size_t running_ = 0;  // workers that have a thread; written before started_
  alignas(64) std::atomic<int> callers_{0}, active_{0};  // active: workers that are at a job
};

/// ThreadPool::run in the process's pool.
template <typename Body>
void run_parts(std::int64_t parts, int threads, const Body& body) {
  ThreadPool::shared().run(parts, threads, body);
}

}  // namespace sinter::runtime::threads
