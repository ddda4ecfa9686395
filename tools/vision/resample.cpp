// SPDX-License-Identifier: Apache-2.0
#include "tools/vision/resample.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace sinter::tools {
namespace {

constexpr int kChannels = 3;
// Weights are fixed-point numbers with this number of fractional bits, as Pillow's are.
constexpr int kBits = 22;

double sinc(double x) {
  if (x == 0) return 1;
  x *= std::numbers::pi;
  return std::sin(x) / x;
}

double weight_at(ResampleFilter filter, double x) {
  x = std::abs(x);
  switch (filter) {
    case ResampleFilter::kNearest: return 0;  // is no mean
    case ResampleFilter::kLanczos: return x < 3 ? sinc(x) * sinc(x / 3) : 0;
    case ResampleFilter::kBilinear: return x < 1 ? 1 - x : 0;
    case ResampleFilter::kBicubic: {
      constexpr double kA = -0.5;
      if (x < 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
      return x < 2 ? (((x - 5) * x + 8) * x - 4) * kA : 0;
    }
    case ResampleFilter::kBox: return 0;  // half open: see below
    case ResampleFilter::kHamming:
      if (x == 0) return 1;
      return x < 1 ? sinc(x) * (0.54 + 0.46 * std::cos(std::numbers::pi * x)) : 0;
  }
  return 0;
}

double reach_of(ResampleFilter filter) {
  switch (filter) {
    case ResampleFilter::kLanczos: return 3;
    case ResampleFilter::kBicubic: return 2;
    case ResampleFilter::kBox: return 0.5;
    default: return 1;
  }
}

/// What one element of the result is made of.
struct Taps {
  int first = 0;
  std::vector<std::int32_t> weights;
};

std::vector<Taps> taps_of(int from, int to, ResampleFilter filter) {
  std::vector<Taps> all(static_cast<std::size_t>(to));
  const double scale = static_cast<double>(from) / to, widened = std::max(scale, 1.0),
               reach = reach_of(filter) * widened;
  std::vector<double> weights;
  for (int i = 0; i < to; ++i) {
    Taps& taps = all[static_cast<std::size_t>(i)];
    if (filter == ResampleFilter::kNearest) {
      taps.first = std::min(static_cast<int>((i + 0.5) * scale), from - 1);
      taps.weights = {1 << kBits};
      continue;
    }
    const double center = (i + 0.5) * scale;
    taps.first = std::max(0, static_cast<int>(center - reach + 0.5));
    const int end = std::min(from, static_cast<int>(center + reach + 0.5));
    weights.clear();
    double sum = 0;
    for (int x = taps.first; x < end; ++x) {
      const double at = (x - center + 0.5) / widened;
      const double weight = filter != ResampleFilter::kBox ? weight_at(filter, at)
                            : at > -0.5 && at <= 0.5       ? 1
                                                           : 0;
      weights.push_back(weight);
      sum += weight;
    }
    for (const double weight : weights) {
      const double share = (sum != 0 ? weight / sum : weight) * (1 << kBits);
      taps.weights.push_back(static_cast<std::int32_t>(share < 0 ? share - 0.5 : share + 0.5));
    }
  }
  return all;
}

std::uint8_t rounded(std::int64_t sum) {
  return static_cast<std::uint8_t>(std::clamp<std::int64_t>(sum >> kBits, 0, 255));
}

constexpr std::int64_t kHalf = std::int64_t{1} << (kBits - 1);

Image resampled_rows(const Image& image, int width, ResampleFilter filter) {
  Image result{width, image.height, {}};
  result.pixels.resize(static_cast<std::size_t>(width) * static_cast<std::size_t>(image.height) *
                       kChannels);
  const auto all = taps_of(image.width, width, filter);
  std::uint8_t* to = result.pixels.data();
  for (int y = 0; y < image.height; ++y) {
    const std::uint8_t* row = image.pixels.data() + static_cast<std::size_t>(y) *
                                                        static_cast<std::size_t>(image.width) *
                                                        kChannels;
    for (const Taps& taps : all)
      for (int c = 0; c < kChannels; ++c) {
        const std::uint8_t* from = row + taps.first * kChannels + c;
        std::int64_t sum = kHalf;
        for (const std::int32_t weight : taps.weights) {
          sum += std::int64_t{weight} * *from;
          from += kChannels;
        }
        *to++ = rounded(sum);
      }
  }
  return result;
}

Image resampled_columns(const Image& image, int height, ResampleFilter filter) {
  Image result{image.width, height, {}};
  const std::size_t pitch = static_cast<std::size_t>(image.width) * kChannels;
  result.pixels.resize(pitch * static_cast<std::size_t>(height));
  std::uint8_t* to = result.pixels.data();
  std::vector<std::int64_t> sums(pitch);
  for (const Taps& taps : taps_of(image.height, height, filter)) {
    std::ranges::fill(sums, kHalf);
    const std::uint8_t* row = image.pixels.data() + static_cast<std::size_t>(taps.first) * pitch;
    for (const std::int32_t weight : taps.weights) {
      for (std::size_t i = 0; i < pitch; ++i) sums[i] += std::int64_t{weight} * row[i];
      row += pitch;
    }
    for (const std::int64_t sum : sums) *to++ = rounded(sum);
  }
  return result;
}

}  // namespace

Image resampled(const Image& image, int width, int height, ResampleFilter filter) {
  const Image* now = &image;
  Image rows, columns;
  if (width != image.width) {
    rows = resampled_rows(*now, width, filter);
    now = &rows;
  }
  if (height != image.height) {
    columns = resampled_columns(*now, height, filter);
    now = &columns;
  }
  return *now;
}

Image cropped(const Image& image, int left, int top, int width, int height) {
  Image result{width, height, {}};
  result.pixels.resize(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) *
                       kChannels);
  const int first = std::max(0, -left), end = std::min(width, image.width - left);
  for (int y = std::max(0, -top); y < std::min(height, image.height - top); ++y) {
    if (end <= first) break;
    const auto at = [](int row, int columns, int column) {
      return (static_cast<std::size_t>(row) * static_cast<std::size_t>(columns) +
              static_cast<std::size_t>(column)) *
             kChannels;
    };
    std::copy_n(image.pixels.data() + at(y + top, image.width, left + first),
                static_cast<std::size_t>(end - first) * kChannels,
                result.pixels.data() + at(y, width, first));
  }
  return result;
}

}  // namespace sinter::tools
