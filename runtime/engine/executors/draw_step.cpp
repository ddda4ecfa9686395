// SPDX-License-Identifier: Apache-2.0
// Drawing the tokens of a step: the plan's inputs for it, and its results.
#include <algorithm>
#include <array>

#include "runtime/cpu/ops/tile_ops.h"
#include "runtime/engine/executors/paged_executor.h"
#include "runtime/format_error.h"
#include "runtime/threads/thread_pool.h"

namespace sinter::engine {

void PagedExecutor::begin_slot(const SlotStart& start) {
  samplers_.at(static_cast<std::size_t>(start.slot)).emplace(start);
  if (crossed_ && start.encoded) crossed_->set(start.slot, *start.encoded);
}

void PagedExecutor::prepare_samplers() {
  // Masks of constraints take host time and are independent, so they are made in parallel.
  std::vector<SlotSampler*> constrained;
  for (const Wanted& wanted : running_.wanted)
    if (SlotSampler& sampler = sampler_of(wanted.slot); sampler.has_constraint())
      constrained.push_back(&sampler);
  const auto count = std::ssize(constrained);
  const int team =
      count == 0 ? 0 : static_cast<int>(std::min<std::int64_t>(count, thread_pool_size()));
  if (team > 1)
    runtime::threads::run_parts(count, team, [&](runtime::threads::Member& member) {
      while (const auto i = member.next()) constrained[static_cast<std::size_t>(*i)]->prepare();
    });
  else if (team == 1)
    constrained[0]->prepare();
  for (Wanted& wanted : running_.wanted) {
    SlotSampler& sampler = sampler_of(wanted.slot);
    const auto likeliest = sampler.logprobs();
    wanted.by_plan = sampler.is_known_ahead(wanted.drafts.size()) &&
                     sampler.biased().size() <= SamplingTables::kBiases &&
                     (!likeliest || (plan_.logprobs && *likeliest <= plan_.logprobs->most));
  }
}

void PagedExecutor::fill_sampling() {
  constexpr auto kReals = plan::kSamplingReals, kIntegers = plan::kSamplingIntegers;
  const StepSizes& sizes = running_.inputs.sizes;
  // Rows that the host draws are greedy in the plan, which is cheapest.
  reals_of_rows_.assign(static_cast<std::size_t>(sizes.samples * kReals), 0);
  integers_of_rows_.assign(static_cast<std::size_t>(sizes.samples * kIntegers), 0);
  wanted_of_rows_.assign(static_cast<std::size_t>(sizes.samples), -1);
  for (std::size_t row = 0; row < static_cast<std::size_t>(sizes.samples); ++row)
    integers_of_rows_[row * kIntegers + 2] = integers_of_rows_[row * kIntegers + 3] = -1;
  for (const Wanted& wanted : running_.wanted) {
    if (!wanted.by_plan) continue;
    SlotSampler& sampler = sampler_of(wanted.slot);
    const sampling::TokenSets sets = sampler.sets();
    if (sampler.take_bias_change())
      tables_of_tokens_->set_biases(wanted.slot, sets.biased, sets.biases);
    if (!sets.allowed.empty()) tables_of_tokens_->set_allowed(wanted.slot, sets.allowed);
    if (!sets.seen.empty()) tables_of_tokens_->set_seen(wanted.slot, sets.seen);
    for (std::size_t i = 0; i <= wanted.drafts.size(); ++i) {
      const sampling::Draw draw = sampler.draw_behind(i);
      const std::size_t row = static_cast<std::size_t>(wanted.row) + i;
      std::ranges::copy(std::array{draw.temperature, draw.top_p, draw.least_score,
                                   static_cast<double>(draw.repetition_penalty)},
                        reals_of_rows_.begin() + static_cast<std::ptrdiff_t>(row * kReals));
      const std::array<std::int64_t, kIntegers> integers = {
          static_cast<std::int64_t>(draw.seed),
          draw.top_k,
          sets.allowed.empty() ? -1 : tables_of_tokens_->allowed_row(wanted.slot),
          sets.seen.empty() ? -1 : tables_of_tokens_->seen_row(wanted.slot),
          tables_of_tokens_->first_bias(wanted.slot),
          std::ssize(sets.biased)};
      if (const auto likeliest = sampler.logprobs()) wanted_of_rows_[row] = *likeliest;
      std::ranges::copy(integers,
                        integers_of_rows_.begin() + static_cast<std::ptrdiff_t>(row * kIntegers));
    }
  }
  tables_of_tokens_->upload();
  stage(plan_.reals, reals_of_rows_, {sizes.samples, kReals});
  stage(plan_.integers, integers_of_rows_, {sizes.samples, kIntegers});
  if (plan_.logprobs) stage(plan_.logprobs->wanted, wanted_of_rows_, {sizes.samples});
}

std::span<const float> PagedExecutor::logits(int first, int count) {
  const std::size_t elements =
      static_cast<std::size_t>(count) * static_cast<std::size_t>(limits_.vocabulary);
  const std::byte* const from = logits_->rows(first, count);
  if (logits_type_ == DType::kFloat32) return {reinterpret_cast<const float*>(from), elements};
  widened_.resize(elements);
  runtime::cpu::widen(logits_type_, from, widened_.data(), static_cast<std::int64_t>(elements));
  return widened_;
}

PagedExecutor::ToldRows PagedExecutor::told_rows() {
  const bool some = std::ranges::any_of(running_.wanted, [&](const Wanted& wanted) {
    return wanted.by_plan && sampler_of(wanted.slot).logprobs();
  });
  if (!some) return {};
  // One copy of all rows, since rows are small and copies have latency.
  const Wanted& last = running_.wanted.back();
  const int rows = last.row + static_cast<int>(last.drafts.size()) + 1;
  return {reinterpret_cast<const TokenId*>(likeliest_->rows(0, rows)),
          reinterpret_cast<const float*>(logprobs_->rows(0, rows))};
}

std::vector<TokenLogprobs> PagedExecutor::told(const ToldRows& rows, const Wanted& wanted) {
  std::vector<TokenLogprobs> result;
  const auto count = sampler_of(wanted.slot).logprobs();
  if (!count) return result;
  const auto most = static_cast<std::size_t>(plan_.logprobs->most);
  for (std::size_t i = 0; i <= wanted.drafts.size(); ++i) {
    const std::size_t row = static_cast<std::size_t>(wanted.row) + i;
    const std::span likeliest(rows.likeliest + row * most, static_cast<std::size_t>(*count));
    const float* const logprobs = rows.logprobs + row * (most + 1);
    TokenLogprobs& one = result.emplace_back(TokenLogprobs{logprobs[0], {}});
    // Checks ids, because rows with NaN, and plans of unknown origin, may hold any value.
    for (std::size_t t = 0; t < likeliest.size(); ++t) {
      if (likeliest[t] < 0 || likeliest[t] >= limits_.vocabulary) break;
      one.likeliest.emplace_back(likeliest[t], logprobs[1 + t]);
    }
  }
  return result;
}

StepResult PagedExecutor::draw() {
  const auto drawn = session_.output(plan_.drawn).as<std::int32_t>();
  const ToldRows told_of_rows = told_rows();
  StepResult result;
  if (plan_.experts) {
    const auto offsets = session_.output(plan_.experts->offsets).as<std::int32_t>();
    const auto columns = static_cast<std::size_t>(plan_.experts->experts) + 1;
    for (std::size_t first = 0; first + columns <= offsets.size(); first += columns) {
      auto& counts = result.expert_tokens.emplace_back();
      for (std::size_t e = first + 1; e < first + columns; ++e)
        counts.push_back(static_cast<std::uint64_t>(
            std::max<std::int64_t>(0, std::int64_t{offsets[e]} - offsets[e - 1])));
    }
  }
  for (const Wanted& wanted : running_.wanted) {
    SlotSampler& sampler = sampler_of(wanted.slot);
    if (!wanted.by_plan) {
      result.samples.push_back(sampler.sample(
          logits(wanted.row, static_cast<int>(wanted.drafts.size()) + 1), wanted.drafts));
      continue;
    }
    const auto rows = drawn.subspan(static_cast<std::size_t>(wanted.row), wanted.drafts.size() + 1);
    result.samples.push_back(
        sampler.take(rows, wanted.drafts, limits_.vocabulary, told(told_of_rows, wanted)));
  }
  return result;
}

}  // namespace sinter::engine
