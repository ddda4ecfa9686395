// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/build/log_mel.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numbers>
#include <vector>

#include "runtime/files/input_file.h"
#include "runtime/format_error.h"
#include "tools/json/read_json.h"

namespace sinter::tools {
namespace {

using ir::Dim;
using ir::Ints;
using ir::ValueId;

constexpr const char* kFeatures = "input_features";

/// Numbers of samples and frames.
struct Sizes {
  std::int64_t bands = 0, window = 0, hop = 0, frames = 0;
  double rate = 0;
};

Sizes read_sizes(const std::string& file) {
  const auto json = read_json(files::read_file(file), fmt::format("'{}'", file));
  const auto number = [&](const char* name) {
    const auto found = json.is_object() ? json.find(name) : json.end();
    constexpr std::int64_t kMost = 1 << 24;
    if (found == json.end() || !found->is_number_integer() || *found < 1 || *found > kMost)
      throw usage_error("'{}' has no '{}' that is a number of samples, frames or bands", file,
                        name);
    return found->get<std::int64_t>();
  };
  Sizes sizes;
  sizes.bands = number("feature_size");
  sizes.window = number("n_fft");
  sizes.hop = number("hop_length");
  sizes.rate = static_cast<double>(number("sampling_rate"));
  const std::int64_t samples = number("n_samples");
  sizes.frames = samples / sizes.hop;
  if (sizes.window % 2 != 0 || sizes.window < sizes.hop || samples <= sizes.window)
    throw usage_error("'{}' is not that of a WhisperFeatureExtractor", file);
  return sizes;
}

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

/// Indices that put a frame's half in front of the sound and behind it, reflected, and leave out
/// what no frame reads.
std::vector<std::int64_t> reflected(const Sizes& sizes, std::int64_t count) {
  const std::int64_t samples = sizes.frames * sizes.hop;
  std::vector<std::int64_t> indices(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t at = std::abs(i - sizes.window / 2);
    if (at >= samples) at = std::max<std::int64_t>(0, 2 * (samples - 1) - at);
    indices[static_cast<std::size_t>(i)] = at;
  }
  return indices;
}

ValueId features(ir::GraphBuilder& b, ValueId audio, const Sizes& sizes) {
  const std::int64_t hops = (sizes.window + sizes.hop - 1) / sizes.hop, frames = sizes.frames,
                     rows = frames + hops - 1;
  const auto reshape = [&](ValueId x, ir::Shape shape) {
    return b.add("Reshape", {x}, {{"shape", std::move(shape)}});
  };
  const auto number = [&](double value) { return b.scalar(DType::kFloat32, value); };
  const auto indices = reflected(sizes, rows * sizes.hop);
  ValueId x = b.add(
      "Gather", {audio, b.constant(ir::Tensor::of(DType::kInt64, {std::ssize(indices)}, indices))},
      {{"axis", std::int64_t{1}}});
  x = reshape(x, {1, rows, sizes.hop});
  x = mel_powers(b, x, frames,
                 {sizes.bands, sizes.window, sizes.window, sizes.hop, sizes.rate, true});
  x = b.add("Mul",
            {b.add("Log", {b.add("Max", {x, number(1e-10)})}), number(1 / std::numbers::ln10)});
  const ValueId largest = b.add("ReduceMax", {x}, {{"axes", Ints{1, 2}}});
  x = b.add("Max", {x, b.add("Sub", {largest, number(8)})});
  x = b.add("Mul", {b.add("Add", {x, number(4)}), number(0.25)});
  return b.add("Transpose", {x}, {{"perm", Ints{0, 2, 1}}});
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

Shapes shapes_of_features(const std::string& file) {
  const Sizes sizes = read_sizes(file);
  return {{kFeatures, {1, sizes.bands, sizes.frames}}};
}

ir::Graph with_log_mel(const ir::Graph& encoder, const std::string& file) {
  const bool fits = encoder.inputs().size() == 1 &&
                    encoder.value(encoder.inputs()[0]).name == kFeatures &&
                    encoder.type(encoder.inputs()[0]).dtype == DType::kFloat32 &&
                    encoder.type(encoder.inputs()[0]).shape.size() == 3;
  if (!fits)
    throw usage_error("--features is of an encoder that takes '{}' alone, f32 [1, bands, frames]",
                      kFeatures);
  const ir::Shape own = encoder.type(encoder.inputs()[0]).shape;
  const Sizes sizes =
      file.empty() ? Sizes{own[1].value(), 400, 160, own[2].value(), 16000} : read_sizes(file);
  const ir::Shape wanted = {1, sizes.bands, sizes.frames};
  if (own != wanted)
    throw usage_error("the encoder takes '{}' {}, and '{}' makes {}", kFeatures, ir::to_string(own),
                      file, ir::to_string(wanted));
  ir::GraphBuilder builder(encoder.name());
  for (const auto& [symbol, range] : encoder.ranges()) builder.range(symbol, range);
  const ValueId audio = builder.input("audio", {DType::kFloat32, {1, sizes.frames * sizes.hop}});
  ValueId spectrum;
  {
    const ir::GraphBuilder::OriginScope scope(builder, {"log_mel"});
    spectrum = features(builder, audio, sizes);
  }
  const auto outputs = ir::inline_graph(builder, encoder, std::vector<ValueId>{spectrum});
  for (std::size_t i = 0; i < outputs.size(); ++i)
    builder.output(encoder.output_names()[i], outputs[i]);
  return builder.finish();
}

}  // namespace sinter::tools
