// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/options/weights.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "runtime/format_error.h"
#include "tools/compiler/options/eight_bit.h"

namespace sinter::tools {
namespace {

constexpr std::int64_t kNvGroup = 16, kMxGroup = 32;  // group sizes of NVFP4 and MXFP4

[[noreturn]] void refuse(const std::string& text, const std::string& why) {
  throw usage_error(
      "weights '{}': {}; write model, nvfp4, mxfp4, int8 or int4, the latter two perhaps with "
      ":group=N (elements "
      "along k that share a scale, at least 8), :asymmetric (zero points), :wide=E (calibrated "
      "layers of int4 that would be off by more than E, a mean layer's measure, are int8; 0: "
      "none), :head (the last layer in int4, too) and :embeddings (tables in int8, too), for "
      "example int4:group=128",
      text, why);
}

/// The number after '=' in "name=number".
template <typename T>
T number_of(const std::string& text, const std::string& part) {
  const char *first = part.data() + part.find('=') + 1, *last = part.data() + part.size();
  T value{};
  const auto parsed = std::from_chars(first, last, value);
  if (parsed.ptr != last || parsed.ec != std::errc())
    refuse(text, fmt::format("'{}' is not a number", std::string(first, last)));
  return value;
}

std::vector<std::string> split_at(const std::string& text, char at) {
  std::vector<std::string> parts{""};
  for (const char c : text) {
    if (c == at)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

}  // namespace

fusion::WeightOptions to_fusion(const WeightOptions& weights, bool has_eight_bit,
                                bool has_narrow_caches, bool has_sixteen_bits) {
  if (weights.bits != 0 && weights.bits != 4 && weights.bits != 8)
    throw usage_error("weights of {} bits: they can have 8, 4, or what the model gives them (0)",
                      weights.bits);
  if (weights.floats && !weights.symmetric)
    throw usage_error("floats as weights have no zero points");
  if (weights.floats && weights.bits == 4 && weights.group != kNvGroup && weights.group != kMxGroup)
    throw usage_error("floats of 4 bits as weights have groups of {} or {}", kNvGroup, kMxGroup);
  if (weights.max_layer_error < 0)
    throw usage_error("--max-layer-error is negative: write 0 for any error");
  const bool is_calibrated = !weights.calibration.empty() || !weights.calibration_files.empty();
  const bool is_unread =
      !has_sixteen_bits && (!weights.keep.empty() || (is_calibrated && !has_narrow_caches));
  if (weights.bits == 0 && !has_eight_bit && (is_unread || weights.max_layer_error > 0))
    throw usage_error(
        "--keep, --calibration and --max-layer-error are about --weights int8 or int4, or "
        "--precision int8 or fp8, or --attention-precision fp8 (--keep and --calibration about "
        "--precision fp16 and bf16, --calibration about --cache-precision, too), of which none "
        "is given");
  fusion::WeightOptions result;
  result.bits = weights.bits;
  result.floats = weights.floats;
  result.group = weights.group;
  result.symmetric = weights.symmetric;
  result.embeddings = weights.embeddings;
  result.last_as_others = weights.last_as_others;
  result.wide_error =
      weights.wide_error == 0 ? std::numeric_limits<double>::infinity() : weights.wide_error;
  result.keep = weights.keep;
  if (weights.max_layer_error > 0) result.max_error = weights.max_layer_error;
  return result;
}

std::string to_text(const WeightOptions& weights) {
  if (weights.bits == 0) return "model";
  const bool is_float4 = weights.floats && weights.bits == 4;
  std::string text = is_float4        ? weights.group == kMxGroup ? "mxfp4" : "nvfp4"
                     : weights.floats ? "fp8"
                                      : fmt::format("int{}", weights.bits);
  if (weights.group != 0 && !is_float4) text += fmt::format(":group={}", weights.group);
  if (!weights.symmetric) text += ":asymmetric";
  if (weights.embeddings) text += ":embeddings";
  if (weights.last_as_others) text += ":head";
  if (weights.wide_error != WeightOptions{}.wide_error)
    text += fmt::format(":wide={}", weights.wide_error);
  return text;
}

double bytes_without_rounding(const std::vector<fusion::QuantizedLayer>& layers,
                              fusion::Precision precision, const ir::TargetTraits& target,
                              double plan_bytes) {
  double bytes = plan_bytes;
  for (const auto& layer : layers) {
    if (!layer.kept.empty() || layer.bytes_before == 0) continue;  // attention has no weights
    const double elements = static_cast<double>(layer.n) * static_cast<double>(layer.k);
    DType type = layer.bytes_before > 2 * elements ? DType::kFloat32 : DType::kFloat16;
    if (precision == fusion::Precision::kFloat16) type = DType::kFloat16;
    if (precision == fusion::Precision::kBFloat16) type = DType::kBFloat16;
    // Otherwise the plan stores floats.
    if (!layer.type.empty() || target.first_of("MatMul", true, type) != nullptr)
      bytes += elements * static_cast<double>(size_of(type)) - layer.bytes_after;
  }
  return bytes;
}

void note_idle(const std::vector<fusion::QuantizedLayer>& layers, const CompileOptions& options,
               Reporter& reporter) {
  const WeightOptions& weights = options.weights;
  const bool is_eight_bit = has_eight_bit(options.precision);
  if ((weights.bits != 0 || is_eight_bit) && layers.empty())
    reporter.warn(
        "weights",
        fmt::format("{}: the model has no product of an activation and constant float weights",
                    is_eight_bit ? fmt::format("--precision {}", to_string(options.precision))
                                 : fmt::format("--weights {}", to_text(weights))));
  for (const std::string& text : options.eight_bit.include)
    if (std::ranges::none_of(
            layers, [&](const auto& layer) { return layer.name.find(text) != std::string::npos; }))
      reporter.warn("weights", fmt::format("--include {}: no layer's name has this text", text));
  const bool are_layers = weights.bits != 0 || is_eight_bit || !layers.empty();
  for (const std::string& text : weights.keep)
    if (are_layers && std::ranges::none_of(layers, [&](const auto& layer) {
          return layer.name.find(text) != std::string::npos;
        }))
      reporter.warn("weights", fmt::format("--keep {}: no layer's name has this text", text));
  const bool is_calibrated = !weights.calibration.empty() || !weights.calibration_files.empty();
  const bool narrow =
      std::ranges::any_of(layers, [](const auto& layer) { return layer.bits == 4; });
  if (!is_calibrated && narrow)
    reporter.note("weights",
                  "4-bit weights are rounded to the nearest: --calibration FILE.npz, samples of "
                  "what the model reads, lets their errors be made up for");
}

LayerResult layer_result(const fusion::QuantizedLayer& layer) {
  return {layer.name,
          layer.n,
          layer.k,
          layer.bits,
          layer.type,
          layer.weight_error,
          layer.output_error,
          layer.bytes_before,
          layer.bytes_after,
          layer.wider,
          layer.kept};
}

}  // namespace sinter::tools

namespace sinter {

WeightOptions parse_weights(std::string_view given) {
  const std::string text(given);
  WeightOptions options;
  const auto parts = tools::split_at(text, ':');
  const bool is_float4 = parts[0] == "nvfp4" || parts[0] == "mxfp4";
  options.floats = parts[0] == "fp8" || is_float4;
  if (is_float4) {
    options.bits = 4;
    options.group = parts[0] == "mxfp4" ? tools::kMxGroup : tools::kNvGroup;
  } else if (parts[0] == "int8" || options.floats)
    options.bits = 8;
  else if (parts[0] == "int4")
    options.bits = 4;
  else if (parts[0] != "model")
    tools::refuse(text, fmt::format("'{}' is not known", parts[0]));
  else if (parts.size() > 1)
    tools::refuse(text, "the model's own weights stay as they are");
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::string& part = parts[i];
    if (part == "asymmetric" && options.floats) {
      tools::refuse(text, "floats have no zero points");
    } else if (part == "asymmetric") {
      options.symmetric = false;
    } else if (part == "head") {
      options.last_as_others = true;
    } else if (part == "embeddings") {
      options.embeddings = true;
    } else if (part.starts_with("wide=")) {
      options.wide_error = tools::number_of<double>(text, part);
      if (!(options.wide_error >= 0)) tools::refuse(text, "an error is not below 0");
    } else if (part.starts_with("group=") && is_float4) {
      tools::refuse(text, "the format says its groups");
    } else if (part.starts_with("group=")) {
      options.group = tools::number_of<std::int64_t>(text, part);
      constexpr std::int64_t kLeast = 8;
      if (options.group < kLeast)
        tools::refuse(text, fmt::format("groups of {} are too small", options.group));
    } else {
      tools::refuse(text, fmt::format("'{}' is not known", part));
    }
  }
  return options;
}

}  // namespace sinter
