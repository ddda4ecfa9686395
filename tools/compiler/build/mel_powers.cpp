// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/build/mel_powers.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace sinter::tools {
namespace {

using ir::Dim;
using ir::Ints;
using ir::ValueId;

/// Cosines, then sines, under the window: [hops * hop, 2 * bins]. What is behind the window weighs
/// nothing.
std::vector<float> spectrum_weights(const MelSizes& sizes) {
  const auto bins = static_cast<std::size_t>(sizes.bins());
  std::vector<float> weights(static_cast<std::size_t>(sizes.hops() * sizes.hop) * 2 * bins);
  const auto period = static_cast<double>(sizes.periodic ? sizes.window : sizes.window - 1);
  for (std::int64_t n = 0; n < sizes.window; ++n) {
    const double at = 2 * std::numbers::pi * static_cast<double>(n);
    const double window = 0.5 - 0.5 * std::cos(at / period);
    const double turn = at / static_cast<double>(sizes.transform);
    float* row = weights.data() + static_cast<std::size_t>(n) * 2 * bins;
    for (std::size_t k = 0; k < bins; ++k) {
      row[k] = static_cast<float>(window * std::cos(turn * static_cast<double>(k)));
      row[bins + k] = static_cast<float>(window * std::sin(turn * static_cast<double>(k)));
    }
  }
  return weights;
}

/// Triangles between points that are evenly spaced on Slaney's mel scale (linear to 1 kHz, then
/// logarithmic), each of area 1 over hertz: [bins, bands].
std::vector<float> mel_filters(const MelSizes& sizes) {
  constexpr double kStep = 200.0 / 3, kKnee = 15, kLinear = 1000, kOctaves = 6.4, kMels = 27;
  const double log_step = std::log(kOctaves) / kMels;
  const auto hertz = [&](double mel) {
    return mel < kKnee ? kStep * mel : kLinear * std::exp(log_step * (mel - kKnee));
  };
  const double top = kKnee + std::log(sizes.rate / 2 / kLinear) / log_step;
  const auto bins = static_cast<std::size_t>(sizes.bins()),
             bands = static_cast<std::size_t>(sizes.bands);
  const auto edge = [&](std::size_t i) {
    return hertz(top * static_cast<double>(i) / static_cast<double>(bands + 1));
  };
  std::vector<float> filters(bins * bands);
  for (std::size_t b = 0; b < bands; ++b) {
    const double low = edge(b), middle = edge(b + 1), high = edge(b + 2);
    for (std::size_t k = 0; k < bins; ++k) {
      const double at = sizes.rate / 2 * static_cast<double>(k) / static_cast<double>(bins - 1);
      const double height = std::min((at - low) / (middle - low), (high - at) / (high - middle));
      filters[k * bands + b] = static_cast<float>(std::max(0.0, height) * 2 / (high - low));
    }
  }
  return filters;
}

}  // namespace

ValueId mel_powers(ir::GraphBuilder& b, ValueId rows, const Dim& frames, const MelSizes& sizes) {
  const std::int64_t bins = sizes.bins(), hops = sizes.hops();
  const auto sum = [&](ValueId x) {
    return b.add("ReduceSum", {x}, {{"axes", Ints{2}}, {"keepdims", std::int64_t{0}}});
  };
  // Frames are neighbouring rows of hops, and their spectra one matmul.
  std::vector<ValueId> parts;
  for (std::int64_t i = 0; i < hops; ++i)
    parts.push_back(b.add("Slice", {rows},
                          {{"starts", Ints{0, i, 0}},
                           {"steps", Ints{1, 1, 1}},
                           {"shape", ir::Shape{1, frames, sizes.hop}}}));
  ValueId x = b.add("Concat", std::move(parts), {{"axis", std::int64_t{2}}});
  x = b.add("MatMul", {x, b.constant(ir::Tensor::of(DType::kFloat32, {hops * sizes.hop, 2 * bins},
                                                    spectrum_weights(sizes)))});
  x = sum(b.add("Reshape", {b.add("Mul", {x, x})}, {{"shape", ir::Shape{1, frames, 2, bins, 1}}}));
  // A sum, and no matmul: in 16 bits powers of quiet sounds would be zeros.
  return sum(b.add("Mul", {x, b.constant(ir::Tensor::of(DType::kFloat32, {bins, sizes.bands},
                                                        mel_filters(sizes)))}));
}

}  // namespace sinter::tools
