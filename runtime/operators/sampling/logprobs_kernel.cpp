// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <tuple>

#include "runtime/operators/sampling/logits_row.h"
#include "runtime/sampling/draw.h"

namespace sinter::runtime::cpu {
namespace {

/// A thread does whole rows; rows that want nothing cost nothing.
class Logprobs final : public PreparedOperator {
 public:
  explicit Logprobs(const OperatorCall& call)
      : logits_(call),
        most_(static_cast<std::size_t>(call.sizes["most"])),
        threads_(call.threads) {}

  std::size_t workspace_bytes() const override { return logits_.workspace_bytes(); }
  void run(const Operands& operands, std::span<std::byte* const> workspaces) const override {
    each_row(logits_.rows, logits_.nanoseconds(), threads_, workspaces,
             [&](std::int64_t row, std::byte* workspace) { tell_row(operands, row, workspace); });
  }

 private:
  void tell_row(const Operands& operands, std::int64_t row, std::byte* workspace) const {
    const auto at = static_cast<std::size_t>(row);
    const std::span likeliest(operands.output<std::int32_t>(0) + at * most_, most_);
    const std::span logprobs(operands.output<float>(1) + at * (most_ + 1), most_ + 1);
    std::ranges::fill(likeliest, -1);
    std::ranges::fill(logprobs, 0.0F);
    const std::int32_t token = operands.input<std::int32_t>(1)[row];
    const std::int32_t wanted = operands.input<std::int32_t>(2)[row];
    if (wanted < 0 || token < 0 || token >= logits_.vocabulary) return;
    const TokenLogprobs told =
        sampling::logprobs_of(logits_.row(operands, row, workspace), token,
                              std::min(static_cast<std::size_t>(wanted), most_));
    logprobs[0] = told.logprob;
    for (std::size_t i = 0; i < told.likeliest.size(); ++i)
      std::tie(likeliest[i], logprobs[1 + i]) = told.likeliest[i];
  }

  LogitRows logits_;
  std::size_t most_;
  int threads_;
};

}  // namespace

const OperatorKernel& logprobs_kernel() {
  static const OperatorKernel kernel = {"logprobs", prepare<Logprobs>};
  return kernel;
}

}  // namespace sinter::runtime::cpu
