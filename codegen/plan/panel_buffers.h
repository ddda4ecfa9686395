// SPDX-License-Identifier: Apache-2.0
// Quantized weights of a CPU's plan in the order in which it multiplies them, so that a load maps
// them (runtime/plan/panels/quant_panels.h).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "codegen/plan/plan_buffers.h"

namespace sinter::codegen {

class PanelBuffers {
 public:
  explicit PanelBuffers(PlanBuffers& buffers) : buffers_(buffers) {}

  /// Replaces the graph's constants by panels in `product`, which has a quantization, and in what
  /// the step reads; each is packed once. Weights that a run computes stay. Those of a grouped
  /// matmul, [groups, n, ..], become the panels of one group after the other. `rounds`: rows are
  /// rounded to 8 bits where groups of scales are whole blocks.
  void pack(plan::fb::MatmulStepT& product, std::vector<std::uint32_t>& reads,
            const ExprTable& exprs, bool rounds);

 private:
  std::uint32_t find_or_make(const std::array<std::int64_t, 4>& key, const ir::Tensor& made);

  PlanBuffers& buffers_;
  // By the buffers that decide, and the group.
  std::map<std::array<std::int64_t, 4>, std::uint32_t> known_;
};

}  // namespace sinter::codegen
