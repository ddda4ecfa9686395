// SPDX-License-Identifier: Apache-2.0
// Resizing along dimensions: which input elements an output element is made of.
#pragma once

#include <vector>

#include "frontend/ops/vision/resize_positions.h"

namespace sinter::frontend {

/// `x` with each of its dimensions as `axes` say, of the type of x.
Term resized(NodeContext& node, Term x, Resizing how, std::vector<ResizeAxis> axes);

}  // namespace sinter::frontend
