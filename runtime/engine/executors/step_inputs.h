// SPDX-License-Identifier: Apache-2.0
// Padded inputs of a step that are known before the previous step ends.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/engine/executors/block_table_rows.h"
#include "runtime/engine/step.h"

namespace sinter::engine {

/// Padded sizes of a step.
struct StepSizes {
  int tokens = 0, sequences = 0, samples = 0;
  int stores = 0;  // of states of fixed size
  friend bool operator==(const StepSizes&, const StepSizes&) = default;
};

/// Inputs of a `compile --serve` plan (runtime/engine/README.md).
struct StepInputs {
  StepSizes sizes;
  std::vector<std::int32_t> ids;          // [tokens]; may be kLastDrawn
  std::vector<std::int32_t> positions;    // [tokens]
  std::vector<std::int32_t> slots;        // [tokens]: rows of the caches
  std::vector<std::int32_t> starts;       // [sequences + 1]
  BlockTableChanges block_tables;         // relative to the previous step's rows
  std::vector<std::int32_t> sample_rows;  // [samples]
  std::vector<std::int32_t> lengths;      // [tokens]
  /// Of models that take vectors: those of the step's tokens, one at least, and each token's row.
  std::vector<std::byte> given_vectors;  // [given, width]
  std::vector<std::int32_t> given_rows;  // [tokens]; -1: its own embedding
  std::vector<std::int32_t> rotary;      // [axes, tokens]
  // Of models with states of fixed size.
  std::vector<std::int32_t> state_offsets, state_sources, state_slots;  // [tokens]
  std::vector<std::int32_t> state_stores;                               // [stores]

  /// Of a model with vectors of `row_bytes` each, or with positions of `axes` axes (0: without).
  void fill_given(const StepPlan& plan, std::size_t row_bytes, int axes);
  /// Vectors of the step, of `row_bytes` each.
  std::int64_t given(std::size_t row_bytes) const {
    return static_cast<std::int64_t>(given_vectors.size() / row_bytes);
  }
  /// `block_count` blocks of `block_size` positions; padding is written to the block after them.
  /// `tables` must have taken the previous steps.
  void fill(const StepPlan& plan, const StepSizes& padded, int block_size, int block_count,
            BlockTableRows& tables);

 private:
  void fill_states(const StepPlan& plan);
};

}  // namespace sinter::engine
