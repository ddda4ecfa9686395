// Bodies of windows: the loops over a row's elements around those over a thread's rows.
//
// Values of the reduction's pass are computed where they vary least: in the loops over all but the
// window dimension (`outer`), once for each slot of an overlap, once for each element whatever the
// row, and the rest for each row. What a later level uses of an earlier one is kept in registers.
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
  const std::string index_;    // along it
  InstrSet reduces_;
  InstrSet done_;                // what has a name already
  InstrSet taken_[kKeptLevels];  // what other levels, or the reductions, take from a level
};

}  // namespace sinter::codegen
