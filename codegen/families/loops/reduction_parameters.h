// What schedules have in common whose threads pass over a row several times.
#pragma once

namespace sinter::codegen {

struct ReductionParameters {
  int ahead = 1;  // looped: vectors that are loaded at once
  /// Few registers are held from pass to pass: what all rows share is loaded where it is used, what
  /// is cheap to compute is computed again from what was loaded.
  bool lean = false;
  bool again = false;  // lean: results of long operations too are computed again
};

}  // namespace sinter::codegen
