// SPDX-License-Identifier: Apache-2.0
// Common to schedules whose threads pass over a row several times.
#pragma once

namespace sinter::codegen {

struct ReductionParameters {
  int cluster = 1;  // blocks that share a row, by a thread block cluster (sm_90)
  int blocks = 0;   // least blocks on a multiprocessor, which bounds a thread's registers; 0:
                    // unbounded
  int ahead = 1;    // looped: vectors that are loaded ahead
  /// Keeps few registers across passes: loads data that all rows share at its use, and recomputes
  /// cheap values from the loaded ones.
  bool lean = false;
  bool again = false;  // lean: also recomputes results of long operations
};

}  // namespace sinter::codegen
