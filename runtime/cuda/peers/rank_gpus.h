// SPDX-License-Identifier: Apache-2.0
// The GPUs of a session's ranks, and the memory through which they meet (plan/peer_memory.h).
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <vector>

#include "graphs/memory.h"
#include "graphs/stream.h"
#include "runtime/cuda/device_plan.h"
#include "runtime/plan/ranks/peer_memory.h"
#include "runtime/ranks/rank_devices.h"

namespace sinter::runtime {

class RankGpus final : public RankDevices {
 public:
  /// Rank r is on GPU devices[r]. Throws Error(kDevice).
  RankGpus(const CudaEnvironment& environment, const std::vector<int>& devices,
           std::chrono::milliseconds patience);

  std::unique_ptr<Executor> make(int rank, std::shared_ptr<const plan::PlanData> plan,
                                 const SessionOptions& options,
                                 const std::shared_ptr<const HostOperators>& operators) override;
  void begin() override;
  void check(int rank) override;
  void give_up() noexcept override;
  bool share_host_memory() const override { return false; }

 private:
  struct Gpu {
    graphs::ContextPtr context;
    graphs::Stream stream;  // no rank's: its copies pass kernels that wait
    graphs::DeviceMemory table, area;
    graphs::PinnedMemory report;

    explicit Gpu(graphs::ContextPtr on) : context(on), stream(std::move(on)) {}
    std::uint64_t& reported() const { return *reinterpret_cast<std::uint64_t*>(report.data()); }
  };
  void connect() const;
  void clear();

  CudaEnvironment environment_;
  std::chrono::milliseconds patience_;
  std::vector<Gpu> gpus_;
  std::atomic<bool> has_failed_{false};
};

}  // namespace sinter::runtime
