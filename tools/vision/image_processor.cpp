// SPDX-License-Identifier: Apache-2.0
#include "tools/vision/image_processor.h"

#include <algorithm>
#include <utility>

#include "runtime/format_error.h"
#include "tools/vision/resample.h"

namespace sinter::tools {
namespace {

// Of an image whose longest edge is given, as Idefics 3 has it.
constexpr int kMostResized = 4096;

using Size = PixelConfig::Size;

int scaled(int edge, double factor) { return static_cast<int>(edge * factor); }

/// The shorter edge keeps its proportion, and is even.
Size with_longest(const Image& image, int edge) {
  const double aspect = static_cast<double>(image.width) / image.height;
  const auto even = [](int x) { return std::max(1, x + x % 2); };
  Size size;
  if (image.width >= image.height)
    size = {even(static_cast<int>(edge / aspect)), edge};
  else
    size = {edge, even(scaled(edge, aspect))};
  const double now = static_cast<double>(size.width) / size.height;
  if (size.width >= size.height && size.width > kMostResized)
    size = {std::max(1, static_cast<int>(kMostResized / now)), kMostResized};
  else if (size.height > kMostResized)
    size = {kMostResized, std::max(1, scaled(kMostResized, now))};
  return size;
}

Size with_shortest(const Image& image, int edge) {
  const auto longer = [&](int long_edge, int short_edge) {
    return static_cast<int>(static_cast<double>(std::int64_t{edge} * long_edge) / short_edge);
  };
  if (image.width <= image.height) return {longer(image.height, image.width), edge};
  return {edge, longer(image.width, image.height)};
}

int up_to(int edge, int multiple) { return (edge + multiple - 1) / multiple * multiple; }

/// Both edges are multiples of a tile's.
Size with_tiles(const Image& image, int tile) {
  const double aspect = static_cast<double>(image.width) / image.height;
  if (image.width >= image.height) {
    const int width = up_to(image.width, tile);
    return {up_to(static_cast<int>(width / aspect), tile), width};
  }
  const int height = up_to(image.height, tile);
  return {height, up_to(scaled(height, aspect), tile)};
}

void append(ImagePieces& pieces, const Image& image) {
  pieces.pixels.insert(pieces.pixels.end(), image.pixels.begin(), image.pixels.end());
  ++pieces.count;
}

void check_size(const Size& size) {
  if (size.width > kMostImageSide || size.height > kMostImageSide ||
      std::int64_t{size.width} * size.height > kMostImagePixels)
    throw usage_error("an image becomes {} x {} pixels, which are more than {}", size.width,
                      size.height, kMostImagePixels);
}

}  // namespace

ImageProcessor::ImageProcessor(const std::string& file) : config_(read_pixel_config(file)) {}

Image ImageProcessor::sized(Image image) const {
  const auto filter = static_cast<ResampleFilter>(config_.filter);
  if (config_.resizes) {
    const Size size = config_.fixed           ? *config_.fixed
                      : config_.shortest_edge ? with_shortest(image, *config_.shortest_edge)
                                              : with_longest(image, *config_.longest_edge);
    check_size(size);
    image = resampled(image, size.width, size.height, filter);
  }
  if (!config_.crop) return image;
  const auto [height, width] = *config_.crop;
  // Rounded down, of an image that is smaller, too.
  const auto half = [](int x) { return x >= 0 ? x / 2 : -((1 - x) / 2); };
  return cropped(image, half(image.width - width), half(image.height - height), width, height);
}

ImagePieces ImageProcessor::pieces(Image image) const {
  const auto filter = static_cast<ResampleFilter>(config_.filter);
  image = sized(std::move(image));
  ImagePieces pieces;
  if (config_.tile && config_.splits) {
    const int tile = *config_.tile;
    const Size size = with_tiles(image, tile);
    check_size(size);
    image = resampled(image, size.width, size.height, filter);
    if (size.height > tile || size.width > tile) {
      pieces.rows = size.height / tile;
      pieces.columns = size.width / tile;
      if (pieces.rows * pieces.columns + 1 > kMostPieces)
        throw usage_error("an image makes {} x {} tiles: {} pieces at most", pieces.rows,
                          pieces.columns, kMostPieces);
      for (int row = 0; row < pieces.rows; ++row)
        for (int column = 0; column < pieces.columns; ++column)
          append(pieces, cropped(image, column * tile, row * tile, tile, tile));
    }
  }
  if (image.width != width() || image.height != height())
    image = resampled(image, width(), height(), filter);
  append(pieces, image);
  return pieces;
}

}  // namespace sinter::tools
