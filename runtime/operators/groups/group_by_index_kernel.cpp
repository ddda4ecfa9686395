// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "runtime/operators/groups/groups.h"

namespace sinter::runtime::cpu {
namespace {

/// Counts, adds up, places. Threads count and place a part of the indices each, and have their own
/// counts: the places of a part are behind those of the parts before it, so that the order does not
/// depend on the number of parts.
class GroupByIndex final : public PreparedOperator {
 public:
  explicit GroupByIndex(const OperatorCall& call)
      : type_(call.type_of_input(0)), count_(call.sizes["count"]), rows_(call.sizes["bounds"] - 1) {
    // Counts of each thread are cleared and added up: as much work as counting.
    constexpr double kIndicesPerNanosecond = 4;
    if (rows_ <= count_)
      team_ = threads::team_for(static_cast<double>(count_) / kIndicesPerNanosecond, call.threads);
  }

  std::size_t workspace_bytes() const override {
    return team_ == 1 ? 0 : whole_lines(sizeof(std::int32_t) * static_cast<std::size_t>(rows_));
  }

  void run(const Operands& operands, std::span<std::byte* const> workspaces) const override {
    const Indices index(operands, 0, type_);
    auto* order = operands.output<std::int32_t>(0);
    auto* starts = operands.output<std::int32_t>(1);
    const int parts = std::min(team_, static_cast<int>(workspaces.size()));
    if (parts <= 1) return run_alone(index, order, starts);
    const auto counts_of = [&](std::int64_t part) {
      return reinterpret_cast<std::int32_t*>(workspaces[static_cast<std::size_t>(part)]);
    };
    each_part(parts, [&](std::int64_t part) {
      std::int32_t* counts = counts_of(part);
      std::fill_n(counts, rows_, 0);
      for (std::int64_t i = first(part, parts); i < first(part + 1, parts); ++i)
        ++counts[row_at(index[i], rows_)];
    });
    std::int32_t total = 0;
    for (std::int64_t r = 0; r < rows_; ++r) {
      starts[r] = total;
      for (std::int64_t part = 0; part < parts; ++part) {
        const std::int32_t here = counts_of(part)[r];
        counts_of(part)[r] = total;
        total += here;
      }
    }
    starts[rows_] = total;
    each_part(parts, [&](std::int64_t part) {
      std::int32_t* next = counts_of(part);
      for (std::int64_t i = first(part, parts); i < first(part + 1, parts); ++i)
        order[next[row_at(index[i], rows_)]++] = static_cast<std::int32_t>(i);
    });
  }

 private:
  std::int64_t first(std::int64_t part, std::int64_t parts) const { return count_ * part / parts; }

  template <typename One>
  static void each_part(int parts, const One& one) {
    threads::run_parts(parts, parts, [&](threads::Member& member) {
      while (const auto part = member.next()) one(*part);
    });
  }

  void run_alone(const Indices& index, std::int32_t* order, std::int32_t* starts) const {
    std::fill_n(starts, rows_ + 1, 0);
    for (std::int64_t i = 0; i < count_; ++i) ++starts[row_at(index[i], rows_) + 1];
    for (std::int64_t r = 0; r < rows_; ++r) starts[r + 1] += starts[r];
    for (std::int64_t i = 0; i < count_; ++i)
      order[starts[row_at(index[i], rows_)]++] = static_cast<std::int32_t>(i);
    // Each group's beginning has moved to its end.
    std::memmove(starts + 1, starts, static_cast<std::size_t>(rows_) * sizeof(*starts));
    starts[0] = 0;
  }

  DType type_;
  std::int64_t count_, rows_;
  int team_ = 1;
};

}  // namespace

const OperatorKernel& group_by_index_kernel() {
  static const OperatorKernel kernel = {"group_by_index", prepare<GroupByIndex>};
  return kernel;
}

}  // namespace sinter::runtime::cpu
