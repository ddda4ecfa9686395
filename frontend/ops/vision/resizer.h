// SPDX-License-Identifier: Apache-2.0
// Resizes along dimensions: each output element is a combination of input elements.
#pragma once

#include <vector>

#include "frontend/ops/vision/resize_positions.h"

namespace sinter::frontend {

/// Resizes each dimension of `x` by `axes`; keeps the type.
Term resized(NodeContext& node, Term x, Resizing how, std::vector<ResizeAxis> axes);

}  // namespace sinter::frontend
