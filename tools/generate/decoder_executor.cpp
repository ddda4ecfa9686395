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
    runs_.push_back({std::make_unique<Decoder>(plan, options, session), {}, 0});
    if (sequences > 1 && !decoder().seeks())
      throw usage_error(
          "the plan {}: many requests need an input for the position and caches of a fixed size, "
          "or a paged plan (compile --serve)",
          decoder().grows() ? "has caches that grow"
                            : "is not told where tokens go, or takes no single ones");
  }
  const Decoder& first = decoder();
  limits_.vocabulary = static_cast<int>(first.vocabulary());
  limits_.max_positions = limits_.block_size = static_cast<int>(first.capacity());
  limits_.block_count = limits_.max_sequences = sequences;
  // Others wait for a prompt, if there are any.
  limits_.max_step_tokens =
      sequences + (sequences > 1 ? kChunk : static_cast<int>(first.capacity()));
  limits_.max_drafts = first.seeks() ? static_cast<int>(first.most_rows()) - 1 : 0;
  limits_.shares_blocks = false;
}

void DecoderExecutor::run(Run& run, std::int64_t first, std::span<const std::int64_t> ids) {
  Decoder& decoder = *run.decoder;
  if (const auto times = decoder.times_given(); times != std::exchange(run.times_given, times))
    run.held.clear();
  if (first == 0 && decoder.seeks()) {
    const auto same = std::ranges::mismatch(run.held, ids.first(ids.size() - 1)).in2 - ids.begin();
    first = same;
    ids = ids.subspan(static_cast<std::size_t>(same));
  }
  if (decoder.seeks())
    decoder.seek(first);
  else if (first == 0)
    decoder.restart();
  else if (first != decoder.position())
    throw internal_error("the caches hold {} tokens, and token {} is to run", decoder.position(),
                         first);
  run.held.resize(static_cast<std::size_t>(first));
  decoder.run(ids);
  run.held.insert(run.held.end(), ids.begin(), ids.end());
}

void DecoderExecutor::start(const engine::StepPlan& plan) {
  for (const auto& slot : plan.starts)
    samplers_.insert_or_assign(slot.slot, engine::SlotSampler(slot));
  const auto run_of = [&](engine::BlockId block) -> Run& {
    return runs_[static_cast<std::size_t>(block)];
  };
  for (const auto& copy : plan.copies) {
    Run &from = run_of(copy.from), &to = run_of(copy.to);
    to.decoder->copy_caches(*from.decoder);
    to.held = from.held;
    to.times_given = from.times_given;
  }
  result_ = {};
  auto sample = plan.samples.begin();
  for (const auto& step : plan.sequences) {
    std::vector<std::int64_t> ids;
    const auto tokens = std::span(plan.tokens)
                            .subspan(static_cast<std::size_t>(step.first_token),
                                     static_cast<std::size_t>(step.tokens));
    for (const TokenId token : tokens)
      ids.push_back(token == engine::kLastDrawn ? samplers_.at(step.slot).last() : token);
    Run& runs = run_of(plan.block_tables[static_cast<std::size_t>(step.first_block)]);
    run(runs, step.first_position, ids);
    // Samples are in the order of rows; all of a sequence end with its last row.
    for (; sample != plan.samples.end() && sample->row < step.first_token + step.tokens; ++sample)
      result_.samples.push_back(samplers_.at(sample->slot)
                                    .sample(runs.decoder->last_logits(sample->drafts + 1),
                                            tokens.last(static_cast<std::size_t>(sample->drafts))));
  }
}

void DecoderExecutor::recover() {
  result_ = {};
  // What a run that failed has left in the caches is not known.
  for (Run& run : runs_) run.held.clear();
  if (device_) engine::check_device(*device_);
}

engine::StepResult DecoderExecutor::finish() { return std::exchange(result_, {}); }

}  // namespace sinter::tools
