// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "runtime/operators/sampling/logits_row.h"
#include "runtime/sampling/draw.h"

namespace sinter::runtime::cpu {
namespace {

constexpr std::int64_t kReals = 4, kIntegers = 6;

/// A thread does whole rows. Greedy draws allocate nothing.
class Sampling final : public PreparedOperator {
 public:
  explicit Sampling(const OperatorCall& call)
      : logits_(call),
        sets_(call.sizes["sets"]),
        biases_(call.sizes["biases"]),
        threads_(call.threads) {}

  std::size_t workspace_bytes() const override { return logits_.workspace_bytes(); }
  void run(const Operands& operands, std::span<std::byte* const> workspaces) const override {
    each_row(logits_.rows, logits_.nanoseconds(), threads_, workspaces,
             [&](std::int64_t row, std::byte* workspace) {
               operands.output<std::int32_t>(0)[row] =
                   static_cast<std::int32_t>(draw_row(operands, row, workspace));
             });
  }

 private:
  TokenId draw_row(const Operands& operands, std::int64_t row, std::byte* workspace) const {
    const double* const reals = operands.input<double>(1) + row * kReals;
    const std::int64_t* const integers = operands.input<std::int64_t>(2) + row * kIntegers;
    const std::size_t words = sampling::TokenSets::words(logits_.vocabulary);
    const auto set = [&](std::int64_t number) -> std::span<const std::uint32_t> {
      if (number < 0 || number >= sets_) return {};
      return {operands.input<std::uint32_t>(3) + static_cast<std::size_t>(number) * words, words};
    };
    sampling::TokenSets sets{set(integers[2]), set(integers[3]), {}, {}};
    // Those that there are.
    const std::int64_t first = std::clamp<std::int64_t>(integers[4], 0, biases_);
    const std::int64_t last =
        first + std::clamp<std::int64_t>(integers[5] - (first - integers[4]), 0, biases_ - first);
    const auto count = static_cast<std::size_t>(last - first);
    sets.biased = {operands.input<TokenId>(4) + first, count};
    sets.biases = {operands.input<float>(5) + first, count};
    const sampling::Draw draw{reals[0],
                              integers[1],
                              reals[1],
                              reals[2],
                              static_cast<float>(reals[3]),
                              static_cast<std::uint64_t>(integers[0])};
    return static_cast<TokenId>(
        sampling::draw_token(logits_.row(operands, row, workspace), draw, sets));
  }

  LogitRows logits_;
  std::int64_t sets_, biases_;
  int threads_;
};

}  // namespace

const OperatorKernel& sampling_kernel() {
  static const OperatorKernel kernel = {"sampling", prepare<Sampling>};
  return kernel;
}

}  // namespace sinter::runtime::cpu
