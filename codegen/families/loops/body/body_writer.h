// SPDX-License-Identifier: Apache-2.0
// The statements of a kernel, for any mapping.
#pragma once

#include <string>

#include "codegen/families/loops/body/loads_ahead.h"
#include "codegen/families/loops/body/row_reductions.h"
#include "codegen/families/loops/body/shared_tiles.h"

namespace sinter::codegen {

/// Writes a kernel's body in passes. Pass p computes values that depend on exactly p reductions,
/// and accumulates the reductions that pass p + 1 needs. It has the thread's (row's) values, then a
/// loop over the thread's vectors with values of the vector, which contains a loop over its
/// elements.
/// A scan is a reduction of the thread's own elements in the preceding pass, which yields the
/// prefix before them; its own pass computes the running values.
/// A thread that keeps its row in registers loads everything first and keeps what later passes use.
/// A looping thread reloads and recomputes in every pass.
class BodyWriter {
 public:
  BodyWriter(const ProgramAnalysis& analysis, Arguments& args, const ThreadMapping& mapping,
             CodeText& code);
  void write();

 private:
  template <class Body>
  void write_windows();
  void declare_pointers(int stage);
  void thread_values(int stage);
  void write_pass(int stage);
  void row_vectors(int stage);
  InstrSet needed_in(int stage) const;

  BodyState s_;
  StatementWriter out_;
  LoadsAhead loads_;
  RowReductions reductions_;
  SharedTiles tiles_;
};

/// The statements of a kernel with that mapping, and the smallest device header that they need.
std::string write_body(const ProgramAnalysis& analysis, const ThreadMapping& mapping,
                       Arguments& args);
std::string body_header(const ProgramAnalysis& analysis);

}  // namespace sinter::codegen
