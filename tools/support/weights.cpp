#include "tools/support/weights.h"

#include <charconv>

#include <fmt/format.h>
#include <sinter/error.h>

namespace sinter::tools {
namespace {

[[noreturn]] void refuse(const std::string& text) {
  throw Error(ErrorCode::kUsage,
              fmt::format("--weights {}: write model, int8 or int4, the latter two perhaps with "
                          ":group=N (elements along k that share a scale, at least 8), :asymmetric "
                          "(zero points) and :embeddings (tables in int8, too), for example "
                          "int4:group=128",
                          text));
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
                  "model (as they are), or products' weights as int8 or int4: "
                  "int4:group=128:asymmetric:embeddings")
      ->capture_default_str();
  verb.add_option("--keep", texts.keep,
                  "--weights leaves layers alone whose name has this text; may be repeated");
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
  else if (parts[0] != "model" || parts.size() > 1)
    refuse(texts.weights);
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::string& part = parts[i];
    constexpr std::string_view kGroup = "group=";
    if (part == "asymmetric") {
      options.symmetric = false;
    } else if (part == "embeddings") {
      options.embeddings = true;
    } else if (part.starts_with(kGroup)) {
      const char *first = part.data() + kGroup.size(), *last = part.data() + part.size();
      const auto parsed = std::from_chars(first, last, options.group);
      constexpr std::int64_t kLeast = 8;
      if (parsed.ptr != last || parsed.ec != std::errc() || options.group < kLeast)
        refuse(texts.weights);
    } else {
      refuse(texts.weights);
    }
  }
  if (texts.max_layer_error < 0)
    throw Error(ErrorCode::kUsage, "--max-layer-error is negative: write 0 for any error");
  if (options.bits == 0 && (!texts.keep.empty() || texts.max_layer_error > 0))
    throw Error(
        ErrorCode::kUsage,
        "--keep and --max-layer-error are about --weights int8 or int4, which is not given");
  options.keep = texts.keep;
  if (texts.max_layer_error > 0) options.max_error = texts.max_layer_error;
  return options;
}

void print_layers(const std::vector<fusion::QuantisedLayer>& layers, double plan_bytes,
                  const Console& console) {
  if (layers.empty()) return;
  std::vector<std::vector<std::string>> rows{
      {"layer", "n", "k", "weight error", "output error", "before", "after", ""}};
  double before = 0, after = 0;
  std::size_t kept = 0;
  for (const auto& layer : layers) {
    before += layer.bytes_before;
    after += layer.bytes_after;
    kept += !layer.kept.empty();
    rows.push_back({layer.name, fmt::format("{}", layer.n), fmt::format("{}", layer.k),
                    fmt::format("{:.2e}", layer.weight_error),
                    fmt::format("{:.2e}", layer.output_error), format_bytes(layer.bytes_before),
                    format_bytes(layer.bytes_after),
                    layer.kept.empty() ? "" : "kept: " + layer.kept});
  }
  console.print(format_table(rows));
  console.print(
      fmt::format("{} layers quantised, {} kept: their weights {} -> {}, the plan {} -> {}; errors "
                  "are relative, "
                  "in the 2-norm, outputs on normal deviates",
                  layers.size() - kept, kept, format_bytes(before), format_bytes(after),
                  format_bytes(plan_bytes + before - after), format_bytes(plan_bytes)));
}

nlohmann::ordered_json layers_to_json(const std::vector<fusion::QuantisedLayer>& layers) {
  nlohmann::ordered_json result = nlohmann::ordered_json::array();
  for (const auto& layer : layers)
    result.push_back({{"layer", layer.name},
                      {"n", layer.n},
                      {"k", layer.k},
                      {"weight_error", layer.weight_error},
                      {"output_error", layer.output_error},
                      {"bytes_before", layer.bytes_before},
                      {"bytes_after", layer.bytes_after},
                      {"kept", layer.kept}});
  return result;
}

}  // namespace sinter::tools
