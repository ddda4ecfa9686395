// What schedules have in common whose threads pass over a row several times.
#pragma once

namespace sinter::codegen {

struct ReductionParameters {
  int cluster = 1;  // blocks that share a row, on neighbouring multiprocessors (sm_90)
  int blocks = 0;   // of a multiprocessor, at least: bounds a thread's registers; 0: unbounded
  int ahead = 1;    // looped: vectors that are loaded at once
  /// Few registers are held from pass to pass: what all rows share is loaded where it is used, what
  /// is cheap to compute is computed again from what was loaded.
  bool lean = false;
  bool again = false;  // lean: results of long operations too are computed again
};

}  // namespace sinter::codegen
