// SPDX-License-Identifier: Apache-2.0
// Float weights: constant ones are packed in panels of their own type, others are read as they lie.
#include <type_traits>

#include <fmt/format.h>

#include "runtime/cpu/gemm/dnnl/dnnl_support.h"
#include "runtime/cpu/ops/panel_ops.h"
#include "runtime/cpu/ops/tile_ops.h"
#include "runtime/operators/grouped_matmul/group_rows.h"

namespace sinter::runtime::cpu {
namespace {

/// A block of weights as numbers to compute with, and its sums, fit a core's private cache.
constexpr std::int64_t kDepth = 256, kBlockRows = 256;
/// Up to this number of rows, a panel is read once.
constexpr std::int64_t kFewRows = 6;

/// Matrices [k, n] of a type behind each other, at any strides.
struct Matrices {
  std::int64_t count, k, n, row_step, column_step;
  std::size_t size;  // of an element

  std::size_t packed_bytes() const {
    return static_cast<std::size_t>(count * rounded_up_to(n, kPanelStep) * k) * size;
  }
  /// As [matrix, panel, k, column]; each last panel is padded with zeros.
  void pack(const std::byte* from, std::byte* to) const {
    for (std::int64_t m = 0; m < count; ++m, from += static_cast<std::size_t>(k * n) * size)
      for (std::int64_t first = 0; first < n; first += kPanelColumns) {
        copy(from, first, 0, k, to);
        to += static_cast<std::size_t>(k * panel_width(n, first)) * size;
      }
  }
  /// Rows [begin, end) of a matrix's panel whose first column is `first`.
  void copy(const std::byte* matrix, std::int64_t first, std::int64_t begin, std::int64_t end,
            std::byte* to) const {
    switch (size) {
      case 2: return copy_elements<std::uint16_t>(matrix, first, begin, end, to);
      case 4: return copy_elements<std::uint32_t>(matrix, first, begin, end, to);
      default: return copy_elements<std::uint64_t>(matrix, first, begin, end, to);
    }
  }

 private:
  template <typename E>
  void copy_elements(const std::byte* matrix, std::int64_t first, std::int64_t begin,
                     std::int64_t end, std::byte* bytes) const {
    const std::int64_t width = panel_width(n, first), own = std::min(width, n - first);
    const auto* from = reinterpret_cast<const E*>(matrix) + first * column_step;
    auto* to = reinterpret_cast<E*>(bytes);
    // The inner loop goes along the matrix's rows as they lie.
    constexpr std::int64_t kTile = 16;
    for (std::int64_t i = begin; i < end; i += kTile)
      for (std::int64_t c = 0; c < width; ++c)
        for (std::int64_t j = i; j < std::min(end, i + kTile); ++j)
          to[(j - begin) * width + c] = c < own ? from[j * row_step + c * column_step] : E{0};
  }
};

/// Computes in T.
template <typename T>
class Grouped final : public PreparedOperator {
 public:
  explicit Grouped(const OperatorCall& call)
      : type_(call.type_of_input(0)),
        rows_(call.sizes["rows"]),
        k_(call.sizes["k"]),
        n_(call.sizes["n"]),
        groups_(call.sizes["groups"]),
        matrices_(call.sizes["transposed"] != 0 ? Matrices{groups_, k_, n_, 1, k_, size()}
                                                : Matrices{groups_, k_, n_, n_, 1, size()}) {
    threads_ =
        threads_for(static_cast<double>(rows_) * static_cast<double>(n_) * static_cast<double>(k_),
                    call.threads);
    const std::uint32_t buffer = call.step.inputs[1]->buffer;
    const plan::fb::BufferT& weights = *call.plan.buffers[buffer];
    if (weights.kind != plan::fb::BufferKind::Weight || n_ == 0 || k_ == 0) return;
    packed_ = copied(
        call.weights, buffer,
        fmt::format("panels of {} matrices of {} x {} by {}", groups_, k_, n_, matrices_.row_step),
        matrices_.packed_bytes(),
        [place = weights.weight_offset, matrices = matrices_](
            const std::byte* section, std::byte* to) { matrices.pack(section + place, to); });
    panels_ = static_cast<const std::byte*>(packed_->memory.get_data_handle());
  }

  std::size_t workspace_bytes() const override {
    const auto bytes = [](std::int64_t count, std::size_t each) {
      return whole_lines(static_cast<std::size_t>(count) * each);
    };
    return RowGroups::bytes(groups_) + bytes(kPanelColumns * block_rows(), sizeof(T)) +
           bytes(kPanelColumns * depth(), sizeof(T)) + bytes(kPanelColumns * depth(), size()) +
           bytes(block_rows() * depth(), sizeof(T));
  }

  std::string note(const Operands& operands) const override {
    return note_of_groups(operands.input<std::int32_t>(2), groups_, rows_);
  }

  void run(const Operands& operands, std::span<std::byte* const> workspaces) const override {
    auto* y = operands.output<std::byte>(0);
    const std::size_t pitch = static_cast<std::size_t>(n_) * size();
    if (n_ == 0 || k_ == 0) {
      std::memset(y, 0, static_cast<std::size_t>(rows_) * pitch);
      return;
    }
    const RowGroups groups(operands.input<std::int32_t>(2), groups_, rows_, workspaces[0], y, pitch,
                           [&](std::int64_t) { return (n_ + kPanelColumns - 1) / kPanelColumns; });
    groups.each_block(threads_, workspaces, RowGroups::bytes(groups_),
                      [&](const RowGroup& group, std::int64_t panel, std::byte* workspace) {
                        for (std::int64_t r = group.begin; r < group.end; r += kBlockRows)
                          multiply(operands, group.group, {r, std::min(group.end, r + kBlockRows)},
                                   panel * kPanelColumns, workspace);
                      });
  }

 private:
  struct Rows {
    std::int64_t begin, end;
  };
  static constexpr bool kIsDouble = std::is_same_v<T, double>;

  std::size_t size() const { return size_of(type_); }
  bool is_computed() const { return size() == sizeof(T); }
  std::int64_t depth() const { return std::min(k_, kDepth); }
  std::int64_t block_rows() const { return std::min(rows_, kBlockRows); }
  const std::byte* at(const std::byte* base, std::int64_t element) const {
    return base + static_cast<std::size_t>(element) * size();
  }
  /// `count` numbers at `from`: in place, or in `space`.
  const T* numbers(const std::byte* from, std::int64_t count, T* space) const {
    if (is_computed()) return reinterpret_cast<const T*>(from);
    if constexpr (!kIsDouble) widen(type_, from, space, count);
    return space;
  }

  void multiply(const Operands& operands, std::int64_t group, Rows rows, std::int64_t first,
                std::byte* workspace) const {
    const auto take = [&](std::int64_t count, std::size_t each) {
      std::byte* result = workspace;
      workspace += whole_lines(static_cast<std::size_t>(count) * each);
      return result;
    };
    auto* sums = reinterpret_cast<T*>(take(kPanelColumns * block_rows(), sizeof(T)));
    auto* wide = reinterpret_cast<T*>(take(kPanelColumns * depth(), sizeof(T)));
    auto* copy = take(kPanelColumns * depth(), size());
    auto* copies = reinterpret_cast<T*>(take(block_rows() * depth(), sizeof(T)));

    const std::int64_t count = rows.end - rows.begin, width = panel_width(n_, first);
    const bool in_place = panels_ != nullptr && is_computed();
    const std::int64_t step = in_place && count <= kFewRows ? k_ : depth();
    const auto* x = operands.input<std::byte>(0);
    std::fill_n(sums, count * kPanelColumns, T{0});
    for (std::int64_t i = 0; i < k_; i += step) {
      const std::int64_t end = std::min(k_, i + step);
      const T* lines[kBlockRows];
      for (std::int64_t r = 0; r < count; ++r)
        lines[r] = numbers(at(x, (rows.begin + r) * k_ + i), end - i, copies + r * depth());
      const std::byte* panel = copy;
      if (panels_ != nullptr)
        panel = at(panels_, (group * rounded_up_to(n_, kPanelStep) + first) * k_ + i * width);
      else
        matrices_.copy(at(operands.input<std::byte>(1), group * k_ * n_), first, i, end, copy);
      add_products(lines, count, numbers(panel, (end - i) * width, wide), width, width, end - i,
                   sums, kPanelColumns);
    }
    const std::int64_t columns = std::min(kPanelColumns, n_ - first);
    for (std::int64_t r = 0; r < count; ++r) {
      auto* to = operands.output<std::byte>(0) +
                 static_cast<std::size_t>((rows.begin + r) * n_ + first) * size();
      const T* from = sums + r * kPanelColumns;
      if (is_computed())
        std::memcpy(to, from, static_cast<std::size_t>(columns) * sizeof(T));
      else if constexpr (!kIsDouble)
        narrow(type_, from, to, columns);
    }
  }

  DType type_;
  std::int64_t rows_, k_, n_, groups_;
  Matrices matrices_;
  std::shared_ptr<const PackedWeights::Entry> packed_;
  const std::byte* panels_ = nullptr;
  int threads_ = 1;
};

}  // namespace

const OperatorKernel& grouped_matmul_kernel() {
  static const OperatorKernel kernel = {
      "grouped_matmul", [](const OperatorCall& call) -> std::unique_ptr<PreparedOperator> {
        if (call.type_of_input(0) == DType::kFloat64)
          return std::make_unique<Grouped<double>>(call);
        return std::make_unique<Grouped<float>>(call);
      }};
  return kernel;
}

}  // namespace sinter::runtime::cpu
