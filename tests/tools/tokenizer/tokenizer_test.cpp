// Tokenizers against Hugging Face's library (goldens/make_tokenizers.py).
#include "tools/tokenizer/tokenizer.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include <gmock/gmock.h>
#include <sinter/error.h>

#include "tests/support/paths.h"
#include "tools/tokenizer/byte_pairs.h"

namespace sinter::tests {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using tools::Tokenizer;

const json& goldens() {
  static const json cases = [] {
    std::ifstream file(source_dir() + "/tests/tools/goldens/tokenizers.json");
    return json::parse(file);
  }();
  return cases;
}

class TokenizerGolden : public testing::TestWithParam<std::size_t> {};

TEST_P(TokenizerGolden, GivesTheSameIdsAndText) {
  const json& golden = goldens().at(GetParam());
  const auto tokenizer = Tokenizer::parse(golden.at("tokenizer").dump());
  ASSERT_GT(golden.at("texts").size(), 50U);
  for (const json& text : golden.at("texts")) {
    const auto ids = tokenizer.encode(text.at("text").get<std::string>());
    EXPECT_EQ(ids, text.at("ids").get<std::vector<std::int64_t>>()) << text.at("text");
    EXPECT_EQ(tokenizer.decode(ids, false), text.at("decoded").get<std::string>());
    EXPECT_EQ(tokenizer.decode(ids, true), text.at("shown").get<std::string>());
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, TokenizerGolden, testing::Range<std::size_t>(0, goldens().size()),
                         [](const auto& info) {
                           std::string name = goldens().at(info.param).at("name");
                           std::erase_if(name, [](char c) { return std::isalnum(c) == 0; });
                           return name;
                         });

json smallest() { return goldens().at(0).at("tokenizer"); }

std::string refusal(const json& file) {
  try {
    Tokenizer::parse(file.dump());
  } catch (const Error& error) {
    return std::string(to_string(error.code())) + ": " + error.what();
  }
  return "taken";
}

TEST(Tokenizer, WhatItDoesNotKnowIsRefusedByName) {
  const auto with = [](const char* pointer, const json& value) {
    json file = smallest();
    file[json::json_pointer(pointer)] = value;
    return refusal(file);
  };
  EXPECT_EQ(refusal(smallest()), "taken");
  EXPECT_THAT(with("/model/type", "WordLevel"),
              HasSubstr("unsupported: tokenizer: the model 'WordLevel'"));
  EXPECT_THAT(with("/model/type", "Unigram"), HasSubstr("Unigram behind ByteLevel"));
  EXPECT_THAT(with("/normalizer", {{"type", "ByteLevel"}}),
              HasSubstr("the normalizer 'ByteLevel'"));
  EXPECT_THAT(with("/model/byte_fallback", true), HasSubstr("byte_fallback"));
  EXPECT_THAT(with("/model/end_of_word_suffix", "</w>"), HasSubstr("'</w>'"));
  EXPECT_THAT(with("/pre_tokenizer", {{"type", "Punctuation"}}), HasSubstr("'Punctuation'"));
  EXPECT_THAT(with("/decoder", {{"type", "Fuse"}}), HasSubstr("the decoder 'Fuse'"));
  EXPECT_THAT(with("/post_processor", {{"type", "Unknown"}}), HasSubstr("'Unknown'"));
  EXPECT_THAT(with("/added_tokens/0/single_word", true),
              HasSubstr("single_word of the token '<|user|>'"));
  EXPECT_THAT(with("/pre_tokenizer/pretokenizers/0",
                   {{"type", "Split"}, {"pattern", {{"Regex", "("}}}, {"behavior", "Isolated"}}),
              HasSubstr("the pattern '('"));
}

/// A character is bytes only where all of them have tokens; else it is unknown, and stays so.
TEST(Tokenizer, CharactersWithoutAllOfTheirBytesAreUnknown) {
  json file;
  for (const json& golden : goldens())
    if (golden.at("name") == "llama2") file = golden.at("tokenizer");
  ASSERT_TRUE(file.is_object());
  const auto whole = Tokenizer::parse(file.dump());
  const char* const text = "a\U0001F600";
  EXPECT_EQ(whole.decode(whole.encode(text, false), false), text);
  EXPECT_EQ(whole.encode(text, false).size(), 1U + 4U);  // " a", and four bytes
  file["model"]["vocab"].erase("<0x9F>");
  const auto lacking = Tokenizer::parse(file.dump());
  const std::int64_t unknown = *lacking.id_of("<unk>");
  const auto ids = lacking.encode(text, false);
  EXPECT_EQ(std::ranges::count(ids, unknown), 1);
  EXPECT_EQ(ids.back(), unknown);
  EXPECT_EQ(lacking.bytes_of(unknown), "<unk>");
}

TEST(Tokenizer, DamagedFilesAreRefused) {
  EXPECT_THROW(Tokenizer::parse("{"), Error);
  EXPECT_THROW(Tokenizer::parse("[]"), Error);
  EXPECT_THROW(Tokenizer::parse("{}"), Error);
  EXPECT_THROW(Tokenizer::load("/nowhere/tokenizer.json"), Error);
  json file = smallest();
  file["model"]["merges"].push_back("zz zzzz");
  EXPECT_THAT(refusal(file), HasSubstr("'zz' is not in the vocabulary"));
  file = smallest();
  file["model"]["merges"].push_back("pair");
  EXPECT_THAT(refusal(file), HasSubstr("the merge 'pair' is no pair"));
  file = smallest();
  file["model"]["vocab"]["far"] = 1LL << 40;
  EXPECT_THAT(refusal(file), HasSubstr("token 'far' has the id 1099511627776"));
}

TEST(Tokenizer, DamagedUnigramsAreRefused) {
  json whole;
  for (const json& golden : goldens())
    if (golden.at("name") == "t5") whole = golden.at("tokenizer");
  ASSERT_TRUE(whole.is_object());
  const auto with = [&](const char* pointer, const json& value) {
    json file = whole;
    file[json::json_pointer(pointer)] = value;
    return refusal(file);
  };
  EXPECT_EQ(refusal(whole), "taken");
  EXPECT_THAT(with("/model/unk_id", 1 << 20), HasSubstr("unk_id 1048576 is none of"));
  EXPECT_THAT(with("/model/unk_id", -1), HasSubstr("unk_id -1"));
  EXPECT_THAT(with("/model/vocab/7/0", ""), HasSubstr("token 7 is empty"));
  EXPECT_THAT(with("/model/vocab/7/1", "x"), HasSubstr("not a tokenizer.json"));
  EXPECT_THAT(with("/normalizer/precompiled_charsmap", "!"), HasSubstr("no base64"));
  EXPECT_THAT(with("/normalizer/precompiled_charsmap", "/////w=="), HasSubstr("an array of"));
  // Without a token for what is unknown only a text that has none can be cut.
  json file = whole;
  file["model"]["unk_id"] = nullptr;
  const auto known = Tokenizer::parse(file.dump());
  EXPECT_FALSE(known.encode("the").empty());
  EXPECT_THROW(known.encode("\U0001F680"), Error);
}

/// Damaged arrays lead to other texts at most.
TEST(Tokenizer, DamagedMapsOfCharactersStayWithinTheirArrays) {
  std::mt19937 random(3);
  for (const json& golden : goldens()) {
    if (golden.at("name") != "t5") continue;
    json file = golden.at("tokenizer");
    auto& map = file["normalizer"]["precompiled_charsmap"].get_ref<std::string&>();
    const std::string whole = map;
    for (int i = 0; i < 200; ++i) {
      map = whole;
      for (int change = 0; change < 8; ++change)
        map[8 + random() % (map.size() - 12)] = "Az09+/"[random() % 6];
      const auto tokenizer = Tokenizer::parse(file.dump());
      for (const json& text : golden.at("texts")) {
        try {
          tokenizer.encode(text.at("text").get<std::string>());
        } catch (const Error&) {  // what it becomes need not be UTF-8
        }
      }
    }
  }
}

TEST(Tokenizer, TextMustBeUtf8) {
  const auto tokenizer = Tokenizer::parse(smallest().dump());
  EXPECT_THROW(tokenizer.encode("a\xFFz"), Error);
}

TEST(Tokenizer, IdsThatDoNotExistHaveNoText) {
  const auto tokenizer = Tokenizer::parse(smallest().dump());
  EXPECT_EQ(tokenizer.bytes_of(-1), "");
  EXPECT_EQ(tokenizer.bytes_of(1 << 20), "");
  EXPECT_FALSE(tokenizer.is_special(-1));
  EXPECT_TRUE(tokenizer.is_special(*tokenizer.id_of("<|end|>")));
  EXPECT_FALSE(tokenizer.id_of("no such token"));
}

/// The definition: the leftmost pair of the lowest rank, again and again.
void merge_slowly(std::vector<tools::TokenId>& tokens,
                  const std::vector<std::array<int, 3>>& merges) {
  while (true) {
    std::size_t best = merges.size(), where = 0;
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i)
      for (std::size_t rank = 0; rank < best; ++rank)
        if (tokens[i] == merges[rank][0] && tokens[i + 1] == merges[rank][1])
          best = rank, where = i;
    if (best == merges.size()) return;
    tokens[where] = merges[best][2];
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(where) + 1);
  }
}

TEST(BytePairs, MergesAsDefined) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::array<int, 3>> merges;
    tools::BytePairs pairs;
    for (int i = 0; i < 12; ++i) {
      const int known = 3 + i;
      const std::array<int, 3> merge = {static_cast<int>(random() % known),
                                        static_cast<int>(random() % known), known};
      merges.push_back(merge);
      pairs.add(merge[0], merge[1], merge[2]);
    }
    std::vector<tools::TokenId> tokens(random() % 40);
    for (auto& token : tokens) token = random() % 3;
    auto expected = tokens;
    merge_slowly(expected, merges);
    pairs.merge(tokens);
    ASSERT_EQ(tokens, expected) << "round " << round;
  }
}

}  // namespace
}  // namespace sinter::tests
