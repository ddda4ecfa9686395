// SPDX-License-Identifier: Apache-2.0
// GEMMs and convolutions that bench_gemm times, and their schedules.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codegen/families/gemm/gemm_schedule.h"
#include "codegen/plan/expr_table.h"
#include "ir/graph.h"

namespace sinter::bench {

/// What is timed: GEMMs or convolutions side by side, each with weights of its own.
struct Workload {
  std::string name;
  int rows = 0, columns = 0;
  std::function<ir::Graph(int copies)> graph;  // fused
  bool by_warps = true;                        // whether warp tiles may be fast
  bool by_library = true;
};

/// Those whose names contain one of `filter`; all if it is empty.
std::vector<Workload> workloads(const std::vector<std::string>& filter);

/// One GEMM of a workload as its kernels see it. Lives at one address.
class WorkloadGemm {
 public:
  /// `packed`: 16-bit weights of few rows are packed, as in a plan whose only reader is the GEMM.
  /// Nothing if the workload has no GEMM.
  static std::unique_ptr<WorkloadGemm> make(const Workload& workload, bool by_warpgroups,
                                            bool packed, const codegen::DeviceModel& device);

  const codegen::GemmProgram& product() const { return product_; }
  const codegen::ProgramAnalysis& analysis() const { return *analysis_; }
  bool has_kernel() const;
  /// Estimated nanoseconds with the device's numbers.
  double estimate(const codegen::GemmSchedule& schedule) const {
    return codegen::estimated_time(*analysis_, product_, schedule, rows_);
  }

 private:
  WorkloadGemm(const ir::Graph& body, const Workload& workload);

  codegen::ExprTable exprs_;
  codegen::GemmProgram product_;
  codegen::KernelRequest request_;
  std::optional<codegen::ProgramAnalysis> analysis_;
  std::int64_t rows_ = 0;
};

}  // namespace sinter::bench
