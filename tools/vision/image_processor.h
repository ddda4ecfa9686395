// SPDX-License-Identifier: Apache-2.0
// Images as a tower of vision takes them: the sizes and pieces of preprocessor_config.json.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/compiler/build/pixel_input.h"
#include "tools/vision/image_file.h"

namespace sinter::tools {

/// What a tower is given of one image: `rows` x `columns` tiles, row by row, and behind them the
/// whole; the whole alone, if there are no rows.
struct ImagePieces {
  int rows = 0, columns = 0;
  int count = 0;
  std::vector<std::uint8_t> pixels;  // [count, height, width, 3]
};

class ImageProcessor {
 public:
  /// `file`: preprocessor_config.json. Throws as read_pixel_config().
  explicit ImageProcessor(const std::string& file);

  int height() const { return config_.piece().height; }
  int width() const { return config_.piece().width; }
  /// Throws Error(kUsage) for an image that makes more than kMostPieces.
  ImagePieces pieces(Image image) const;

  static constexpr int kMostPieces = 64;

 private:
  Image sized(Image image) const;
  PixelConfig config_;
};

}  // namespace sinter::tools
