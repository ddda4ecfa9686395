// SPDX-License-Identifier: Apache-2.0
// Images from files, as models of vision take them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sinter::tools {

struct Image {
  int width = 0, height = 0;
  std::vector<std::uint8_t> pixels;  // [height, width, 3], RGB
};

/// Most that an image may have.
constexpr std::size_t kMostImageBytes = std::size_t{20} << 20;  // of its file
constexpr int kMostImageSide = 16384;
constexpr std::int64_t kMostImagePixels = std::int64_t{1} << 25;

/// Decodes a PNG, JPEG or WebP file to RGB, without its transparency and orientation. Its size is
/// checked before memory is taken. Throws Error(kUsage) that calls it `name` for other and damaged
/// files, and for what is larger than the limits.
Image decode_image(std::span<const std::byte> bytes, const std::string& name);

}  // namespace sinter::tools
