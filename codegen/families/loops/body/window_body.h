// SPDX-License-Identifier: Apache-2.0
// Bodies of window schedules: the loops over a row's elements enclose those over a thread's rows.
//
// Each value of the reduction's pass is computed at the outermost possible level: in the loops over
// all but the window dimension (`outer`), for each slot of an overlap, for each element, or for
// each row. Values that a later level uses are kept in registers.
#pragma once

#include "codegen/families/loops/body/statement_writer.h"

namespace sinter::codegen {

class WindowBody {
 public:
  WindowBody(BodyState& state, StatementWriter& out);
  void reduce();
  void store();

 private:
  enum class Level { kNone, kOuter, kSlot, kElement, kRow };
  static constexpr std::size_t kKeptLevels = 3;  // the first three

  Level level_of(std::size_t i) const;
  void find_taken();
  InstrSet& taken(Level level) { return taken_[static_cast<std::size_t>(level) - 1]; }
  InstrSet needed_for(const InstrSet& values) const;
  void open_tile();
  void declare_sums();
  void walk_kept(Level level, const std::string& subscript);
  void keep_and_walk(Level level);
  void walk_slots();

  BodyState& s_;
  StatementWriter& out_;
  const WindowParameters& window_;
  const Overlap& overlap_;
  const bool tiled_;
  const std::int64_t length_;  // of the window
  const std::string index_;    // of that dimension
  InstrSet reduces_;
  InstrSet done_;                // values that have a name
  InstrSet taken_[kKeptLevels];  // values that other levels or the reductions use
};

}  // namespace sinter::codegen
