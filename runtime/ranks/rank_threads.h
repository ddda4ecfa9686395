// SPDX-License-Identifier: Apache-2.0
// A thread for each rank.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "runtime/ranks/rank_group.h"

namespace sinter::runtime {

class RankThreads {
 public:
  explicit RankThreads(std::shared_ptr<RankGroup> group);
  /// Waits for the threads, but not for ranks that have been given up.
  ~RankThreads();
  RankThreads(const RankThreads&) = delete;
  RankThreads& operator=(const RankThreads&) = delete;

  /// Runs `work(rank)` on all ranks' threads and waits. Throws the error of the first rank that has
  /// one; those that only waited for it have none. Ranks that do not end soon after one has failed,
  /// or long after one has ended, are given up: they keep `work` and all that it owns, and until
  /// they end later calls throw Error(kDevice).
  void run(std::function<void(int rank)> work);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace sinter::runtime
