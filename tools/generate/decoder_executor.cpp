// SPDX-License-Identifier: Apache-2.0
#include "tools/generate/decoder_executor.h"

#include <algorithm>
#include <utility>

#include "runtime/engine/executors/paged_executor.h"
#include "runtime/format_error.h"

namespace sinter::tools {
namespace {

// Tokens of a step besides one for each sequence: how long others wait for a prompt.
constexpr int kChunk = 256;

}  // namespace

DecoderExecutor::DecoderExecutor(const Plan& plan, const DecoderOptions& options,
                                 const SessionOptions& session, int sequences) {
  if (sequences < 1) throw usage_error("{} sequences at once are none", sequences);
  if (plan.target() != "cpu") device_ = session.device;
  for (int i = 0; i < sequences; ++i) {
    decoders_.push_back(std::make_unique<Decoder>(plan, options, session));
    if (!decoders_.back()->seeks())
      throw usage_error(
          "the plan {}: many requests need a plan that gives logits, with an input for the "
          "position "
          "and caches of a fixed size",
          decoders_.back()->sampler() ? "chooses tokens itself"
          : decoders_.back()->grows() ? "has caches that grow"
                                      : "is not told where tokens go, or takes no single ones");
  }
  const Decoder& first = *decoders_.front();
  limits_.vocabulary = static_cast<int>(first.vocabulary());
  limits_.max_positions = limits_.block_size = static_cast<int>(first.capacity());
  limits_.block_count = limits_.max_sequences = sequences;
  limits_.max_step_tokens = sequences + kChunk;
  limits_.max_drafts = static_cast<int>(first.most_rows()) - 1;
  limits_.shares_blocks = false;
}

void DecoderExecutor::start(const engine::StepPlan& plan) {
  for (const auto& slot : plan.starts)
    samplers_.insert_or_assign(slot.slot, engine::SlotSampler(slot));
  const auto decoder = [&](engine::BlockId block) -> Decoder& {
    return *decoders_[static_cast<std::size_t>(block)];
  };
  for (const auto& copy : plan.copies) decoder(copy.to).copy_caches(decoder(copy.from));
  result_ = {};
  auto sample = plan.samples.begin();
  for (const auto& step : plan.sequences) {
    std::vector<std::int64_t> ids;
    const auto tokens = std::span(plan.tokens)
                            .subspan(static_cast<std::size_t>(step.first_token),
                                     static_cast<std::size_t>(step.tokens));
    for (const TokenId token : tokens)
      ids.push_back(token == engine::kLastDrawn ? samplers_.at(step.slot).last() : token);
    Decoder& runs = decoder(plan.block_tables[static_cast<std::size_t>(step.first_block)]);
    runs.seek(step.first_position);
    runs.run(ids);
    // Samples are in the order of rows; all of a sequence end with its last row.
    for (; sample != plan.samples.end() && sample->row < step.first_token + step.tokens; ++sample)
      result_.samples.push_back(samplers_.at(sample->slot)
                                    .sample(runs.last_logits(sample->drafts + 1),
                                            tokens.last(static_cast<std::size_t>(sample->drafts))));
  }
}

void DecoderExecutor::recover() {
  result_ = {};
  if (device_) engine::check_device(*device_);
}

engine::StepResult DecoderExecutor::finish() { return std::exchange(result_, {}); }

}  // namespace sinter::tools
