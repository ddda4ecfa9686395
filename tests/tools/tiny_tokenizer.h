// SPDX-License-Identifier: Apache-2.0
// A tokenizer that tests can read, of models/tiny/decoder.onnx.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace sinter::tests {

/// A byte-level tokenizer of the tiny decoder's 96 tokens: ASCII's printable characters, and an
/// end.
inline nlohmann::json tiny_tokenizer() {
  using nlohmann::json;
  json vocabulary;
  for (char c = '!'; c <= '~'; ++c) vocabulary[std::string(1, c)] = c - '!';
  vocabulary["\u0120"] = 94;  // the space
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens",
           {{{"id", 95},
             {"content", "</s>"},
             {"single_word", false},
             {"lstrip", false},
             {"rstrip", false},
             {"normalized", false},
             {"special", true}}}},
          {"normalizer", nullptr},
          {"pre_tokenizer",
           {{"type", "ByteLevel"},
            {"add_prefix_space", false},
            {"trim_offsets", true},
            {"use_regex", true}}},
          {"post_processor", nullptr},
          {"decoder",
           {{"type", "ByteLevel"},
            {"add_prefix_space", true},
            {"trim_offsets", true},
            {"use_regex", true}}},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"vocab", vocabulary},
            {"merges", json::array()}}}};
}

}  // namespace sinter::tests
