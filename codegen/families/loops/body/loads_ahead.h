// SPDX-License-Identifier: Apache-2.0
// Loads issued before any of them is waited for.
#pragma once

#include "codegen/families/loops/body/statement_writer.h"

namespace sinter::codegen {

class LoadsAhead {
 public:
  LoadsAhead(BodyState& state, StatementWriter& out) : s_(state), out_(out), text_(out.text) {}
  /// Declares the shared memory of staged loads.
  void declare_staged();
  /// Declares data shared by passes over the same columns; the first pass loads it.
  void declare_of_all_passes();
  /// Loads all of a thread's vectors, for all stages.
  void write();
  /// Loads a looping thread's next vectors.
  void write_group(const InstrSet& needed);
  /// Marks these vectors as used.
  void end_group() { s_.grouped.assign(s_.grouped.size(), false); }
  /// Lean: stops the compiler from keeping values computed from a warp's vectors.
  void hold_all(const InstrSet& needed, int stage);
  /// Defines a function that loads a pass's data of single rows; false if there is none.
  bool define_row_loads();

 private:
  std::vector<std::size_t> of_all_passes() const;
  void load_for_all_passes();

  BodyState& s_;
  StatementWriter& out_;
  const ValueText& text_;
};

}  // namespace sinter::codegen
