// SPDX-License-Identifier: Apache-2.0
// What runs a step: a model with a paged cache and a sampler.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/engine/step.h"

namespace sinter::engine {

/// An input of keys or values that an encoder gives, [.., positions, columns].
struct CrossInput {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;  // with the most positions of a sequence
};

struct ExecutorLimits {
  int vocabulary = 0;     // token ids below
  int max_positions = 0;  // of a sequence
  int block_size = 0;     // positions
  int block_count = 0;
  int max_sequences = 0;  // slots, and sequences in a step
  int max_step_tokens = 0;
  int max_drafts = 0;         // of a sequence in a step; 0: logits of a sequence's last token alone
  bool drafts = false;        // it guesses draft tokens itself: they are kDrafted
  int steps_in_flight = 1;    // 2: a step may be started while one runs
  bool shares_blocks = true;  // blocks of one sequence may be read by others: prefix cache
  std::vector<CrossInput> crossed;  // what each request has to give; none: nothing
  /// Sizes that steps are padded to, ascending, the last the most that a step has (the ladder of
  /// captured graphs); empty: every size.
  std::vector<int> token_sizes, sequence_sizes;
};

/// The first of ascending `sizes` that is `count` or more.
inline int padded_size(const std::vector<int>& sizes, int count) {
  const auto size = std::ranges::lower_bound(sizes, count);
  return size == sizes.end() ? count : *size;
}

/// Runs steps one after the other, in the order in which they are started: a block that a step
/// gives up may belong to another sequence in the next one. Called by one thread.
class Executor {
 public:
  virtual ~Executor() = default;

  virtual const ExecutorLimits& limits() const = 0;

  /// Begins a step and may return before it has run; `plan` is valid during the call. At most
  /// limits().steps_in_flight steps have begun and are not finished. Throws Error if this step
  /// cannot run; then recover() is called.
  virtual void start(const StepPlan& plan) = 0;
  /// Waits for the step that was started first. Throws Error if that has failed; then recover() is
  /// called.
  virtual StepResult finish() = 0;
  /// Behind a failure: ends the steps in flight, whose results are nobody's, and forgets them. What
  /// finished steps wrote to blocks stays. Throws Error if no further step can run, as on a device
  /// that is lost; the engine stops for good then.
  virtual void recover() = 0;
};

}  // namespace sinter::engine
