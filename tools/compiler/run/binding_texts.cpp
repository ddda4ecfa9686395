// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/run/binding_texts.h"

#include <bit>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include <fmt/format.h>

#include "runtime/format_error.h"
#include "tools/json/read_json.h"

namespace sinter::tools {
namespace {

using Text = frontend::BindingText;

constexpr std::pair<Text::Code, std::string_view> kCodes[] = {{Text::Code::kLabels, "labels"},
                                                              {Text::Code::kMurmur3, "murmur3"},
                                                              {Text::Code::kColumns, "columns"}};

nlohmann::ordered_json to_json(const std::map<std::string, Text>& texts) {
  nlohmann::ordered_json result = nlohmann::ordered_json::object();
  for (const auto& [name, text] : texts) {
    auto& one = result[name];
    for (const auto& [code, called] : kCodes)
      if (code == text.code) one["code"] = called;
    if (text.code == Text::Code::kMurmur3)
      one["seed"] = text.hash_seed;
    else
      one["labels"] = text.labels;
  }
  return result;
}

std::map<std::string, Text> from_json(const nlohmann::json& all) {
  std::map<std::string, Text> result;
  for (const auto& [name, one] : all.items()) {
    Text text;
    const auto code = one.at("code").get<std::string>();
    bool is_known = false;
    for (const auto& [value, called] : kCodes)
      if (called == code) text.code = value, is_known = true;
    if (!is_known)
      throw invalid_plan_error("strings of '{}' have the unknown code '{}'", name, code);
    if (text.code == Text::Code::kMurmur3)
      text.hash_seed = one.at("seed").get<std::uint32_t>();
    else
      text.labels = one.at("labels").get<std::vector<std::string>>();
    result.emplace(name, std::move(text));
  }
  return result;
}

/// MurmurHash3_x86_32 (Austin Appleby), for little-endian machines.
std::uint32_t murmur3(std::string_view text, std::uint32_t seed) {
  constexpr std::uint32_t kFirst = 0xcc9e2d51, kSecond = 0x1b873593;
  const auto mixed = [](std::uint32_t k) { return std::rotl(k * kFirst, 15) * kSecond; };
  std::uint32_t hash = seed;
  std::size_t at = 0;
  for (; at + 4 <= text.size(); at += 4) {
    std::uint32_t block = 0;
    std::memcpy(&block, text.data() + at, 4);
    hash = std::rotl(hash ^ mixed(block), 13) * 5 + 0xe6546b64;
  }
  std::uint32_t rest = 0;
  for (std::size_t i = text.size(); i-- > at;)
    rest = rest << 8 | static_cast<unsigned char>(text[i]);
  hash ^= mixed(rest);
  hash ^= static_cast<std::uint32_t>(text.size());
  hash = (hash ^ hash >> 16) * 0x85ebca6b;
  hash = (hash ^ hash >> 13) * 0xc2b2ae35;
  return hash ^ hash >> 16;
}

}  // namespace

std::string to_text(const BindingTexts& texts) {
  // Names and labels may be no UTF-8: these bytes are replaced.
  return nlohmann::ordered_json{{"inputs", to_json(texts.inputs)},
                                {"outputs", to_json(texts.outputs)}}
      .dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

BindingTexts texts_of(const Plan& plan) {
  for (const auto& [key, value] : plan.options())
    if (key == kTextsKey) try {
        const nlohmann::json all = read_json(value, "the plan's strings", kModelFileLimits);
        return {from_json(all.at("inputs")), from_json(all.at("outputs"))};
      } catch (const nlohmann::json::exception& error) {
        throw invalid_plan_error("the plan's strings are malformed: {}", error.what());
      }
  return {};
}

TextTargets text_targets(const Plan& plan) {
  const auto texts = std::make_shared<const BindingTexts>(texts_of(plan));
  if (texts->inputs.empty()) return {};
  return [texts, inputs = plan.inputs()](const std::string& name) -> std::optional<TextTarget> {
    const auto found = texts->inputs.find(name);
    if (found == texts->inputs.end()) return std::nullopt;
    const Text& text = found->second;
    DType dtype = DType::kInt64;
    for (const BindingInfo& input : inputs)
      if (input.name == name) dtype = input.dtype;
    if (text.code == Text::Code::kMurmur3)
      return TextTarget{dtype, [seed = text.hash_seed, dtype](std::string_view string) {
                          const std::uint32_t hash = murmur3(string, seed);
                          return dtype == DType::kUInt32
                                     ? static_cast<std::int64_t>(hash)
                                     : static_cast<std::int64_t>(static_cast<std::int32_t>(hash));
                        }};
    auto places = std::make_shared<std::unordered_map<std::string_view, std::int64_t>>();
    for (std::size_t i = 0; i < text.labels.size(); ++i)
      places->emplace(text.labels[i], static_cast<std::int64_t>(i));
    return TextTarget{dtype, [texts, places](std::string_view string) {
                        const auto at = places->find(string);
                        return at == places->end() ? -1 : at->second;
                      }};
  };
}

std::string shown_element(const ir::Tensor& tensor, std::int64_t element,
                          const frontend::BindingText* text) {
  const std::string number = fmt::format("{:.6g}", tensor.at(element));
  if (text == nullptr || text->labels.empty()) return number;
  const auto count = static_cast<std::int64_t>(text->labels.size());
  if (text->code == Text::Code::kLabels) {
    const std::int64_t i = tensor.at_int(element);
    return i >= 0 && i < count ? text->labels[static_cast<std::size_t>(i)] : number;
  }
  const std::int64_t column =
      tensor.shape().empty() || tensor.shape().back() == 0 ? 0 : element % tensor.shape().back();
  return column < count
             ? fmt::format("{}={}", text->labels[static_cast<std::size_t>(column)], number)
             : number;
}

}  // namespace sinter::tools
