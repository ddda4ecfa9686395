// SPDX-License-Identifier: Apache-2.0
// Reductions across threads: partial results and their combination.
#pragma once

#include "codegen/families/loops/body/statement_writer.h"

namespace sinter::codegen {

/// Dynamic shared memory of a kernel: data exchanged by the blocks of a cluster.
std::uint32_t reduction_shared_bytes(const ProgramAnalysis& analysis, const ThreadMapping& mapping);

class RowReductions {
 public:
  RowReductions(BodyState& state, StatementWriter& out)
      : s_(state), out_(out), text_(out.text), how_(state.mapping.reduction) {}
  /// Declares static shared memory for the combination.
  void declare_shared();
  /// Declares scratch in dynamic shared memory, at the same offset in all blocks of a cluster.
  void declare_dynamic();
  /// Declares each scan's result over the row's earlier parts.
  void declare_carries();
  /// Declares the accumulators of pass `stage`, and the results that later passes use.
  void declare_results(const InstrSet& needed, int stage);
  /// Combines across threads, after the pass.
  void combine(int stage);

 private:
  BodyState& s_;
  StatementWriter& out_;
  const ValueText& text_;
  const RowReduction& how_;
};

}  // namespace sinter::codegen
