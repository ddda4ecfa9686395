// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/gemm/narrow_panels.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runtime/cpu/gemm/dnnl/dnnl_support.h"
#include "runtime/threads/thread_pool.h"

namespace sinter::runtime::cpu {
namespace {

/// Packs one panel; pads columns and rows with zeros.
template <typename Byte>
void write_panel(const NarrowMatrices& m, const Byte* from, std::int64_t first, std::int16_t* to) {
  const std::int64_t width = panel_width(m.n, first), count = std::min(width, m.n - first);
  std::fill_n(to, rounded_up_to(m.k, 2) * width, std::int16_t{0});
  for (std::int64_t i = 0; i < m.k; ++i) {
    const Byte* row = from + i / m.inner * m.outer_stride + i % m.inner * m.inner_stride +
                      first * m.column_stride;
    std::int16_t* target = to + i / 2 * 2 * width + i % 2;
    for (std::int64_t c = 0; c < count; ++c)
      target[2 * c] = row[c * m.column_stride];  // NOLINT: numbers
  }
}

}  // namespace

WidenedBytes::WidenedBytes(std::uint32_t buffer, std::int64_t elements, std::int64_t parts,
                           const std::string& layout, Fill fill, const plan::PlanData& plan,
                           const BoundShape& shape, PackedWeights& weights)
    : buffer_(buffer), parts_(parts) {
  const auto& source = *plan.meta.buffers[buffer];
  if (source.kind != plan::fb::BufferKind::Weight) {
    fill_ = std::move(fill);
    own_.resize(static_cast<std::size_t>(elements));
    data_ = own_.data();
    return;
  }
  const std::ptrdiff_t place = weights.place_of(plan.weight(source, shape.bytes_of(source)).data());
  packed_ = copied(weights, buffer, layout, static_cast<std::size_t>(elements) * sizeof(*data_),
                   [place, parts, fill = std::move(fill)](const std::byte* section, std::byte* to) {
                     for (std::int64_t part = 0; part < parts; ++part)
                       fill(section + place, part, reinterpret_cast<std::int16_t*>(to));
                   });
  data_ = static_cast<const std::int16_t*>(packed_->memory.get_data_handle());
}

void WidenedBytes::refresh(std::span<std::byte* const> buffers, int threads) {
  if (!fill_) return;
  constexpr double kElementsPerNanosecond = 2;
  const int team =
      threads::team_for(static_cast<double>(own_.size()) / kElementsPerNanosecond, threads);
  threads::run_parts(parts_, team, [&](threads::Member& member) {
    while (const auto part = member.next()) fill_(buffers[buffer_], *part, own_.data());
  });
}

NarrowPanels::NarrowPanels(const NarrowMatrices& matrices, const plan::PlanData& plan,
                           const BoundShape& shape, PackedWeights& weights)
    : k_(matrices.k),
      n_(matrices.n),
      elements_(rounded_up_to(matrices.n, kPanelStep) * rounded_up_to(matrices.k, 2)) {
  const std::int64_t panels = rounded_up_to(n_, kPanelColumns) / kPanelColumns,
                     count = std::ssize(matrices.starts);
  const auto fill = [m = matrices, panels, elements = elements_](
                        const std::byte* from, std::int64_t part, std::int16_t* to) {
    const std::int64_t matrix = part / panels, first = part % panels * kPanelColumns;
    from += m.starts[static_cast<std::size_t>(matrix)];
    to += matrix * elements + first * rounded_up_to(m.k, 2);
    if (m.type == DType::kInt8)
      write_panel(m, reinterpret_cast<const std::int8_t*>(from), first, to);
    else
      write_panel(m, reinterpret_cast<const std::uint8_t*>(from), first, to);
  };
  const std::string layout =
      fmt::format("pairs of {} x {} by {}, {} of {}, {} at {}", k_, n_, matrices.outer_stride,
                  matrices.inner_stride, matrices.inner, matrices.column_stride,
                  fmt::join(matrices.starts, ","));
  values_ = WidenedBytes(matrices.buffer, elements_ * count, panels * count, layout, fill, plan,
                         shape, weights);
}

void NarrowPanels::add_block(std::int64_t matrix, std::int64_t first, std::int64_t end,
                             std::int64_t from, std::int64_t to, const std::int16_t* const* rows,
                             std::int64_t count, std::int32_t* sums) const {
  for (std::int64_t column = first; column < end; column += kPanelColumns) {
    const std::int64_t width = panel_width(n_, column);
    const std::int16_t* panel =
        values_.data() + matrix * elements_ + column * rounded_up_to(k_, 2) + from * width;
    add_pair_products(rows, count, panel, width, (to - from + 1) / 2, sums + column - first,
                      kMostColumns);
  }
}

NarrowParts::NarrowParts(std::int64_t matrices, std::int64_t rows, std::int64_t columns)
    : matrices_(matrices), rows_(rows), columns_(columns) {
  // Each column part widens the rows again. With few rows that is cheap, so parts may be narrow.
  constexpr std::int64_t kManyParts = 32;
  row_parts_ = (rows + NarrowPanels::kRows - 1) / NarrowPanels::kRows;
  width_ = matrices * row_parts_ < kManyParts ? kPanelColumns : NarrowPanels::kMostColumns;
  column_parts_ = (columns + width_ - 1) / width_;
}

NarrowParts::Part NarrowParts::operator[](std::int64_t index) const {
  const std::int64_t row = index % row_parts_ * NarrowPanels::kRows,
                     first = index / row_parts_ % column_parts_ * width_;
  return {index / row_parts_ / column_parts_, row, std::min(NarrowPanels::kRows, rows_ - row),
          first, std::min(first + width_, columns_)};
}

}  // namespace sinter::runtime::cpu
