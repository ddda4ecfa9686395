// SPDX-License-Identifier: Apache-2.0
#include "tools/generate/generation_config.h"

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "runtime/files/input_file.h"
#include "runtime/format_error.h"
#include "tools/json/read_json.h"

namespace sinter::tools {
namespace {

using nlohmann::json;

/// Null if it is not there, or null.
const json* member(const json& config, const char* name) {
  const auto found = config.find(name);
  return found == config.end() || found->is_null() ? nullptr : &*found;
}

std::optional<double> read(const json& config, const SamplingRow& row) {
  const json* value = member(config, row.name);
  if (value == nullptr) return std::nullopt;
  const bool is_number = row.is_whole ? value->is_number_integer() : value->is_number();
  if (!is_number || !(value->get<double>() >= row.clients_least) ||
      !(value->get<double>() <= row.clients_most))
    throw usage_error("'{}' is {}: expected a {}number from {} to {}", row.name, value->dump(),
                      row.is_whole ? "whole " : "", row.clients_least, row.clients_most);
  return value->get<double>();
}

void read(const json& config, const char* name, std::int64_t least,
          std::optional<std::int64_t>& to) {
  const json* value = member(config, name);
  if (value == nullptr) return;
  if (!value->is_number_integer() || value->get<std::int64_t>() < least)
    throw usage_error("'{}' is {}: expected a whole number from {} on", name, value->dump(), least);
  to = value->get<std::int64_t>();
}

}  // namespace

GenerationConfig GenerationConfig::parse(const std::string& text) {
  const json config = read_json(text, "it");
  if (!config.is_object()) throw usage_error("it is no JSON object");
  GenerationConfig result;
  if (const json* draws = member(config, "do_sample")) {
    if (!draws->is_boolean()) throw usage_error("'do_sample' is neither true nor false");
    result.do_sample = draws->get<bool>();
  }
  for (const SamplingRow& row : sampling_rows())
    if (const auto value = row.in_config ? read(config, row) : std::nullopt)
      result.draws.emplace_back(&row, *value);
  read(config, "max_new_tokens", 1, result.max_new_tokens);
  read(config, "decoder_start_token_id", 0, result.decoder_start_token);
  if (const json* stops = member(config, "eos_token_id")) {
    const auto add = [&](const json& id) {
      if (!id.is_number_integer() || id < 0 || id > INT32_MAX)
        throw usage_error("'eos_token_id' has {}, which is no token id", id.dump());
      result.stop_tokens.push_back(id.get<TokenId>());
    };
    if (stops->is_array())
      for (const json& id : *stops) add(id);
    else
      add(*stops);
  }
  return result;
}

GenerationConfig GenerationConfig::beside(const std::string& file) {
  if (file.empty()) return {};
  const auto path = std::filesystem::path(file).replace_filename("generation_config.json");
  std::error_code none;
  if (!std::filesystem::is_regular_file(path, none)) return {};
  return with_context(path.string() + " (--no-generation-config does without it)",
                      [&] { return parse(files::read_file(path.string())); });
}

void GenerationConfig::apply(SamplingParameters& sampling) const {
  for (const auto& [row, value] : draws)
    if (row->takes(value)) row->set(sampling, value);
}

}  // namespace sinter::tools
