// A team of threads that run one function.
#pragma once

#include <omp.h>

#if defined(__SANITIZE_THREAD__)
#define SINTER_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SINTER_THREAD_SANITIZER 1
#endif
#endif

#ifdef SINTER_THREAD_SANITIZER
#include <thread>
#include <vector>
#endif

namespace sinter::runtime::cpu {

/// Sets the size of OpenMP's teams for this thread, oneDNN's among them, and restores it.
class ThreadCount {
 public:
  explicit ThreadCount(int threads) : before_(omp_get_max_threads()) {
    omp_set_num_threads(threads);
  }
  ~ThreadCount() { omp_set_num_threads(before_); }
  ThreadCount(const ThreadCount&) = delete;
  ThreadCount& operator=(const ThreadCount&) = delete;

 private:
  int before_;
};

/// Calls `body(me, team)` on up to `threads` threads at once, 0 <= me < team, and returns when all
/// have returned. OpenMP may give fewer threads than asked for. `body` must not throw.
template <typename Body>
void run_team(int threads, const Body& body) {
#ifdef SINTER_THREAD_SANITIZER
  // ThreadSanitizer does not see how OpenMP's threads wait for each other, and would report every
  // value that one of them hands to another.
  std::vector<std::thread> team;
  for (int me = 1; me < threads; ++me)
    team.emplace_back([&body, me, threads] { body(me, threads); });
  body(0, threads);
  for (std::thread& thread : team) thread.join();
#else
#pragma omp parallel num_threads(threads)
  body(omp_get_thread_num(), omp_get_num_threads());
#endif
}

}  // namespace sinter::runtime::cpu
