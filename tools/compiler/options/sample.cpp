// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/options/sample.h"

#include <charconv>
#include <cmath>

#include "runtime/format_error.h"
#include "runtime/plan_access.h"

namespace sinter::tools {
namespace {

[[noreturn]] void refuse(std::string_view part, std::string_view why) {
  throw usage_error(
      "sample: '{}' {}; write greedy, or some of temperature=T, top_k=K and "
      "top_p=P divided by commas, for example top_k=40,temperature=0.7",
      part, why);
}

template <typename T>
T number(std::string_view part, std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) refuse(part, "is not a number");
  return value;
}

}  // namespace

fusion::SamplerOptions to_fusion(const SampleOptions& sample) {
  return {sample.temperature, sample.top_k,    sample.top_p,      sample.ids,
          sample.logits,      sample.position, sample.keep_logits};
}

std::string to_text(const SampleOptions& options) {
  if (options.is_greedy()) return "greedy";
  std::string text;
  if (options.top_k > 0) text += fmt::format("top_k={},", options.top_k);
  if (options.top_p < 1) text += fmt::format("top_p={},", options.top_p);
  return text + fmt::format("temperature={}", options.temperature);
}

std::optional<SampleOptions> sampler_of(const Plan& plan) {
  const auto& manifest = PlanAccess::data(plan)->meta.manifest;
  if (!manifest) return std::nullopt;
  for (const auto& option : manifest->options)
    if (option->key == kSampleKey) return parse_sample(option->value);
  return std::nullopt;
}

}  // namespace sinter::tools

namespace sinter {

SampleOptions parse_sample(std::string_view text) {
  SampleOptions options;
  bool greedy = false, draws = false;
  options.temperature = 1;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find(',', start), text.size());
    const std::string_view part = text.substr(start, end - start);
    start = end + 1;
    const std::size_t equals = part.find('=');
    const std::string_view key = part.substr(0, equals);
    const std::string_view value =
        equals == std::string_view::npos ? std::string_view() : part.substr(equals + 1);
    if (part == "greedy") {
      greedy = true;
    } else if (part == "keep_logits") {
      options.keep_logits = true;
    } else if (value.empty()) {
      tools::refuse(part, "is not known");
    } else if (key == "temperature") {
      options.temperature = tools::number<double>(part, value);
      if (!(options.temperature > 0) || std::isinf(options.temperature))
        tools::refuse(part, "is not a number above 0 (the limit of 0 is greedy)");
      draws = true;
    } else if (key == "top_k") {
      options.top_k = tools::number<std::int64_t>(part, value);
      if (options.top_k < 1) tools::refuse(part, "is less than 1");
      draws = true;
    } else if (key == "top_p") {
      options.top_p = tools::number<double>(part, value);
      if (!(options.top_p > 0 && options.top_p <= 1)) tools::refuse(part, "is not in (0, 1]");
      draws = true;
    } else if (key == "ids") {
      options.ids = value;
    } else if (key == "position") {
      options.position = {std::string(value)};
    } else if (key == "logits") {
      options.logits = value;
    } else {
      tools::refuse(part, "is not known");
    }
  }
  if (greedy && draws) tools::refuse(text, "asks for the most likely token and for a draw");
  if (!greedy && !draws) tools::refuse(text, "does not say how tokens are chosen");
  if (greedy) options.temperature = 0;
  return options;
}

}  // namespace sinter
