// SPDX-License-Identifier: Apache-2.0
#include "tools/serve/openai/logprobs.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "runtime/engine/utf8.h"

namespace sinter::tools {
namespace {

using nlohmann::ordered_json;

/// JSON has no infinity: a token that cannot come has this, as OpenAI's API writes it.
double finite(float logprob) { return std::isfinite(logprob) ? logprob : -9999.0; }

std::size_t characters_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

/// The likeliest tokens, and the one that was drawn where it is none of them.
auto told_of(const TokenLogprobs& one, TokenId drawn) {
  auto all = one.likeliest;
  const auto is_drawn = [&](const auto& each) { return each.first == drawn; };
  if (std::ranges::none_of(all, is_drawn)) all.emplace_back(drawn, one.logprob);
  return all;
}

}  // namespace

std::string token_name(const ServedModel& model, TokenId id) {
  if (model.tokenizer() == nullptr) return std::to_string(id);
  std::string bytes(model.tokenizer()->bytes_of(id));
  if (bytes.empty()) {
    const std::int64_t wide = id;
    return model.tokenizer()->decode({&wide, 1}, false);
  }
  if (engine::repaired_utf8(bytes) == bytes) return bytes;
  std::string name = "bytes:";
  for (const char c : bytes) name += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return name;
}

LogprobWriter::LogprobWriter(const ServedModel& model) : model_(model), text_(model.new_text()) {}

ordered_json LogprobWriter::entry(TokenId id, float logprob) const {
  ordered_json bytes = ordered_json::array();
  for (const char c : model_.tokenizer()->bytes_of(id))
    bytes.push_back(static_cast<unsigned char>(c));
  return {
      {"token", token_name(model_, id)}, {"logprob", finite(logprob)}, {"bytes", std::move(bytes)}};
}

ordered_json LogprobWriter::of_message(const GenerationOutput& output) const {
  ordered_json content = ordered_json::array();
  for (std::size_t i = 0; i < output.logprobs.size(); ++i) {
    const TokenLogprobs& told = output.logprobs[i];
    ordered_json one = entry(output.tokens[i], told.logprob);
    one["top_logprobs"] = ordered_json::array();
    if (!told.likeliest.empty())
      for (const auto& [id, logprob] : told_of(told, output.tokens[i]))
        one["top_logprobs"].push_back(entry(id, logprob));
    content.push_back(std::move(one));
  }
  return {{"content", std::move(content)}};
}

ordered_json LogprobWriter::of_text(const GenerationOutput& output) {
  ordered_json result = {{"tokens", ordered_json::array()},
                         {"token_logprobs", ordered_json::array()},
                         {"top_logprobs", ordered_json::array()},
                         {"text_offset", ordered_json::array()}};
  for (std::size_t i = 0; i < output.logprobs.size(); ++i) {
    const TokenLogprobs& one = output.logprobs[i];
    const TokenId token = output.tokens[i];
    result["tokens"].push_back(token_name(model_, token));
    result["token_logprobs"].push_back(finite(one.logprob));
    ordered_json likeliest = ordered_json::object();
    for (const auto& [id, logprob] : told_of(one, token)) {
      // Several tokens may be spelled alike.
      const std::string name = token_name(model_, id);
      const bool is_taken = likeliest.contains(name);
      likeliest[is_taken ? fmt::format("token_id:{}", id) : name] = finite(logprob);
    }
    result["top_logprobs"].push_back(std::move(likeliest));
    result["text_offset"].push_back(offset_);
    if (text_ != nullptr) offset_ += characters_of(text_->add(token));
  }
  return result;
}

}  // namespace sinter::tools
