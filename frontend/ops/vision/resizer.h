// Resizing along dimensions: which input elements an output element is made of.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "frontend/ops/term.h"

namespace sinter::frontend {

enum class ResizeMode { kNearest, kLinear, kCubic };

struct ResizeAxis {
  Dim from, to;
  // Scale as ONNX uses it: what was given, or to / from.
  std::optional<double> scale;
  double roi_begin = 0, roi_end = 1;
  bool changes = true;
};

struct Resizing {
  ResizeMode mode = ResizeMode::kNearest;
  std::string coordinates = "half_pixel", nearest = "round_prefer_floor";
  double cubic_a = -0.75, extrapolation = 0;
  bool exclude_outside = false, antialias = false;
};

/// `x` with each of its dimensions as `axes` say, of the type of x.
Term resized(NodeContext& node, Term x, Resizing how, std::vector<ResizeAxis> axes);

}  // namespace sinter::frontend
