// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/gemm/quant/quant_weights.h"

#include <bit>
#include <optional>
#include <string>

#include "runtime/cpu/gemm/dnnl/dnnl_support.h"
#include "runtime/cpu/ops/element.h"

namespace sinter::runtime::cpu {
namespace {

/// Loads scales of any type as float32; u8 is e8m0, a biased exponent (2^(x - 127)).
void load_scales(DType type, const std::byte* from, std::span<float> to) {
  if (type != DType::kUInt8) return load_floats(type, from, 1, std::ssize(to), to.data());
  for (std::size_t i = 0; i < to.size(); ++i) {
    const auto code = std::to_integer<std::uint32_t>(from[i]);
    // e8m0: 2^-127 is a subnormal float; 255 is NaN.
    to[i] = std::bit_cast<float>(code == 0 ? 1U << 22 : code == 255 ? 0x7fc00000U : code << 23);
  }
}

}  // namespace

QuantWeights::QuantWeights(const plan::fb::PlanT& plan, const QuantSource& source,
                           PackedWeights& weights) {
  panels_.bits = source.bits;
  panels_.has_numbers = !source.numbers.empty();
  if (panels_.has_numbers) std::ranges::copy(source.numbers, panels_.numbers.begin());
  panels_.zero = source.zero;
  panels_.k = source.k;
  panels_.group = std::min(source.group, std::max<std::int64_t>(source.k, 1));
  const plan::QuantPanelShape panels{source.bits, source.n, source.k, panels_.group};
  panels_.groups = panels.groups();
  panels_.panel_bytes = panels.panel_bytes();
  const auto place_of = [&](std::int64_t buffer) {
    return static_cast<std::size_t>(plan.buffers[static_cast<std::size_t>(buffer)]->weight_offset);
  };
  const auto type_of = [&](std::int64_t buffer) {
    return static_cast<DType>(plan.buffers[static_cast<std::size_t>(buffer)]->dtype);
  };
  const std::int64_t n = source.n, groups = panels_.groups;
  const auto add = [&](std::int64_t buffer, const std::string& layout, std::int64_t bytes,
                       const auto& fill) {
    const auto& entry =
        entries_.emplace_back(copied(weights, static_cast<std::uint32_t>(buffer), layout,
                                     static_cast<std::size_t>(bytes), fill));
    return entry->memory.get_data_handle();
  };
  panels_.values = static_cast<const std::byte*>(
      add(source.values, "panels", panels.value_bytes(),
          [place = place_of(source.values), panels](const std::byte* section, std::byte* to) {
            for (std::int64_t p = 0; p < panels.panels(); ++p, to += panels.panel_bytes())
              plan::write_value_panel(panels, p, section + place, to);
          }));
  // Values times `unit` and, unless -1, the factor of each row.
  const auto float_panels = [&](std::int64_t buffer, std::int64_t factors, float unit) {
    std::string layout = "panels of float32";
    if (factors >= 0) layout += " times " + std::to_string(factors);
    if (unit != 1) layout += " of units of " + std::to_string(unit);
    const auto of_rows = factors < 0 ? std::optional<std::size_t>() : place_of(factors);
    return static_cast<const float*>(
        add(buffer, layout, panels.group_count() * static_cast<std::int64_t>(sizeof(float)),
            [place = place_of(buffer), type = type_of(buffer), n, unit, of_rows, groups, panels](
                const std::byte* section, std::byte* to) {
              std::vector<float> floats(static_cast<std::size_t>(n * groups));
              load_scales(type, section + place, floats);
              const auto* factor =
                  of_rows ? reinterpret_cast<const float*>(section + *of_rows) : nullptr;
              for (std::int64_t i = 0; i < n * groups; ++i)
                floats[static_cast<std::size_t>(i)] *=
                    unit * (factor == nullptr ? 1 : factor[i / groups]);
              plan::write_group_panels(panels, floats.data(), reinterpret_cast<float*>(to));
            }));
  };
  panels_.scales.words =
      float_panels(source.scales, source.factors, panels_.has_numbers ? source.unit : 1);
  if (source.offsets >= 0) panels_.offsets.words = float_panels(source.offsets, -1, 1);
  if (source.zero_points < 0) return;
  if (type_of(source.zero_points) == DType::kFloat32) {
    panels_.float_zeros = float_panels(source.zero_points, -1, 1);
    return;
  }
  panels_.zeros = static_cast<const std::int8_t*>(
      add(source.zero_points, "panels", panels.group_count(),
          [place = place_of(source.zero_points), panels](const std::byte* section, std::byte* to) {
            plan::write_group_panels(panels, reinterpret_cast<const std::int8_t*>(section + place),
                                     reinterpret_cast<std::int8_t*>(to));
          }));
}

std::size_t quant_workspace_floats(std::int64_t rows, std::int64_t k) {
  const std::int64_t few = std::min(rows, kMostQuantRowsDirectly),
                     most = std::min(rows, kQuantBlockRows), depth = std::min(k, kQuantBlockDepth);
  const std::int64_t directly = few * (rounded_up_to(k, 16) + kQuantPartColumns),
                     by_blocks = kQuantColumns * (depth + most) + most * depth;
  return static_cast<std::size_t>(rows <= few ? directly : std::max(directly, by_blocks));
}

}  // namespace sinter::runtime::cpu
