// SPDX-License-Identifier: Apache-2.0
// Ensembles of decision trees.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <sinter/dtype.h>
#include <sinter/scalar_op.h>

#include "runtime/cpu/gemm/dnnl/packed_weights.h"
#include "runtime/executor.h"
#include "runtime/plan/plan_data.h"

namespace sinter::runtime::cpu {

/// A TreeStep of one bound shape. Eight rows at a time go down a tree side by side, so that their
/// loads overlap; of fewer rows, each goes down 16 trees. A block of rows lies column by column
/// in a core's first cache, blocks of trees in its second. Every target combines its trees in their
/// order, whichever way: results depend on neither threads nor the number of rows.
class Trees {
 public:
  /// Throws Error(kInvalidPlan) if a node leads nowhere or asks for a column that is not there.
  Trees(const plan::PlanData& plan, const plan::fb::TreeStepT& step, const BoundShape& shape,
        PackedWeights& weights, int threads);

  /// Bytes that each thread needs, 64-byte aligned.
  std::size_t workspace_bytes() const;
  void run(std::span<std::byte* const> buffers, std::span<std::byte* const> workspaces) const;

 private:
  template <typename T, typename Node>
  void run_typed(std::span<std::byte* const> buffers, std::span<std::byte* const> workspaces) const;

  DType dtype_;
  std::uint32_t rows_buffer_, result_buffer_, trees_buffer_, weights_buffer_;
  std::int64_t rows_, columns_, targets_, width_, tree_count_, node_count_;
  Combine combine_;
  bool is_narrow_ = false;
  int threads_ = 1;
  std::int64_t rows_of_part_ = 1;
  std::shared_ptr<const PackedWeights::Entry> packed_;  // which these lie in
  const std::byte *nodes_ = nullptr, *values_ = nullptr;
  const std::int32_t* depths_ = nullptr;
};

}  // namespace sinter::runtime::cpu
