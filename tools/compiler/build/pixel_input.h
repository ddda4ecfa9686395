// SPDX-License-Identifier: Apache-2.0
// A tower of vision as one of pixels: rescaling, normalising and the order of dimensions in the
// graph, as preprocessor_config.json says.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <sinter/compile_options.h>

#include "ir/graph.h"

namespace sinter::tools {

/// What preprocessor_config.json of a model of images says.
struct PixelConfig {
  struct Size {
    int height = 0, width = 0;
  };
  // Sizes, in this order.
  bool resizes = true;
  int filter = 2;                    // `resample`, Pillow's number
  std::optional<Size> fixed;         // to this size,
  std::optional<int> shortest_edge;  // or so that an edge has this length
  std::optional<int> longest_edge;   // likewise
  std::optional<Size> crop;          // the middle
  std::optional<int> tile;           // to squares of this edge:
  bool splits = false;               // tiles and the whole, else the whole alone
  // Numbers.
  double factor = 1;
  std::array<double, 3> mean = {0, 0, 0}, deviation = {1, 1, 1};

  /// Of each piece that a tower is given.
  Size piece() const;
};

/// Whether `file` is one of images, and not of sound. Throws as read_pixel_config().
bool is_pixel_config(const std::string& file);
/// Throws Error(kUsage) naming `file` and the field that is missing, out of range or not known.
PixelConfig read_pixel_config(const std::string& file);

/// Shapes of the inputs that with_pixels() replaces: for one image, and for the most in a run.
std::pair<Shapes, Shapes> shapes_of_pixels(const std::string& file);

/// `tower`, which takes `pixel_values` f32 [images, 3, height, width] alone, with the input
/// `pixels` u8 [images, height, width, 3] in its place. Throws Error(kUsage) for other towers.
ir::Graph with_pixels(const ir::Graph& tower, const std::string& file);

}  // namespace sinter::tools
