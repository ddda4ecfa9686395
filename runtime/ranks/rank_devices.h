// SPDX-License-Identifier: Apache-2.0
// What the ranks of a session run on: parts of the CPU, or GPUs.
#pragma once

#include <memory>

#include "runtime/executor.h"

namespace sinter::runtime {

class RankDevices {
 public:
  virtual ~RankDevices() = default;
  /// The executor of rank `rank` of `plan`, which is that rank's (plan_of_rank).
  virtual std::unique_ptr<Executor> make(int rank, std::shared_ptr<const plan::PlanData> plan,
                                         const SessionOptions& options,
                                         const std::shared_ptr<const HostOperators>& operators) = 0;
  /// Before a run, of devices that nobody uses.
  virtual void begin() {}
  /// Behind a rank's run: throws Error(kDevice) if it has given up a wait for another.
  virtual void check(int) {}
  /// A rank has failed: waits of the others end soon.
  virtual void give_up() noexcept {}
  /// Whether all ranks read the host memory of one; else each gets a copy.
  virtual bool share_host_memory() const { return true; }
};

/// Each rank on a GPU of its own, from SessionOptions::device on, or as SINTER_RANK_DEVICES lists
/// them ("0,1"); several ranks may be on one. Throws Error(kDevice) if there are too few, or two do
/// not reach each other's memory. Only in builds with the CUDA target.
std::unique_ptr<RankDevices> make_rank_gpus(int ranks, const SessionOptions& options);

/// make_ranked_executor on given devices.
std::unique_ptr<Executor> make_ranked_executor(
    const std::shared_ptr<const plan::PlanData>& plan, const SessionOptions& options,
    const std::shared_ptr<const HostOperators>& operators, std::unique_ptr<RankDevices> devices);

}  // namespace sinter::runtime
