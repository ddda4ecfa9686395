// SPDX-License-Identifier: Apache-2.0
// Where the ranks of one process meet: threads that read each other's memory.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace sinter::runtime {

/// Thrown to a rank whose wait another rank's error has ended: that error is the one to report.
struct OtherRankFailed {};

class RankGroup {
 public:
  /// `patience`: for ranks that have had nothing to do.
  RankGroup(int ranks, std::chrono::milliseconds patience);

  int ranks() const { return static_cast<int>(slots_.size()); }
  /// How long to wait for other ranks after `own` work: they do the same, and may share one core.
  std::chrono::steady_clock::duration patience(std::chrono::steady_clock::duration own) const {
    return patience_ + 2 * ranks() * own;
  }

  /// The memory that a rank brings to a meeting.
  struct Operands {
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
  };
  /// Comes to the next meeting and waits for all ranks; then each may read all operands, and write
  /// to all ranks' `to`, until it departs. Throws OtherRankFailed, or Error(kDevice) that says
  /// which rank does not come.
  void arrive(int rank, Operands own);
  const Operands& of(int rank) const { return slots_[static_cast<std::size_t>(rank)].operands; }
  /// Waits until all ranks have done so: their results are whole and their operands free.
  void depart(int rank);

  /// Before a run, of a group that nobody uses.
  void begin();
  /// A rank has ended its run, with an error or without: others that wait for it give up.
  void end(int rank, bool has_failed);

 private:
  using Clock = std::chrono::steady_clock;
  struct alignas(64) Slot {
    std::atomic<std::uint64_t> count{0};  // arrivals and departures
    std::atomic<bool> has_ended{false};
    Operands operands;
    Clock::time_point computes_since;  // of its own thread
  };

  void meet(int rank, Slot& own);
  void wait_for(int rank, int other, std::uint64_t count, Clock::duration patience);

  std::vector<Slot> slots_;
  std::chrono::milliseconds patience_;
  std::atomic<bool> has_failed_{false};
  std::mutex mutex_;  // of sleepers
  std::condition_variable changed_;
  std::atomic<int> sleepers_{0};
};

/// Which rank of a group an executor is; no group: it runs a plan of one rank.
struct RankPlace {
  std::shared_ptr<RankGroup> group;
  int rank = 0;
};

}  // namespace sinter::runtime
