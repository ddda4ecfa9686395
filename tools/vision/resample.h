// SPDX-License-Identifier: Apache-2.0
// Images of other sizes, as Pillow's Image.resize makes them: models were trained on these.
#pragma once

#include <cstdint>

#include "tools/vision/image_file.h"

namespace sinter::tools {

/// Numbers of Pillow's filters, `resample` of preprocessor_config.json.
enum class ResampleFilter : std::uint8_t {
  kNearest = 0,
  kLanczos = 1,
  kBilinear = 2,
  kBicubic = 3,
  kBox = 4,
  kHamming = 5,
};

/// `image` with this size; each pixel is the mean of those below the filter, which is as wide as
/// what is made smaller. Rows first, then columns, each rounded to 8 bits.
Image resampled(const Image& image, int width, int height, ResampleFilter filter);

/// The part from column `left` and row `top` on, black where it goes beyond the image.
Image cropped(const Image& image, int left, int top, int width, int height);

}  // namespace sinter::tools
