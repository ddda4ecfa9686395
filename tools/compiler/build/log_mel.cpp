// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/build/log_mel.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numbers>
#include <vector>

#include "runtime/files/input_file.h"
#include "runtime/format_error.h"
#include "tools/compiler/build/mel_powers.h"
#include "tools/json/read_json.h"

namespace sinter::tools {
namespace {

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
