// SPDX-License-Identifier: Apache-2.0
#include "runtime/engine/executors/step_inputs.h"

#include <algorithm>

namespace sinter::engine {

void StepInputs::fill(const StepPlan& plan, const StepSizes& padded, int block_size,
                      int block_count, BlockTableRows& tables) {
  sizes = padded;
  const auto count = [](int size) { return static_cast<std::size_t>(size); };
  ids.assign(plan.tokens.begin(), plan.tokens.end());
  ids.resize(count(sizes.tokens), 0);
  positions.assign(plan.positions.begin(), plan.positions.end());
  positions.resize(count(sizes.tokens), -1);
  slots.assign(count(sizes.tokens), block_count * block_size);
  lengths.assign(count(sizes.tokens), 1);
  starts.assign(count(sizes.sequences) + 1, static_cast<std::int32_t>(plan.tokens.size()));
  tables.take(plan, block_tables);
  for (std::size_t s = 0; s < plan.sequences.size(); ++s) {
    const SequenceStep& sequence = plan.sequences[s];
    starts[s] = sequence.first_token;
    const auto blocks = plan.block_tables.begin() + sequence.first_block;
    for (int i = 0; i < sequence.tokens; ++i) {
      const int token = sequence.first_token + i;
      const auto at = static_cast<std::size_t>(token);
      const int position = plan.positions[at];
      lengths[at] = std::max(sequence.prompt_tokens, position + 1);
      slots[at] = blocks[position / block_size] * block_size + position % block_size;
    }
  }
  fill_states(plan);
  sample_rows.clear();
  for (const SamplePlan& sample : plan.samples)
    for (int i = 0; i <= sample.drafts; ++i) sample_rows.push_back(sample.row + i);
  sample_rows.resize(count(sizes.samples), 0);
}

void StepInputs::fill_given(const StepPlan& plan, std::size_t row_bytes, int axes) {
  const auto tokens = static_cast<std::size_t>(sizes.tokens);
  given_vectors.clear();
  if (row_bytes > 0) given_rows.assign(tokens, -1);
  rotary.assign(tokens * static_cast<std::size_t>(axes), 0);
  for (const SequenceStep& sequence : plan.sequences) {
    const PromptVectors* const given = sequence.vectors.get();
    const auto prompt = static_cast<std::size_t>(sequence.prompt_tokens);
    for (int i = 0; i < sequence.tokens; ++i) {
      const auto at = static_cast<std::size_t>(sequence.first_token + i);
      const auto position = static_cast<std::size_t>(plan.positions[at]);
      for (std::size_t axis = 0; axis < static_cast<std::size_t>(axes); ++axis) {
        const bool is_listed = given != nullptr && !given->rotary.empty() && position < prompt;
        rotary[axis * tokens + at] =
            is_listed ? given->rotary[axis * prompt + position]
                      : plan.positions[at] + (given != nullptr ? given->rotary_shift : 0);
      }
      if (row_bytes == 0 || given == nullptr || position >= given->rows.size() ||
          given->rows[position] < 0)
        continue;
      given_rows[at] = static_cast<std::int32_t>(given_vectors.size() / row_bytes);
      const auto from =
          given->data.begin() +
          static_cast<std::ptrdiff_t>(static_cast<std::size_t>(given->rows[position]) * row_bytes);
      given_vectors.insert(given_vectors.end(), from,
                           from + static_cast<std::ptrdiff_t>(row_bytes));
    }
  }
  // Two sizes, so that few shapes are captured: one vector, which nobody reads, or as many as
  // tokens.
  if (row_bytes > 0) given_vectors.resize((given_vectors.empty() ? 1 : tokens) * row_bytes);
}

void StepInputs::fill_states(const StepPlan& plan) {
  const auto tokens = static_cast<std::size_t>(sizes.tokens);
  state_offsets.assign(tokens, 0);
  state_sources.assign(tokens, -1);
  state_slots.assign(tokens, -1);
  state_stores.clear();
  for (const SequenceStep& sequence : plan.sequences)
    for (int i = 0; i < sequence.tokens; ++i) {
      const auto at = static_cast<std::size_t>(sequence.first_token + i);
      state_offsets[at] = i;
      state_sources[at] = sequence.state_source;
    }
  for (const StateStore& store : plan.state_stores) {
    state_slots[static_cast<std::size_t>(store.token)] = store.slot;
    state_stores.push_back(store.token);
  }
  // Padding stores again what the first one has.
  if (!state_stores.empty())
    state_stores.resize(static_cast<std::size_t>(sizes.stores), state_stores.front());
}

}  // namespace sinter::engine
