// SPDX-License-Identifier: Apache-2.0
// Positions in the input for the elements of a resized dimension, and their nearest elements.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "frontend/ops/term.h"

namespace sinter::frontend {

enum class ResizeMode { kNearest, kLinear, kCubic };

struct ResizeAxis {
  Dim from, to;
  // Scale as ONNX uses it: the given one, or to / from.
  std::optional<double> scale;
  double roi_begin = 0, roi_end = 1;
  bool changes = true;
};

struct Resizing {
  ResizeMode mode = ResizeMode::kNearest;
  // `nearest` may also be "simple", the rule of opset 10: floor, or ceil if the scale is below 1.
  std::string coordinates = "half_pixel", nearest = "round_prefer_floor";
  double cubic_a = -0.75, extrapolation = 0;
  bool exclude_outside = false, antialias = false;
};

/// Maximum length of a table of positions; longer ones are computed by a formula.
inline constexpr std::int64_t kMaxPositions = std::int64_t{1} << 20;

/// Whether both sizes are known and small enough for a table.
bool has_table(const ResizeAxis& axis);

/// Positions of all elements of a dimension with known sizes.
std::vector<double> known_positions(const Resizing& how, const ResizeAxis& axis);
/// Positions along dimension `d` of `rank` as f64; the other dimensions are 1.
Term positions(NodeContext& node, const Resizing& how, const ResizeAxis& axis, std::size_t d,
               std::size_t rank);

/// Element `at` of `from`, clamped to the valid ones; NaN, from degenerate scales and regions,
/// gives the first.
std::int64_t element_inside(double at, std::int64_t from);
/// The input element nearest to a position, by the rule in `how`.
std::int64_t nearest_element(const Resizing& how, const ResizeAxis& axis, double position);
Term nearest_element(const Resizing& how, const ResizeAxis& axis, const Term& position);

}  // namespace sinter::frontend
