// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "runtime/cpu/ops/element.h"
#include "runtime/cpu/ops/row_ops.h"
#include "runtime/cpu/ops/tile_ops.h"
#include "runtime/operators/groups/groups.h"

namespace sinter::runtime::cpu {
namespace {

constexpr std::int64_t kColumns = 2048;  // that are combined at a time, in cache
/// Updates in a partial sum. Partial sums are added up, so that errors do not grow with a row's
/// updates.
constexpr std::int64_t kRun = 256;
constexpr std::int64_t kAhead = 6;  // rows that are asked for before they are read

/// Threads have rows with about as many updates. One that has most of them is divided by columns.
class CombineGroups final : public PreparedOperator {
 public:
  explicit CombineGroups(const OperatorCall& call)
      : type_(call.type_of_input(0)),
        order_type_(call.type_of_input(2)),
        combine_(static_cast<Combine>(call.sizes["combine"])),
        combiner_(find_row_combiner(combine_, type_)),
        rows_(call.sizes["rows"]),
        width_(call.sizes["width"]),
        sources_(call.sizes["sources"]),
        count_(call.sizes["count"]),
        is_scaled_(call.sizes["factors"] > 0),
        is_filled_(call.sizes["data_rows"] != rows_ || call.sizes["data_width"] != width_) {
    constexpr double kElementsPerNanosecond = 4;
    threads_ = threads::team_for(
        static_cast<double>((rows_ + count_) * width_) / kElementsPerNanosecond, call.threads);
  }

  std::size_t workspace_bytes() const override {
    return 2 *
           whole_lines(static_cast<std::size_t>(std::min(width_, kColumns)) * sizeof(std::int64_t));
  }

  void run(const Operands& operands, std::span<std::byte* const> workspaces) const override {
    if (rows_ == 0 || width_ == 0) return;
    const auto* starts = operands.input<std::int32_t>(3);
    std::int64_t longest = 0;
    for (std::int64_t r = 0; r < rows_; ++r) {
      if (starts[r] < 0 || starts[r] > starts[r + 1] || starts[r + 1] > count_)
        throw usage_error("group {} is from {} to {} of {}", r, starts[r], starts[r + 1], count_);
      longest = std::max<std::int64_t>(longest, starts[r + 1] - starts[r]);
    }
    const int team = std::min(threads_, static_cast<int>(workspaces.size()));
    const std::int64_t parts = std::min(rows_, threads::parts_of(team));
    const std::int64_t work = count_ + rows_;
    const bool is_uneven = team > 1 && longest * team > work;
    const std::int64_t least =
        is_uneven ? std::max<std::int64_t>(16, (width_ + 2 * team - 1) / (2 * team)) : kColumns;
    const std::int64_t columns = std::min(kColumns, (least + 15) / 16 * 16);
    const std::int64_t blocks = (width_ + columns - 1) / columns;
    /// The first row of a part.
    const auto first = [&](std::int64_t part) {
      const std::int64_t before = work * part / parts;
      std::int64_t low = 0, high = rows_;
      while (low < high) {
        const std::int64_t middle = (low + high) / 2;
        if (starts[middle] + middle < before)
          low = middle + 1;
        else
          high = middle;
      }
      return low;
    };
    threads::run_parts(parts * blocks, team, [&](threads::Member& member) {
      std::byte* workspace = workspaces[static_cast<std::size_t>(member.me())];
      while (const auto part = member.next()) {
        const std::int64_t column = *part % blocks * columns;
        const Block block{first(*part / blocks),
                          *part / blocks + 1 == parts ? rows_ : first(*part / blocks + 1), column,
                          std::min(columns, width_ - column)};
        run_block(operands, block, workspace);
      }
    });
  }

 private:
  struct Block {
    std::int64_t begin, end, column, columns;
  };

  void run_block(const Operands& operands, const Block& block, std::byte* workspace) const {
    const auto* starts = operands.input<std::int32_t>(3);
    const Indices order(operands, 2, order_type_);
    const std::size_t size = size_of(type_);
    const auto* values =
        operands.input<std::byte>(1) + static_cast<std::size_t>(block.column) * size;
    const auto* factors = is_scaled_ ? operands.input<std::byte>(4) : nullptr;
    std::byte* sums = workspace;
    std::byte* run = workspace + workspace_bytes() / 2;
    const auto value_at = [&](std::int64_t i) {
      return values + static_cast<std::size_t>(row_at(order[i], sources_) * width_) * size;
    };
    const std::int64_t last = starts[block.end];
    for (std::int64_t r = block.begin; r < block.end; ++r) {
      read_data(operands, r, block, sums);
      const std::int64_t begin = starts[r], end = starts[r + 1];
      const bool in_runs = is_float(type_) && combine_ == Combine::kSum && end - begin > kRun;
      for (std::int64_t i = begin; i < end; ++i) {
        if (i + kAhead < last) prefetch(values, order[i + kAhead], size, block.columns);
        std::byte* to = in_runs ? run : sums;
        if (in_runs && (i - begin) % kRun == 0) {
          if (i > begin) add_run(sums, run, block.columns);
          std::memset(run, 0, static_cast<std::size_t>(block.columns) * sizeof(std::int64_t));
        }
        combiner_(to, value_at(i),
                  factors == nullptr ? nullptr : factors + static_cast<std::size_t>(i) * size,
                  block.columns);
      }
      if (in_runs) add_run(sums, run, block.columns);
      write_row(operands, r, block, sums);
    }
  }

  /// `index` may be anything: nothing is read.
  void prefetch(const std::byte* values, std::int64_t index, std::size_t size,
                std::int64_t columns) const {
    if (index < 0 || index >= sources_) return;
    const std::byte* row = values + static_cast<std::size_t>(index * width_) * size;
    constexpr std::size_t kLine = 64, kMost = 1024;
    for (std::size_t at = 0; at < std::min(kMost, static_cast<std::size_t>(columns) * size);
         at += kLine)
      __builtin_prefetch(row + at);
  }

  void add_run(std::byte* sums, const std::byte* run, std::int64_t count) const {
    // Both are of the compute type.
    static const RowCombiner floats = find_row_combiner(Combine::kSum, DType::kFloat32);
    static const RowCombiner doubles = find_row_combiner(Combine::kSum, DType::kFloat64);
    (type_ == DType::kFloat64 ? doubles : floats)(sums, run, nullptr, count);
  }

  void read_data(const Operands& operands, std::int64_t r, const Block& block,
                 std::byte* sums) const {
    const std::size_t size = size_of(type_);
    const auto* data = operands.input<std::byte>(0);
    if (!is_filled_) data += static_cast<std::size_t>(r * width_ + block.column) * size;
    const auto count = static_cast<std::size_t>(block.columns);
    if (is_filled_) {
      with_compute_type(type_, [&](auto* kind) {
        using T = std::remove_pointer_t<decltype(kind)>;
        T value;
        if (compute_type(type_) != type_)
          value = static_cast<T>(load_double(type_, data));
        else
          std::memcpy(&value, data, sizeof(value));
        std::fill_n(reinterpret_cast<T*>(sums), count, value);
      });
    } else if (compute_type(type_) != type_) {
      widen(type_, data, reinterpret_cast<float*>(sums), block.columns);
    } else {
      std::memcpy(sums, data, count * size);
    }
  }

  void write_row(const Operands& operands, std::int64_t r, const Block& block,
                 const std::byte* sums) const {
    const std::size_t size = size_of(type_);
    auto* to =
        operands.output<std::byte>(0) + static_cast<std::size_t>(r * width_ + block.column) * size;
    if (compute_type(type_) != type_)
      narrow(type_, reinterpret_cast<const float*>(sums), to, block.columns);
    else
      std::memcpy(to, sums, static_cast<std::size_t>(block.columns) * size);
  }

  DType type_, order_type_;
  Combine combine_;
  RowCombiner combiner_;
  std::int64_t rows_, width_, sources_, count_;
  bool is_scaled_, is_filled_;
  int threads_ = 1;
};

}  // namespace

const OperatorKernel& combine_groups_kernel() {
  static const OperatorKernel kernel = {"combine_groups", prepare<CombineGroups>};
  return kernel;
}

}  // namespace sinter::runtime::cpu
