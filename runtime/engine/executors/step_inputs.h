// SPDX-License-Identifier: Apache-2.0
// What a session reads of a step, padded: the inputs that are known before the step in front ends.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/engine/executors/block_table_rows.h"
#include "runtime/engine/step.h"

namespace sinter::engine {

/// What a step is padded to.
struct StepSizes {
  int tokens = 0, sequences = 0, samples = 0;
  friend bool operator==(const StepSizes&, const StepSizes&) = default;
};

/// As the bindings of a plan of `compile --serve` have them (runtime/engine/README.md).
struct StepInputs {
  StepSizes sizes;
  std::vector<std::int32_t> ids;          // [tokens], or kLastDrawn
  std::vector<std::int32_t> positions;    // [tokens]
  std::vector<std::int32_t> slots;        // [tokens]: rows of the caches
  std::vector<std::int32_t> starts;       // [sequences + 1]
  BlockTableChanges block_tables;         // of what the step in front has there
  std::vector<std::int32_t> sample_rows;  // [samples]
  std::vector<std::int32_t> lengths;      // [tokens]

  /// `block_count` blocks of `block_size` positions; the next one is where padding is written.
  /// `tables` has taken the steps in front.
  void fill(const StepPlan& plan, const StepSizes& padded, int block_size, int block_count,
            BlockTableRows& tables);
};

}  // namespace sinter::engine
