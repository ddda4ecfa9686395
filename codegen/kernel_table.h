// SPDX-License-Identifier: Apache-2.0
// The generated kernels of a plan: steps share them; each is written and compiled once.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "codegen/compiled_plan.h"
#include "codegen/families/family.h"

namespace sinter::codegen {

/// Where a kernel is used: as a step's work, or as a part of a tactic.
struct Place {
  std::size_t step = 0;
  std::optional<std::pair<std::size_t, std::size_t>> part;  // tactic, part
};

class KernelTable {
 public:
  /// Throws Error(kUsage) if the options request a schedule that no family has.
  KernelTable(const CompileOptions& options, ExprTable& exprs, const PlanBuffers& buffers,
              std::vector<const DeviceModel*> devices);
  ~KernelTable();

  /// Registers the kernel of `part` for the launch at `place`, in a step of the node at `node`.
  /// `extents`: buffers of sizes that it may read on the device.
  void add(const TacticPart& part, const std::vector<std::string>& origins,
           const std::vector<std::uint32_t>& extents, NodePlace node, const Place& place);
  /// Writes every kernel for every architecture, compiles it, and sets the steps' modules. Throws
  /// KernelsRefused.
  void compile(std::vector<StepT>& steps, CompiledPlan& result);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sinter::codegen
