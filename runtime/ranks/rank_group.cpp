// SPDX-License-Identifier: Apache-2.0
#include "runtime/ranks/rank_group.h"

#include <thread>

#include "runtime/format_error.h"

namespace sinter::runtime {
namespace {

// Ranks mostly come within microseconds of each other.
constexpr int kLooks = 2000, kYields = 200;
// A sleeper looks by itself as often, so that a wakeup may be missed.
constexpr std::chrono::milliseconds kNap{1};

}  // namespace

RankGroup::RankGroup(int ranks, std::chrono::milliseconds patience)
    : slots_(static_cast<std::size_t>(ranks)), patience_(patience) {
  begin();
}

void RankGroup::begin() {
  for (Slot& slot : slots_) {
    slot.count.store(0, std::memory_order_relaxed);
    slot.has_ended.store(false, std::memory_order_relaxed);
    slot.computes_since = Clock::now();
  }
  has_failed_.store(false, std::memory_order_relaxed);
}

void RankGroup::end(int rank, bool has_failed) {
  if (has_failed) has_failed_.store(true, std::memory_order_release);
  slots_[static_cast<std::size_t>(rank)].has_ended.store(true, std::memory_order_release);
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

void RankGroup::arrive(int rank, Operands own) {
  Slot& slot = slots_[static_cast<std::size_t>(rank)];
  slot.operands = own;
  meet(rank, slot);
}

void RankGroup::depart(int rank) {
  Slot& slot = slots_[static_cast<std::size_t>(rank)];
  meet(rank, slot);
  slot.computes_since = Clock::now();
}

void RankGroup::meet(int rank, Slot& own) {
  const std::uint64_t count = own.count.load(std::memory_order_relaxed) + 1;
  own.count.store(count, std::memory_order_release);
  if (sleepers_.load() > 0) {
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
  }
  const Clock::duration patience = this->patience(Clock::now() - own.computes_since);
  for (int other = 0; other < ranks(); ++other)
    if (other != rank) wait_for(rank, other, count, patience);
}

void RankGroup::wait_for(int rank, int other, std::uint64_t count, Clock::duration patience) {
  Slot& slot = slots_[static_cast<std::size_t>(other)];
  const auto has_come = [&] { return slot.count.load(std::memory_order_acquire) >= count; };
  const auto is_over = [&] {
    return has_failed_.load(std::memory_order_acquire) ||
           slot.has_ended.load(std::memory_order_acquire);
  };
  for (int i = 0; i < kLooks + kYields; ++i) {
    if (has_come()) return;
    if (i >= kLooks) std::this_thread::yield();
  }
  const Clock::time_point start = Clock::now(), end = start + patience;
  sleepers_.fetch_add(1);
  std::unique_lock lock(mutex_);
  while (!has_come() && !is_over() && Clock::now() < end) changed_.wait_for(lock, kNap);
  lock.unlock();
  sleepers_.fetch_sub(1);
  if (has_come()) return;
  if (has_failed_.load(std::memory_order_acquire)) throw OtherRankFailed{};
  const std::uint64_t meeting = (count + 1) / 2;
  if (slot.has_ended.load(std::memory_order_acquire))
    throw internal_error("rank {} waits for rank {} at collective {}, and that has ended its run",
                         rank, other, meeting);
  throw device_error(
      "rank {} waits for rank {} at collective {}, and that has not come in {} ms "
      "(SessionOptions::rank_patience_ms)",
      rank, other, meeting,
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start).count());
}

}  // namespace sinter::runtime
