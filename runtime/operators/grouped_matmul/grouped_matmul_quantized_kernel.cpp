// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "runtime/cpu/gemm/dnnl/dnnl_support.h"
#include "runtime/cpu/gemm/quant/rounded_memory.h"
#include "runtime/cpu/ops/element.h"
#include "runtime/format_error.h"
#include "runtime/operators/grouped_matmul/group_rows.h"

namespace sinter::runtime::cpu {
namespace {

class GroupedQuantized final : public PreparedOperator {
 public:
  explicit GroupedQuantized(const OperatorCall& call)
      : type_(call.type_of_input(0)),
        rows_(call.sizes["rows"]),
        k_(call.sizes["k"]),
        n_(call.sizes["n"]),
        groups_(call.sizes["groups"]),
        rounded_{rows_, k_, call.sizes["block"]} {
    const std::array<std::int64_t, 2> numbers = {call.sizes["low"], call.sizes["high"]};
    weights_.bits = static_cast<int>(call.sizes["bits"]);
    weights_.has_numbers = numbers[0] != 0 || numbers[1] != 0;
    std::memcpy(weights_.numbers.data(), numbers.data(), sizeof(numbers));
    weights_.zero = static_cast<int>(call.sizes["zero"]);
    weights_.k = k_;
    weights_.group = std::min(call.sizes["depth"], std::max<std::int64_t>(k_, 1));
    const plan::QuantPanelShape shape{weights_.bits, n_, k_, weights_.group};
    weights_.groups = shape.groups();
    weights_.panel_bytes = shape.panel_bytes();
    matrix_bytes_ = shape.value_bytes();
    matrix_scales_ = shape.group_count();
    scales_ = call.type_of_input(kScales);
    if (call.sizes["zero_panels"] != 0) zeros_ = call.type_of_input(kZeros);
    if (call.sizes["offset_panels"] != 0) offsets_ = call.type_of_input(kOffsets);
    if (zeros_ == DType::kFloat16)
      throw invalid_plan_error("the zero points of grouped_matmul_quantized are {}",
                               to_string(*zeros_));
    threads_ =
        threads_for(static_cast<double>(rows_) * static_cast<double>(n_) * static_cast<double>(k_),
                    call.threads);
  }

  std::size_t workspace_bytes() const override {
    const std::size_t floats =
        is_rounded()
            ? static_cast<std::size_t>(std::max(
                  std::min(rows_, kQuantBlockRows) * kQuantPartColumns, rounded_up_to(k_, kVector)))
            : quant_workspace_floats(rows_, k_);
    return shared_bytes() + whole_lines(sizeof(float) * floats);
  }

  std::string note(const Operands& operands) const override {
    return note_of_groups(operands.input<std::int32_t>(2), groups_, rows_);
  }

  void run(const Operands& operands, std::span<std::byte* const> workspaces) const override {
    auto* y = operands.output<std::byte>(0);
    const auto* x = operands.input<std::byte>(0);
    const std::size_t pitch = static_cast<std::size_t>(n_) * size_of(type_);
    if (n_ == 0 || k_ == 0) {
      std::memset(y, 0, static_cast<std::size_t>(rows_) * pitch);
      return;
    }
    const auto step_of = [&](std::int64_t rows) {
      return is_rounded() ? kQuantPartColumns : quant_part_columns(rows);
    };
    const RowGroups groups(
        operands.input<std::int32_t>(2), groups_, rows_, workspaces[0], y, pitch,
        [&](std::int64_t rows) { return (n_ + step_of(rows) - 1) / step_of(rows); });
    std::byte* const rounded = workspaces[0] + RowGroups::bytes(groups_);
    if (is_rounded()) round_rows(x, rounded, workspaces);
    groups.each_block(threads_, workspaces, shared_bytes(),
                      [&](const RowGroup& group, std::int64_t block, std::byte* workspace) {
                        Rows rows{*this, group.end - group.begin, at_row(x, group.begin),
                                  y + static_cast<std::size_t>(group.begin) * pitch};
                        const std::int64_t step = step_of(rows.count());
                        const std::int64_t first = block * step, last = std::min(n_, first + step);
                        const QuantPanels weights = of(group.group, operands);
                        auto* floats = reinterpret_cast<float*>(workspace);
                        if (is_rounded())
                          multiply_rounded(weights, rounded_.at(rounded), group.begin, rows, first,
                                           last, floats);
                        else
                          multiply_columns(weights, rows, first, last, floats);
                      });
  }

 private:
  static constexpr std::size_t kScales = 3, kZeros = 4, kOffsets = 5;  // inputs
  static constexpr std::int64_t kVector = 16;

  struct Rows {
    const GroupedQuantized& p;
    std::int64_t rows;
    const std::byte* from;
    std::byte* to;

    std::int64_t count() const { return rows; }
    const float* x(std::int64_t row, std::int64_t begin, std::int64_t end, float* space) const {
      return p.floats(from, row, begin, end, space);
    }
    void begin(std::int64_t, std::int64_t) const {}
    void finish(std::int64_t row, std::int64_t n, std::int64_t columns, const float* sums) const {
      store_floats(p.type_, sums, to + static_cast<std::size_t>(row * p.n_ + n) * size_of(p.type_),
                   1, columns);
    }
  };

  bool is_rounded() const { return rounded_.block != 0; }
  std::size_t shared_bytes() const { return RowGroups::bytes(groups_) + rounded_.bytes(); }
  const std::byte* at_row(const std::byte* x, std::int64_t row) const {
    return x + static_cast<std::size_t>(row * k_) * size_of(type_);
  }
  /// Elements [begin, end) of a row: in place, or in `space`.
  const float* floats(const std::byte* x, std::int64_t row, std::int64_t begin, std::int64_t end,
                      float* space) const {
    const std::byte* from = at_row(x, row) + static_cast<std::size_t>(begin) * size_of(type_);
    if (type_ == DType::kFloat32) return reinterpret_cast<const float*>(from);
    load_floats(type_, from, 1, end - begin, space);
    return space;
  }

  void round_rows(const std::byte* x, std::byte* to, std::span<std::byte* const> workspaces) const {
    each_row(rows_, static_cast<double>(k_) / kRoundedPerNanosecond, threads_, workspaces,
             [&](std::int64_t row, std::byte* workspace) {
               auto* space = reinterpret_cast<float*>(workspace + shared_bytes());
               rounded_.round(to, row, floats(x, row, 0, k_, space));
             });
  }

  /// The weights of a group.
  QuantPanels of(std::int64_t group, const Operands& operands) const {
    QuantPanels result = weights_;
    const std::int64_t first = group * matrix_scales_;
    result.values = operands.input<std::byte>(1) + group * matrix_bytes_;
    const auto numbers = [&](std::size_t input, DType type) {
      PanelFloats found;
      if (type == DType::kFloat16)
        found.halves = operands.input<std::uint16_t>(input) + first;
      else
        found.words = operands.input<float>(input) + first;
      return found;
    };
    result.scales = numbers(kScales, scales_);
    if (offsets_) result.offsets = numbers(kOffsets, *offsets_);
    if (zeros_ == DType::kFloat32) result.float_zeros = operands.input<float>(kZeros) + first;
    if (zeros_ == DType::kInt8) result.zeros = operands.input<std::int8_t>(kZeros) + first;
    return result;
  }

  DType type_, scales_ = DType::kFloat32;
  std::optional<DType> zeros_, offsets_;
  std::int64_t rows_, k_, n_, groups_;
  RoundedMemory rounded_;
  QuantPanels weights_;                                // without addresses
  std::int64_t matrix_bytes_ = 0, matrix_scales_ = 0;  // of a group
  int threads_ = 1;
};

}  // namespace

const OperatorKernel& grouped_matmul_quantized_kernel() {
  static const OperatorKernel kernel = {"grouped_matmul_quantized", prepare<GroupedQuantized>};
  return kernel;
}

}  // namespace sinter::runtime::cpu
