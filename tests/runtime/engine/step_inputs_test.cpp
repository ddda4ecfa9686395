// SPDX-License-Identifier: Apache-2.0
// Vectors in place of tokens, and positions of several axes, in the inputs of a step.
#include "runtime/engine/executors/step_inputs.h"

#include <cstring>

#include <gmock/gmock.h>

namespace sinter::engine {
namespace {

using testing::ElementsAre;

constexpr std::size_t kRow = 2 * sizeof(float);

/// Of a prompt of four tokens, two of which have vectors.
std::shared_ptr<PromptVectors> given() {
  auto vectors = std::make_shared<PromptVectors>();
  vectors->width = 2;
  vectors->rows = {-1, 0, 1, -1};
  const float data[] = {1, 2, 3, 4};
  vectors->data.resize(sizeof data);
  std::memcpy(vectors->data.data(), data, sizeof data);
  vectors->rotary = {0, 1, 1, 2, 0, 1, 2, 2};
  vectors->rotary_shift = -1;
  return vectors;
}

/// A step of this sequence's tokens from `first` on, behind one token of another without vectors.
StepPlan plan_of(std::shared_ptr<const PromptVectors> vectors, int first, int tokens) {
  StepPlan plan;
  plan.tokens.assign(static_cast<std::size_t>(tokens) + 1, 7);
  plan.positions = {9};
  for (int i = 0; i < tokens; ++i) plan.positions.push_back(first + i);
  SequenceStep other, own;
  other.tokens = 1;
  other.prompt_tokens = 3;
  own.first_token = 1;
  own.tokens = tokens;
  own.prompt_tokens = 4;
  own.vectors = std::move(vectors);
  plan.sequences = {other, own};
  return plan;
}

std::vector<float> floats_of(const StepInputs& inputs) {
  std::vector<float> values(inputs.given_vectors.size() / sizeof(float));
  std::memcpy(values.data(), inputs.given_vectors.data(), inputs.given_vectors.size());
  return values;
}

TEST(StepInputs, VectorsFollowTheirTokens) {
  StepInputs inputs;
  inputs.sizes.tokens = 6;
  // The second part of a prompt that is cut into steps, and the first token behind it.
  inputs.fill_given(plan_of(given(), 2, 3), kRow, 2);
  EXPECT_THAT(inputs.given_rows, ElementsAre(-1, 0, -1, -1, -1, -1));
  EXPECT_EQ(inputs.given(kRow), 6);  // as many as tokens, so that few shapes are captured
  EXPECT_THAT(std::vector(floats_of(inputs)).front(), 3);
  EXPECT_THAT(inputs.rotary, ElementsAre(9, 1, 2, 3, 0, 0, 9, 2, 2, 3, 0, 0));
}

TEST(StepInputs, StepsWithoutVectorsHaveOne) {
  StepInputs inputs;
  inputs.sizes.tokens = 2;
  inputs.fill_given(plan_of(nullptr, 4, 1), kRow, 0);
  EXPECT_THAT(inputs.given_rows, ElementsAre(-1, -1));
  EXPECT_EQ(inputs.given(kRow), 1);
  EXPECT_TRUE(inputs.rotary.empty());
}

}  // namespace
}  // namespace sinter::engine
