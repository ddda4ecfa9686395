// SPDX-License-Identifier: Apache-2.0
#include "runtime/ranks/rank_threads.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <pthread.h>
#include <signal.h>

#include "runtime/format_error.h"

namespace sinter::runtime {
namespace {

/// How long ranks have to end after one has failed: those that wait for it do at once, when they
/// get a core. Longer if the run is short: its error is the caller's within two seconds.
constexpr std::chrono::milliseconds kGrace{400}, kShortRun{1900};

}  // namespace

/// Outlives the object while a rank that was given up still runs.
struct RankThreads::Shared {
  std::shared_ptr<RankGroup> group;
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::condition_variable changed;
  std::function<void(int)> work;
  std::uint64_t turn = 0;  // of the current work
  int running = 0;
  std::vector<std::exception_ptr> errors;  // by rank
  bool has_failed = false, stopping = false;

  void serve(int rank);
};

void RankThreads::Shared::serve(int rank) {
  std::uint64_t done = 0;
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [&] { return stopping || turn != done; });
    if (stopping) return;
    done = turn;
    {
      const std::function<void(int)> own = work;
      lock.unlock();
      std::exception_ptr error;
      bool has_error = false;
      try {
        own(rank);
      } catch (const OtherRankFailed&) {
        has_error = true;
      } catch (...) {
        error = std::current_exception();
        has_error = true;
      }
      group->end(rank, has_error);
      lock.lock();
      errors[static_cast<std::size_t>(rank)] = error;
      has_failed = has_failed || has_error;
      --running;
    }
    changed.notify_all();
  }
}

RankThreads::RankThreads(std::shared_ptr<RankGroup> group) : shared_(std::make_shared<Shared>()) {
  shared_->group = std::move(group);
  const int ranks = shared_->group->ranks();
  shared_->errors.resize(static_cast<std::size_t>(ranks));
  // Signals are for the program's own threads.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    for (int r = 0; r < ranks; ++r)
      shared_->threads.emplace_back([shared = shared_, r] { shared->serve(r); });
  } catch (...) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    {
      const std::lock_guard lock(shared_->mutex);
      shared_->stopping = true;
    }
    shared_->changed.notify_all();
    for (std::thread& thread : shared_->threads) thread.join();
    throw;
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

RankThreads::~RankThreads() {
  bool is_broken = false;
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->stopping = true;
    is_broken = shared_->running > 0;
  }
  shared_->changed.notify_all();
  // A detached thread owns a reference to what it uses.
  for (std::thread& thread : shared_->threads) is_broken ? thread.detach() : thread.join();
}

void RankThreads::run(std::function<void(int rank)> work) {
  Shared& shared = *shared_;
  std::unique_lock lock(shared.mutex);
  if (shared.running > 0)
    throw device_error(
        "a rank of the session has not ended an earlier run: open another session of the plan");
  shared.group->begin();
  shared.work = std::move(work);
  std::ranges::fill(shared.errors, nullptr);
  shared.has_failed = false;
  shared.running = shared.group->ranks();
  ++shared.turn;
  shared.changed.notify_all();
  const auto start = std::chrono::steady_clock::now();
  const auto is_done = [&] { return shared.running == 0; };
  const auto is_over = [&] { return is_done() || shared.has_failed; };
  const int ranks = shared.group->ranks();
  shared.changed.wait(lock, [&] { return shared.running < ranks || shared.has_failed; });
  const auto patience = shared.group->patience(std::chrono::steady_clock::now() - start);
  shared.changed.wait_for(lock, patience, is_over);
  const auto end = std::max(std::chrono::steady_clock::now() + kGrace, start + kShortRun);
  const bool all_end = shared.changed.wait_until(lock, end, is_done);
  shared.work = nullptr;
  const auto error =
      std::ranges::find_if(shared.errors, [](const auto& e) { return e != nullptr; });
  if (error != shared.errors.end()) std::rethrow_exception(*error);
  if (!all_end || shared.has_failed)
    throw device_error("a rank of the session does not end its run");
}

}  // namespace sinter::runtime
