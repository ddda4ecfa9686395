// What threads combine: partial results, and how they meet.
#pragma once

#include "codegen/families/loops/body/statement_writer.h"

namespace sinter::codegen {

/// Dynamic shared memory of a kernel: what the blocks of a cluster tell each other.
std::uint32_t reduction_shared_bytes(const ProgramAnalysis& analysis, const ThreadMapping& mapping);

class RowReductions {
 public:
  RowReductions(BodyState& state, StatementWriter& out)
      : s_(state), out_(out), text_(out.text), how_(state.mapping.reduction) {}
  /// Static shared memory in which they meet.
  void declare_shared();
  /// Scratch in dynamic shared memory, which blocks of a cluster have at the same place.
  void declare_dynamic();
  /// What each scan has combined of the row's parts before.
  void declare_carries();
  /// What pass `stage` combines into, and what later ones use of it.
  void declare_results(const InstrSet& needed, int stage);
  /// Behind the pass.
  void combine(int stage);

 private:
  BodyState& s_;
  StatementWriter& out_;
  const ValueText& text_;
  const RowReduction& how_;
};

}  // namespace sinter::codegen
