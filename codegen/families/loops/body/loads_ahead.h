// Loads that are issued before anything waits for one of them.
#pragma once

#include "codegen/families/loops/body/statement_writer.h"

namespace sinter::codegen {

class LoadsAhead {
 public:
  LoadsAhead(BodyState& state, StatementWriter& out) : s_(state), out_(out), text_(out.text) {}
  /// Shared memory in which some wait.
  void declare_staged();
  /// What passes over the same columns have in common, which the first of them loads.
  void declare_of_all_passes();
  /// All of a thread's vectors, for all stages.
  void write();
  /// A looping thread's next vectors.
  void write_group(const InstrSet& needed);
  /// Those vectors are done.
  void end_group() { s_.grouped.assign(s_.grouped.size(), false); }
  /// Lean: makes the compiler forget what it has computed from a warp's vectors.
  void hold_all(const InstrSet& needed, int stage);
  /// A function that loads what a pass's rows have of their own; false if there is nothing.
  bool define_row_loads();

 private:
  std::vector<std::size_t> of_all_passes() const;
  void load_for_all_passes();

  BodyState& s_;
  StatementWriter& out_;
  const ValueText& text_;
};

}  // namespace sinter::codegen
