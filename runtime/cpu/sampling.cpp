#include "runtime/cpu/sampling.h"

#include <algorithm>

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

std::size_t Sampling::workspace_bytes() const {
  const std::size_t row =
      dtype_ == DType::kFloat32 ? 0 : sizeof(float) * static_cast<std::size_t>(vocabulary_);
  return (row + 63) / 64 * 64;
}

void Sampling::draw_row(std::span<std::byte* const> buffers, std::int64_t row,
                        std::byte* workspace) const {
  const double* const reals = rows_of<double>(buffers, step_.reals) + row * kReals;
  const std::int64_t* const integers =
      rows_of<std::int64_t>(buffers, step_.integers) + row * kIntegers;
  const std::byte* const from =
      buffers[step_.logits] + row * vocabulary_ * static_cast<std::int64_t>(size_of(dtype_));
  std::span<const float> logits(reinterpret_cast<const float*>(from),
                                static_cast<std::size_t>(vocabulary_));
  if (dtype_ != DType::kFloat32) {
    auto* const wide = reinterpret_cast<float*>(workspace);
    widen(dtype_, from, wide, vocabulary_);
    logits = {wide, static_cast<std::size_t>(vocabulary_)};
  }
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
  if (rows_ == 0) return;
  const int team = std::min(threads_, static_cast<int>(workspaces.size()));
  threads::run_parts(rows_, team, [&](threads::Member& member) {
    std::byte* const workspace = workspaces[static_cast<std::size_t>(member.me())];
    while (const auto row = member.next()) draw_row(buffers, *row, workspace);
  });
}

}  // namespace sinter::runtime::cpu
