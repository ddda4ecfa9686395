// SPDX-License-Identifier: Apache-2.0
// Interface for running steps: a model with a paged cache and a sampler.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/engine/step.h"

namespace sinter::engine {

/// An input of keys or values from an encoder, [.., positions, columns].
struct CrossInput {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;  // with the maximum number of positions
};

struct ExecutorLimits {
  int vocabulary = 0;     // token ids are below it
  int max_positions = 0;  // of one sequence
  int block_size = 0;     // positions in a block
  int block_count = 0;
  int max_sequences = 0;  // slots; also the maximum number of sequences in a step
  int max_step_tokens = 0;
  int max_drafts = 0;               // per sequence and step; 0: logits of last tokens only
  bool drafts = false;              // it makes drafts itself, for tokens of kDrafted
  int steps_in_flight = 1;          // 2: a step may start while one runs
  int state_slots = 0;              // of states of fixed size, 0: the model has none; at least one
                                    // for each sequence
  bool shares_blocks = true;        // sequences may share blocks (prefix cache)
  std::vector<CrossInput> crossed;  // inputs that each request must give; empty: none
  std::int64_t given_width = 0;     // of vectors in place of tokens; 0: it takes none
  DType given_type = DType::kFloat32;
  int rotary_axes = 0;  // of a token's positions; 0: they are its number
  /// Sizes that steps are padded to (captured graphs), ascending; the last is the maximum. Empty:
  /// no padding.
  std::vector<int> token_sizes, sequence_sizes;
};

/// The smallest of ascending `sizes` that is at least `count`.
inline int padded_size(const std::vector<int>& sizes, int count) {
  const auto size = std::ranges::lower_bound(sizes, count);
  return size == sizes.end() ? count : *size;
}

/// Runs steps one after another in the order of start(), because the next step may reuse a freed
/// block. Called by one thread.
class Executor {
 public:
  virtual ~Executor() = default;

  virtual const ExecutorLimits& limits() const = 0;

  /// Starts a step and may return before it has run; `plan` is valid during the call. At most
  /// limits().steps_in_flight steps are started but not finished. Throws Error if the step cannot
  /// run; the engine then calls recover().
  virtual void start(const StepPlan& plan) = 0;
  /// Waits for the oldest started step. Throws Error if it failed; the engine then calls recover().
  virtual StepResult finish() = 0;
  /// After a failure: ends the steps in flight and discards their results. Blocks written by
  /// finished steps remain valid. Throws Error if no step can run any more (device lost): the
  /// engine then stops for good.
  virtual void recover() = 0;
};

}  // namespace sinter::engine
