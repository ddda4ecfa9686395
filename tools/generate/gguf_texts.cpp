// SPDX-License-Identifier: Apache-2.0
#include "tools/generate/gguf_texts.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <vector>

#include "runtime/files/output_file.h"
#include "tools/tokenizer/gguf_tokenizer.h"

namespace sinter::tools {
namespace {

using Ordered = nlohmann::ordered_json;

// Tokens that end a turn of a conversation, whatever the metadata call the end of a text.
constexpr std::array<std::string_view, 9> kEndsOfTurns = {
    "<|im_end|>",    "<|eot_id|>", "<|eom_id|>",      "<end_of_turn>", "<|end|>",
    "<|endoftext|>", "<|eot|>",    "<|end_of_text|>", "<turn|>"};
constexpr std::int64_t kControl = 3;

Ordered ends_of(const frontend::GgufFile& file) {
  std::vector<std::int64_t> ends;
  const auto add = [&](std::int64_t id) {
    if (std::ranges::find(ends, id) == ends.end()) ends.push_back(id);
  };
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                          "tokenizer.ggml.eom_token_id"})
    if (const auto id = file.integer(key); id && *id >= 0) add(*id);
  const auto tokens = file.texts("tokenizer.ggml.tokens");
  const auto types = file.integers("tokenizer.ggml.token_type");
  if (tokens && types && tokens->size() == types->size())
    for (std::size_t id = 0; id < tokens->size(); ++id)
      if ((*types)[id] == kControl &&
          std::ranges::find(kEndsOfTurns, (*tokens)[id]) != kEndsOfTurns.end())
        add(static_cast<std::int64_t>(id));
  return ends;
}

Ordered draws_of(const frontend::GgufFile& file) {
  Ordered draws = Ordered::object();
  constexpr std::pair<const char*, const char*> kNumbers[] = {
      {"temp", "temperature"},
      {"top_p", "top_p"},
      {"min_p", "min_p"},
      {"typ_p", "typical_p"},
      {"penalty_repeat", "repetition_penalty"}};
  for (const auto& [key, name] : kNumbers)
    if (const auto value = file.number(std::string("general.sampling.") + key))
      draws[name] = *value;
  if (const auto value = file.integer("general.sampling.top_k")) draws["top_k"] = *value;
  if (!draws.empty()) draws["do_sample"] = draws.value("temperature", 1.0) > 0;
  return draws;
}

Ordered config_of(const frontend::GgufFile& file) {
  Ordered config = Ordered::object();
  if (const auto text = file.text("tokenizer.chat_template")) config["chat_template"] = *text;
  const auto tokens = file.texts("tokenizer.ggml.tokens");
  for (const std::string name : {"bos", "eos"}) {
    const auto id = file.integer("tokenizer.ggml." + name + "_token_id");
    if (id && tokens && *id >= 0 && *id < std::ssize(*tokens))
      config[name + "_token"] = (*tokens)[static_cast<std::size_t>(*id)];
  }
  return config;
}

}  // namespace

void write_texts_of(const frontend::GgufFile& file, const std::string& folder) {
  const auto write = [&](const char* name, const Ordered& json) {
    files::write_file(folder + "/" + name,
                      json.dump(-1, ' ', false, Ordered::error_handler_t::replace) + "\n",
                      {.what = name, .is_durable = false});
  };
  write("tokenizer.json", tokenizer_of(file));
  write("tokenizer_config.json", config_of(file));
  Ordered generation = draws_of(file);
  if (Ordered ends = ends_of(file); !ends.empty()) generation["eos_token_id"] = std::move(ends);
  write("generation_config.json", generation);
}

}  // namespace sinter::tools
