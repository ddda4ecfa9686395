// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/build/pixel_input.h"

#include <vector>

#include "ir/text/shown.h"
#include "runtime/files/input_file.h"
#include "runtime/format_error.h"
#include "tools/json/read_json.h"

namespace sinter::tools {
namespace {

using ir::Ints;
using ir::ValueId;
using nlohmann::json;

constexpr const char* kPixels = "pixel_values";
constexpr int kMostEdge = 16384, kMostImages = 64;

json read(const std::string& file) {
  json config = read_json(files::read_file(file, "", kMostConfigBytes), fmt::format("'{}'", file),
                          kConfigLimits);
  if (!config.is_object()) throw usage_error("'{}' is no JSON object", file);
  return config;
}

class ConfigReader {
 public:
  ConfigReader(const json& config, const std::string& file) : config_(config), file_(file) {}

  PixelConfig read() const {
    PixelConfig c;
    c.resizes = flag("do_resize", true);
    c.filter = static_cast<int>(number(config_, "resample", 2, 0, 5));
    read_size(c);
    if (flag("do_center_crop", false)) {
      const auto crop = size(member(config_, "crop_size"));
      if (!crop) fail("crop_size", "is no height and width");
      c.crop = *crop;
    }
    if (const json* most = member(config_, "max_image_size")) {
      c.tile = edge(*most, "longest_edge", "max_image_size");
      c.splits = flag("do_image_splitting", false);
    }
    if (flag("do_rescale", true)) c.factor = number(config_, "rescale_factor", 1.0 / 255, 0, 1e6);
    if (flag("do_normalize", true)) {
      c.mean = numbers("image_mean");
      c.deviation = numbers("image_std");
      for (const double x : c.deviation)
        if (x <= 0) fail("image_std", "has a number that is not positive");
    }
    for (const char* key : {"do_pan_and_scan", "crop_to_patches"})
      if (flag(key, false)) fail(key, "is true, which is not known");
    for (const char* key : {"merge_size", "temporal_patch_size"})
      if (config_.contains(key)) fail(key, "is of patches of any number, which are not known");
    if (c.piece().height == 0) fail("size", "says no size that all images have");
    return c;
  }

 private:
  [[noreturn]] void fail(const char* key, std::string_view what) const {
    throw usage_error("'{}': '{}' {}", file_, key, what);
  }
  static const json* member(const json& object, const char* key) {
    const auto at = object.find(key);
    return at == object.end() || at->is_null() ? nullptr : &*at;
  }
  bool flag(const char* key, bool otherwise) const {
    const json* value = member(config_, key);
    if (value == nullptr) return otherwise;
    if (!value->is_boolean()) fail(key, "is neither true nor false");
    return value->get<bool>();
  }
  double number(const json& object, const char* key, double otherwise, double least,
                double most) const {
    const json* value = member(object, key);
    if (value == nullptr) return otherwise;
    if (!value->is_number() || !(value->get<double>() >= least && value->get<double>() <= most))
      fail(key, fmt::format("is no number from {} to {}", least, most));
    return value->get<double>();
  }
  int edge(const json& value, const char* key, const char* outer) const {
    if (!value.is_object() || !value.contains(key)) fail(outer, fmt::format("has no '{}'", key));
    const double found = number(value, key, 0, 1, kMostEdge);
    return static_cast<int>(found);
  }
  /// A number, or height and width.
  std::optional<PixelConfig::Size> size(const json* value) const {
    if (value == nullptr) return std::nullopt;
    if (value->is_number_unsigned() && *value >= 1 && *value <= kMostEdge)
      return PixelConfig::Size{value->get<int>(), value->get<int>()};
    if (!value->is_object() || !value->contains("height") || !value->contains("width"))
      return std::nullopt;
    return PixelConfig::Size{edge(*value, "height", "size"), edge(*value, "width", "size")};
  }
  void read_size(PixelConfig& c) const {
    const json* value = member(config_, "size");
    if (value == nullptr) fail("size", "is missing");
    if (value->is_object() && value->contains("longest_edge") && !value->contains("shortest_edge"))
      c.longest_edge = edge(*value, "longest_edge", "size");
    else if (value->is_object() && value->contains("shortest_edge"))
      c.shortest_edge = edge(*value, "shortest_edge", "size");
    else if (const auto both = size(value))
      c.fixed = *both;
    else
      fail("size", "is neither height and width nor an edge");
  }
  std::array<double, 3> numbers(const char* key) const {
    const json* value = member(config_, key);
    if (value == nullptr || !value->is_array() || value->size() != 3)
      fail(key, "is no list of three numbers");
    std::array<double, 3> all{};
    for (std::size_t i = 0; i < 3; ++i) {
      if (!(*value)[i].is_number()) fail(key, "is no list of three numbers");
      all[i] = (*value)[i].get<double>();
    }
    return all;
  }

  const json& config_;
  const std::string& file_;
};

ValueId normalised(ir::GraphBuilder& b, ValueId pixels, const PixelConfig& c) {
  const auto three = [&](const std::array<double, 3>& all) {
    const std::vector<float> values(all.begin(), all.end());
    return b.constant(ir::Tensor::of(DType::kFloat32, Ints{3}, values));
  };
  // One after the other, as the packages round them.
  ValueId x = b.add("Cast", {pixels}, {{"to", ir::Attr(DType::kFloat32)}});
  if (c.factor != 1) x = b.add("Mul", {x, b.scalar(DType::kFloat32, c.factor)});
  x = b.add("Sub", {x, three(c.mean)});
  x = b.add("Div", {x, three(c.deviation)});
  return b.add("Transpose", {x}, {{"perm", Ints{0, 3, 1, 2}}});
}

}  // namespace

PixelConfig::Size PixelConfig::piece() const {
  if (tile) return {*tile, *tile};
  if (crop) return *crop;
  return fixed.value_or(Size{});
}

bool is_pixel_config(const std::string& file) {
  const json config = read(file);
  return config.contains("image_mean") || config.contains("image_processor_type");
}

PixelConfig read_pixel_config(const std::string& file) {
  const json config = read(file);
  return ConfigReader(config, file).read();
}

std::pair<Shapes, Shapes> shapes_of_pixels(const std::string& file) {
  const auto [height, width] = read_pixel_config(file).piece();
  const auto of = [&](std::int64_t images) {
    return Shapes{{kPixels, {images, 3, height, width}}};
  };
  return {of(1), of(kMostImages)};
}

ir::Graph with_pixels(const ir::Graph& tower, const std::string& file) {
  const PixelConfig config = read_pixel_config(file);
  const auto [height, width] = config.piece();
  ir::GraphBuilder b(tower.name());
  for (const auto& [symbol, range] : tower.ranges()) b.range(symbol, range);
  std::vector<ValueId> inputs;
  ir::Dim images;
  for (const ValueId input : tower.inputs()) {
    const std::string& name = tower.value(input).name;
    const ir::TensorType& type = tower.type(input);
    const bool is_image = name == kPixels && is_float(type.dtype) && type.shape.size() == 4;
    if (!is_image)
      throw usage_error(
          "--features: the encoder takes '{}' {}, and one of images takes '{}' f32 "
          "[images, 3, height, width] alone",
          ir::shown(name), ir::to_string(type), kPixels);
    images = type.shape[0];
    const ir::Shape wanted = {images, 3, height, width};
    if (type.shape != wanted)
      throw usage_error("--features: the encoder takes '{}' {}, and '{}' makes {}", kPixels,
                        ir::to_string(type.shape), file, ir::to_string(wanted));
    const ValueId pixels = b.input("pixels", {DType::kUInt8, {images, height, width, 3}});
    const ir::GraphBuilder::OriginScope scope(b, {"pixels"});
    const ValueId x = normalised(b, pixels, config);
    inputs.push_back(
        type.dtype == DType::kFloat32 ? x : b.add("Cast", {x}, {{"to", ir::Attr(type.dtype)}}));
  }
  if (inputs.empty()) throw usage_error("--features: the encoder takes nothing");
  const auto outputs = ir::inline_graph(b, tower, inputs);
  for (std::size_t i = 0; i < outputs.size(); ++i) b.output(tower.output_names()[i], outputs[i]);
  return b.finish();
}

}  // namespace sinter::tools
