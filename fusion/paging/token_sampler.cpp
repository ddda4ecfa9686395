// SPDX-License-Identifier: Apache-2.0
#include "fusion/paging/token_sampler.h"

namespace sinter::fusion {

namespace names = paged_names;

void TokenSampler::declare(GraphBuilder& builder, const Dim& vocabulary) {
  const Dim samples = Dim::symbol(names::kSamples), set_rows = Dim::symbol(names::kSetRows),
            biases = Dim::symbol(names::kBiases);
  const auto range = [&](const char* symbol, std::int64_t most) {
    Range range;
    range.max = most;
    builder.range(symbol, range);
  };
  range(names::kSetRows, kMostSetRows);
  range(names::kBiases, kMostBiases);
  inputs_ = {builder.input(names::kSamplingReals, {DType::kFloat64, {samples, 4}}),
             builder.input(names::kSamplingIntegers, {DType::kInt64, {samples, 6}}),
             builder.input(names::kTokenSets,
                           {DType::kInt32, {set_rows, ir::ceil_div(vocabulary, Dim(32), {})}}),
             builder.input(names::kBiasedTokens, {DType::kInt32, {biases}}),
             builder.input(names::kTokenBiases, {DType::kFloat32, {biases}}),
             builder.input(names::kLogprobsWanted, {DType::kInt32, {samples}})};
}

void TokenSampler::draw(GraphBuilder& builder, ValueId logits) const {
  std::vector<ValueId> inputs = {logits};
  inputs.insert(inputs.end(), inputs_.begin(), inputs_.end());
  const std::vector<ValueId> drawn =
      builder.add_multi("SampleTokens", std::move(inputs), {{"likeliest", ir::Attr(kLikeliest)}});
  builder.output(names::kSampledTokens, drawn[0]);
  builder.output(names::kLikeliestTokens, drawn[1]);
  builder.output(names::kTokenLogprobs, drawn[2]);
}

}  // namespace sinter::fusion
