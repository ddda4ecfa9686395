// Transposes: what passes through tiles in shared memory on its way in or out.
#pragma once

#include "codegen/families/loops/body/statement_writer.h"

namespace sinter::codegen {

class SharedTiles {
 public:
  SharedTiles(BodyState& state, StatementWriter& out) : s_(state), out_(out) {}
  void declare();
  /// What lies across the stores comes through shared memory.
  void fill();
  /// And what is stored across leaves it.
  void empty();

 private:
  std::vector<std::size_t> transposed(plan::fb::InstrKind kind) const;

  BodyState& s_;
  StatementWriter& out_;
};

}  // namespace sinter::codegen
