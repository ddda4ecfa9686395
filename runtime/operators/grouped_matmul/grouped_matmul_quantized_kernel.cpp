// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "runtime/cpu/gemm/dnnl/dnnl_support.h"
#include "runtime/cpu/gemm/quant/quant_weights.h"
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
        groups_(call.sizes["groups"]) {
    const auto buffer = [&](std::size_t input) { return call.step.inputs[input]->buffer; };
    QuantSource source;
    source.values = buffer(1);
    source.scales = buffer(3);
    source.matrices = groups_;
    source.n = n_;
    source.k = k_;
    source.bits = static_cast<int>(call.sizes["bits"]);
    source.group = call.sizes["depth"];
    const auto optional = [&](const char* size, std::size_t input, std::int64_t& to,
                              std::initializer_list<DType> types) {
      if (call.sizes[size] == 0) return;
      if (std::ranges::count(types, call.type_of_input(input)) == 0)
        throw invalid_plan_error("input {} of grouped_matmul_quantized is {}", input,
                                 to_string(call.type_of_input(input)));
      to = buffer(input);
    };
    constexpr auto kHalf = DType::kFloat16, kBFloat = DType::kBFloat16, kF32 = DType::kFloat32;
    optional("zero_groups", 4, source.zero_points, {DType::kInt8, kF32});
    optional("factor_groups", 5, source.factors, {kF32});
    optional("offset_groups", 6, source.offsets, {kHalf, kBFloat, kF32});
    const std::array<std::int64_t, 2> packed = {call.sizes["low"], call.sizes["high"]};
    std::array<std::int8_t, 16> numbers{};
    std::memcpy(numbers.data(), packed.data(), sizeof(packed));
    if (packed[0] != 0 || packed[1] != 0) source.numbers = numbers;
    source.unit = static_cast<float>(call.real("unit"));
    if (n_ == 0 || k_ == 0) return;
    weights_ = QuantWeights(call.plan, source, call.weights);
    threads_ =
        threads_for(static_cast<double>(rows_) * static_cast<double>(n_) * static_cast<double>(k_),
                    call.threads);
  }

  std::size_t workspace_bytes() const override {
    return RowGroups::bytes(groups_) +
           whole_lines(sizeof(float) * quant_workspace_floats(rows_, k_));
  }

  void run(const Operands& operands, std::span<std::byte* const> workspaces) const override {
    const auto size = size_of(type_);
    auto* y = operands.output<std::byte>(0);
    const auto* x = operands.input<std::byte>(0);
    const std::size_t pitch = static_cast<std::size_t>(n_) * size;
    if (n_ == 0 || k_ == 0) {
      std::memset(y, 0, static_cast<std::size_t>(rows_) * pitch);
      return;
    }
    const RowGroups groups(operands.input<std::int32_t>(2), groups_, rows_, workspaces[0], y, pitch,
                           [&](std::int64_t rows) {
                             const std::int64_t step = quant_part_columns(rows);
                             return (n_ + step - 1) / step;
                           });
    groups.each_block(threads_, workspaces, RowGroups::bytes(groups_),
                      [&](const RowGroup& group, std::int64_t block, std::byte* workspace) {
                        Rows rows{*this, group.end - group.begin,
                                  x + static_cast<std::size_t>(group.begin * k_) * size,
                                  y + static_cast<std::size_t>(group.begin) * pitch};
                        const std::int64_t step = quant_part_columns(rows.count());
                        multiply_columns(weights_.of(group.group), rows, block * step,
                                         std::min(n_, (block + 1) * step),
                                         reinterpret_cast<float*>(workspace));
                      });
  }

 private:
  struct Rows {
    const GroupedQuantized& p;
    std::int64_t rows;
    const std::byte* from;
    std::byte* to;

    std::int64_t count() const { return rows; }
    const float* x(std::int64_t row, std::int64_t begin, std::int64_t end, float* space) const {
      const std::byte* at = from + static_cast<std::size_t>(row * p.k_ + begin) * size_of(p.type_);
      if (p.type_ == DType::kFloat32) return reinterpret_cast<const float*>(at);
      load_floats(p.type_, at, 1, end - begin, space);
      return space;
    }
    void begin(std::int64_t, std::int64_t) const {}
    void finish(std::int64_t row, std::int64_t n, std::int64_t columns, const float* sums) const {
      store_floats(p.type_, sums, to + static_cast<std::size_t>(row * p.n_ + n) * size_of(p.type_),
                   1, columns);
    }
  };

  DType type_;
  std::int64_t rows_, k_, n_, groups_;
  QuantWeights weights_;
  int threads_ = 1;
};

}  // namespace

const OperatorKernel& grouped_matmul_quantized_kernel() {
  static const OperatorKernel kernel = {"grouped_matmul_quantized", prepare<GroupedQuantized>};
  return kernel;
}

}  // namespace sinter::runtime::cpu
