// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/sampling.h"

#include <algorithm>
#include <tuple>

#include "runtime/cpu/ops/tile_ops.h"
#include "runtime/sampling/draw.h"
#include "runtime/threads/thread_pool.h"

namespace sinter::runtime::cpu {
namespace {

constexpr std::int64_t kReals = 4, kIntegers = 6;

template <typename T>
const T* rows_of(std::span<std::byte* const> buffers, std::uint32_t buffer) {
  return reinterpret_cast<const T*>(buffers[buffer]);
}

/// Of a row as floats, 64-byte aligned.
std::size_t row_bytes(DType dtype, std::int64_t vocabulary) {
  const std::size_t row =
      dtype == DType::kFloat32 ? 0 : sizeof(float) * static_cast<std::size_t>(vocabulary);
  return (row + 63) / 64 * 64;
}

/// Row `row` of `logits`, which are of type `dtype`, as floats: in `workspace` unless they are.
std::span<const float> row_of(const std::byte* logits, DType dtype, std::int64_t row,
                              std::int64_t vocabulary, std::byte* workspace) {
  const std::byte* const from =
      logits + row * vocabulary * static_cast<std::int64_t>(size_of(dtype));
  const auto count = static_cast<std::size_t>(vocabulary);
  if (dtype == DType::kFloat32) return {reinterpret_cast<const float*>(from), count};
  auto* const wide = reinterpret_cast<float*>(workspace);
  widen(dtype, from, wide, vocabulary);
  return {wide, count};
}

/// Calls `take` with each row and a thread's workspace.
template <typename Take>
void each_row(std::int64_t rows, int most_threads, std::span<std::byte* const> workspaces,
              const Take& take) {
  if (rows == 0) return;
  const int team = std::min(most_threads, static_cast<int>(workspaces.size()));
  threads::run_parts(rows, team, [&](threads::Member& member) {
    std::byte* const workspace = workspaces[static_cast<std::size_t>(member.me())];
    while (const auto row = member.next()) take(*row, workspace);
  });
}

}  // namespace

Sampling::Sampling(const plan::fb::PlanT& plan, const plan::fb::SamplingStepT& step,
                   const BoundShape& shape, int threads)
    : step_(step),
      dtype_(static_cast<DType>(plan.buffers[step.logits]->dtype)),
      rows_(shape.expressions[step.rows]),
      vocabulary_(shape.expressions[step.vocabulary]),
      sets_(shape.expressions[step.sets_rows]),
      biases_(shape.expressions[step.biases_count]),
      threads_(static_cast<int>(std::clamp<std::int64_t>(rows_, 1, threads))) {}

std::size_t Sampling::workspace_bytes() const { return row_bytes(dtype_, vocabulary_); }

void Sampling::draw_row(std::span<std::byte* const> buffers, std::int64_t row,
                        std::byte* workspace) const {
  const double* const reals = rows_of<double>(buffers, step_.reals) + row * kReals;
  const std::int64_t* const integers =
      rows_of<std::int64_t>(buffers, step_.integers) + row * kIntegers;
  const auto logits = row_of(buffers[step_.logits], dtype_, row, vocabulary_, workspace);
  const std::size_t words = sampling::TokenSets::words(vocabulary_);
  const auto set = [&](std::int64_t number) -> std::span<const std::uint32_t> {
    if (number < 0 || number >= sets_) return {};
    return {rows_of<std::uint32_t>(buffers, step_.sets) + static_cast<std::size_t>(number) * words,
            words};
  };
  sampling::TokenSets sets{set(integers[2]), set(integers[3]), {}, {}};
  // Those that there are.
  const std::int64_t first = std::clamp<std::int64_t>(integers[4], 0, biases_);
  const std::int64_t last =
      first + std::clamp<std::int64_t>(integers[5] - (first - integers[4]), 0, biases_ - first);
  const auto count = static_cast<std::size_t>(last - first);
  sets.biased = {rows_of<TokenId>(buffers, step_.biased) + first, count};
  sets.biases = {rows_of<float>(buffers, step_.biases) + first, count};
  const sampling::Draw draw{reals[0],
                            integers[1],
                            reals[1],
                            reals[2],
                            static_cast<float>(reals[3]),
                            static_cast<std::uint64_t>(integers[0])};
  reinterpret_cast<std::int32_t*>(buffers[step_.tokens])[row] =
      static_cast<std::int32_t>(sampling::draw_token(logits, draw, sets));
}

void Sampling::run(std::span<std::byte* const> buffers,
                   std::span<std::byte* const> workspaces) const {
  each_row(rows_, threads_, workspaces,
           [&](std::int64_t row, std::byte* workspace) { draw_row(buffers, row, workspace); });
}

Logprobs::Logprobs(const plan::fb::PlanT& plan, const plan::fb::LogprobsStepT& step,
                   const BoundShape& shape, int threads)
    : step_(step),
      dtype_(static_cast<DType>(plan.buffers[step.logits]->dtype)),
      rows_(shape.expressions[step.rows]),
      vocabulary_(shape.expressions[step.vocabulary]),
      threads_(static_cast<int>(std::clamp<std::int64_t>(rows_, 1, threads))) {}

std::size_t Logprobs::workspace_bytes() const { return row_bytes(dtype_, vocabulary_); }

void Logprobs::tell_row(std::span<std::byte* const> buffers, std::int64_t row,
                        std::byte* workspace) const {
  const auto most = static_cast<std::size_t>(step_.most), at = static_cast<std::size_t>(row);
  const std::span likeliest(reinterpret_cast<std::int32_t*>(buffers[step_.likeliest]) + at * most,
                            most);
  const std::span logprobs(reinterpret_cast<float*>(buffers[step_.logprobs]) + at * (most + 1),
                           most + 1);
  std::ranges::fill(likeliest, -1);
  std::ranges::fill(logprobs, 0.0F);
  const std::int32_t token = rows_of<std::int32_t>(buffers, step_.tokens)[row];
  const std::int32_t wanted = rows_of<std::int32_t>(buffers, step_.wanted)[row];
  if (wanted < 0 || token < 0 || token >= vocabulary_) return;
  const TokenLogprobs told =
      sampling::logprobs_of(row_of(buffers[step_.logits], dtype_, row, vocabulary_, workspace),
                            token, std::min(static_cast<std::size_t>(wanted), most));
  logprobs[0] = told.logprob;
  for (std::size_t i = 0; i < told.likeliest.size(); ++i)
    std::tie(likeliest[i], logprobs[1 + i]) = told.likeliest[i];
}

void Logprobs::run(std::span<std::byte* const> buffers,
                   std::span<std::byte* const> workspaces) const {
  each_row(rows_, threads_, workspaces,
           [&](std::int64_t row, std::byte* workspace) { tell_row(buffers, row, workspace); });
}

}  // namespace sinter::runtime::cpu
