#include "tools/compiler/options/weights.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include <fmt/format.h>
#include <sinter/error.h>

namespace sinter::tools {
namespace {

[[noreturn]] void refuse(const std::string& text, const std::string& why) {
  throw Error(
      ErrorCode::kUsage,
      fmt::format("--weights {}: {}; write model, int8 or int4, the latter two perhaps with "
                  ":group=N (elements along k that share a scale, at least 8), :asymmetric "
                  "(zero points), :wide=E (calibrated layers of int4 that would be off by "
                  "more than E, a mean layer's measure, are int8; 0: none), :head (the last "
                  "layer in int4, too) and :embeddings (tables in int8, too), for example "
                  "int4:group=128",
                  text, why));
}

/// The number behind '=' in "name=number".
template <typename T>
T number_of(const std::string& text, const std::string& part) {
  const char *first = part.data() + part.find('=') + 1, *last = part.data() + part.size();
  T value{};
  const auto parsed = std::from_chars(first, last, value);
  if (parsed.ptr != last || parsed.ec != std::errc())
    refuse(text, fmt::format("'{}' is not a number", std::string(first, last)));
  return value;
}

std::vector<std::string> split(const std::string& text, char at) {
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

void add_weight_options(Command& verb, WeightTexts& texts) {
  verb.add_option("--weights", texts.weights,
                  "model (as they are), or those of products as int8 or int4, one scale for each "
                  "output channel; behind it :group=N (one for each N along k, such as "
                  "int4:group=128), :asymmetric (zero points), :embeddings (tables, too), :head "
                  "(the last layer in int4, too, which else has 8 bits), :wide=E")
      ->capture_default_str();
  verb.add_option("--keep", texts.keep,
                  "--weights leaves layers alone whose name has this text; may be repeated");
  verb.add_option("--calibration", texts.calibration,
                  "FILE.npz of samples of the model's inputs, on which --weights makes up for "
                  "rounding errors; may be repeated");
  verb.add_option("--max-layer-error", texts.max_layer_error,
                  "--weights leaves layers alone whose output would be off by more, relative to "
                  "its size (0: by any)");
}

fusion::WeightOptions parse_weights(const WeightTexts& texts) {
  fusion::WeightOptions options;
  const auto parts = split(texts.weights, ':');
  if (parts[0] == "int8")
    options.bits = 8;
  else if (parts[0] == "int4")
    options.bits = 4;
  else if (parts[0] != "model")
    refuse(texts.weights, fmt::format("'{}' is not known", parts[0]));
  else if (parts.size() > 1)
    refuse(texts.weights, "the model's own weights stay as they are");
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::string& part = parts[i];
    if (part == "asymmetric") {
      options.symmetric = false;
    } else if (part == "head") {
      options.last_as_others = true;
    } else if (part == "embeddings") {
      options.embeddings = true;
    } else if (part.starts_with("wide=")) {
      options.wide_error = number_of<double>(texts.weights, part);
      if (!(options.wide_error >= 0)) refuse(texts.weights, "an error is not below 0");
      if (options.wide_error == 0) options.wide_error = std::numeric_limits<double>::infinity();
    } else if (part.starts_with("group=")) {
      options.group = number_of<std::int64_t>(texts.weights, part);
      constexpr std::int64_t kLeast = 8;
      if (options.group < kLeast)
        refuse(texts.weights, fmt::format("groups of {} are too small", options.group));
    } else {
      refuse(texts.weights, fmt::format("'{}' is not known", part));
    }
  }
  if (texts.max_layer_error < 0)
    throw Error(ErrorCode::kUsage, "--max-layer-error is negative: write 0 for any error");
  if (options.bits == 0 &&
      (!texts.keep.empty() || !texts.calibration.empty() || texts.max_layer_error > 0))
    throw Error(ErrorCode::kUsage,
                "--keep, --calibration and --max-layer-error are about --weights int8 or int4, "
                "which is not given");
  options.keep = texts.keep;
  if (texts.max_layer_error > 0) options.max_error = texts.max_layer_error;
  return options;
}

double bytes_without_rounding(const std::vector<fusion::QuantisedLayer>& layers,
                              fusion::Precision precision, const std::set<DType>& quantised_matmul,
                              double plan_bytes) {
  double bytes = plan_bytes;
  for (const auto& layer : layers) {
    if (!layer.kept.empty()) continue;
    const double elements = static_cast<double>(layer.n) * static_cast<double>(layer.k);
    DType type = layer.bytes_before > 2 * elements ? DType::kFloat32 : DType::kFloat16;
    if (precision == fusion::Precision::kFloat16) type = DType::kFloat16;
    if (precision == fusion::Precision::kBFloat16) type = DType::kBFloat16;
    // Else the plan has floats again.
    if (quantised_matmul.contains(type))
      bytes += elements * static_cast<double>(size_of(type)) - layer.bytes_after;
  }
  return bytes;
}

namespace {

/// What was asked for in vain.
void note_idle(const std::vector<fusion::QuantisedLayer>& layers, const WeightTexts& texts,
               const Console& console) {
  if (texts.weights != "model" && layers.empty())
    console.note(fmt::format(
        "--weights {}: the model has no product of an activation and constant float weights",
        texts.weights));
  for (const std::string& text : texts.keep)
    if (std::none_of(layers.begin(), layers.end(),
                     [&](const auto& layer) { return layer.name.find(text) != std::string::npos; }))
      console.note(fmt::format("--keep {}: no layer's name has this text", text));
}

}  // namespace

void print_layers(const std::vector<fusion::QuantisedLayer>& layers, double before_rounding,
                  double plan_bytes, const WeightTexts& texts, const Console& console) {
  note_idle(layers, texts, console);
  if (layers.empty()) return;
  std::vector<std::vector<std::string>> rows{
      {"layer", "n", "k", "bits", "weight error", "output error", "before", "after", ""}};
  double before = 0, after = 0;
  std::size_t kept = 0;
  for (const auto& layer : layers) {
    before += layer.bytes_before;
    after += layer.bytes_after;
    kept += !layer.kept.empty();
    // Layers that are kept by their name have not been tried.
    const auto error = [untried = layer.bits == 0 && layer.output_error == 0](double value) {
      return untried ? std::string() : fmt::format("{:.2e}", value);
    };
    rows.push_back({layer.name, fmt::format("{}", layer.n), fmt::format("{}", layer.k),
                    layer.bits == 0 ? "" : fmt::format("{}", layer.bits), error(layer.weight_error),
                    error(layer.output_error), format_bytes(layer.bytes_before),
                    format_bytes(layer.bytes_after),
                    !layer.kept.empty()    ? "kept: " + layer.kept
                    : !layer.wider.empty() ? "wider: " + layer.wider
                                           : ""});
  }
  console.print(format_table(rows));
  console.print(fmt::format(
      "{} of {} layers quantised: their weights {} -> {}, the plan {} -> {}; errors are relative, "
      "in the 2-norm, outputs on {}",
      layers.size() - kept, layers.size(), format_bytes(before), format_bytes(after),
      format_bytes(before_rounding), format_bytes(plan_bytes),
      texts.calibration.empty() ? "normal deviates" : "the samples of --calibration"));
  const bool narrow =
      std::any_of(layers.begin(), layers.end(), [](const auto& layer) { return layer.bits == 4; });
  if (texts.calibration.empty() && narrow)
    console.note(
        "4-bit weights are rounded to the nearest: --calibration FILE.npz, samples of what the "
        "model reads, lets their errors be made up for");
}

nlohmann::ordered_json layers_to_json(const std::vector<fusion::QuantisedLayer>& layers) {
  nlohmann::ordered_json result = nlohmann::ordered_json::array();
  for (const auto& layer : layers)
    result.push_back({{"layer", layer.name},
                      {"n", layer.n},
                      {"k", layer.k},
                      {"bits", layer.bits},
                      {"weight_error", layer.weight_error},
                      {"output_error", layer.output_error},
                      {"bytes_before", layer.bytes_before},
                      {"bytes_after", layer.bytes_after},
                      {"wider", layer.wider},
                      {"kept", layer.kept}});
  return result;
}

}  // namespace sinter::tools
