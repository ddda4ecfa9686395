// SPDX-License-Identifier: Apache-2.0
// Transposes: loads and stores that pass through tiles in shared memory.
#pragma once

#include "codegen/families/loops/body/statement_writer.h"

namespace sinter::codegen {

class SharedTiles {
 public:
  SharedTiles(BodyState& state, StatementWriter& out) : s_(state), out_(out) {}
  void declare();
  /// Loads transposed inputs into shared memory.
  void fill();
  /// Stores transposed outputs from shared memory.
  void empty();

 private:
  std::vector<std::size_t> transposed(plan::fb::InstrKind kind) const;

  BodyState& s_;
  StatementWriter& out_;
};

}  // namespace sinter::codegen
