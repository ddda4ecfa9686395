// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "runtime/operators/operator_kernel.h"

namespace sinter::runtime::cpu {
namespace {

/// A thread does whole tiles, without branches on flags: each index is written where the next true
/// one belongs, and stays if its flag is true.
class Selection final : public PreparedOperator {
 public:
  explicit Selection(const OperatorCall& call)
      : tiles_(call.sizes["tiles"]), tile_(call.sizes["tile"]), count_(call.sizes["count"]) {
    constexpr double kFlagsPerNanosecond = 8;
    threads_ =
        threads::team_for(static_cast<double>(tiles_ * tile_) / kFlagsPerNanosecond, call.threads);
  }

  void run(const Operands& operands, std::span<std::byte* const> workspaces) const override {
    const auto* flags = operands.input<std::uint8_t>(0);
    const auto* before = operands.input<std::int64_t>(1);
    auto* indices = operands.output<std::int64_t>(0);
    const int team = std::min(threads_, static_cast<int>(workspaces.size()));
    const std::int64_t parts = std::min(tiles_, threads::parts_of(team));
    if (parts == 0) return;
    threads::run_parts(parts, team, [&](threads::Member& member) {
      while (const auto part = member.next())
        for (std::int64_t t = tiles_ * *part / parts; t < tiles_ * (*part + 1) / parts; ++t) {
          // A tile writes no other's indices.
          const std::int64_t end = t + 1 < tiles_ ? std::min(before[t + 1], count_) : count_;
          select(flags + t * tile_, t * tile_, indices, before[t], end);
        }
    });
  }

 private:
  void select(const std::uint8_t* flags, std::int64_t first, std::int64_t* indices, std::int64_t at,
              std::int64_t end) const {
    constexpr std::int64_t kGroup = 8;
    if (at < 0) return;
    std::int64_t i = 0;
    for (; i + kGroup <= tile_ && at + kGroup <= end; i += kGroup) {
      std::uint64_t group;
      std::memcpy(&group, flags + i, sizeof(group));
      if (group == 0) continue;
      for (std::int64_t k = 0; k < kGroup; ++k) {
        indices[at] = first + i + k;
        at += flags[i + k] != 0;
      }
    }
    for (; i < tile_ && at < end; ++i) {
      indices[at] = first + i;
      at += flags[i] != 0;
    }
  }

  std::int64_t tiles_, tile_, count_;
  int threads_ = 1;
};

}  // namespace

const OperatorKernel& selection_kernel() {
  static const OperatorKernel kernel = {"selection", prepare<Selection>};
  return kernel;
}

}  // namespace sinter::runtime::cpu
