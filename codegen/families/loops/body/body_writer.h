// The statements of a kernel, for any mapping.
#pragma once

#include <string>

#include "codegen/families/loops/body/loads_ahead.h"
#include "codegen/families/loops/body/row_reductions.h"
#include "codegen/families/loops/body/shared_tiles.h"

namespace sinter::codegen {

/// Writes a kernel's body in passes. Pass p computes everything that has waited for exactly p
/// reductions, and reduces what pass p + 1 waits for:
///   values of the thread (per row), then a loop over the thread's vectors, within it values of the
///   vector, within it a loop over the vector's elements.
/// A scan is a reduction of the thread's own elements in the pass before, after which what comes
/// before them is known, and running values from there in its own.
/// A thread that holds its row in registers loads everything first and keeps between passes what
/// later ones use; one that loops computes again from memory in every pass.
class BodyWriter {
 public:
  BodyWriter(const ProgramAnalysis& analysis, Arguments& args, const ThreadMapping& mapping,
             CodeText& code);
  void write();

 private:
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

/// The statements of a kernel of that mapping, and the device header that they need at least.
std::string write_body(const ProgramAnalysis& analysis, const ThreadMapping& mapping,
                       Arguments& args);
std::string body_header(const ProgramAnalysis& analysis);

}  // namespace sinter::codegen
