// SPDX-License-Identifier: Apache-2.0
// Tokenizers against Hugging Face's library (goldens/make_tokenizers.py).
#include "tools/tokenizer/tokenizer.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <regex.h>
#include <sinter/error.h>

#include "tests/support/paths.h"

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
  const json split = {{"type", "Split"}, {"behavior", "Isolated"}, {"invert", false}};
  const auto of_pattern = [&](const char* pattern) {
    json part = split;
    part["pattern"] = {{"Regex", pattern}};
    return part;
  };
  EXPECT_EQ(refusal(smallest()), "taken");
  EXPECT_THAT(with("/model/type", "Other"),
              HasSubstr("unsupported: tokenizer: the model 'Other' is not supported"));
  EXPECT_THAT(with("/normalizer", {{"type", "Other"}}), HasSubstr("the normalizer 'Other'"));
  EXPECT_THAT(with("/pre_tokenizer", {{"type", "Other"}}), HasSubstr("the pre-tokenizer 'Other'"));
  EXPECT_THAT(with("/decoder", {{"type", "Other"}}), HasSubstr("the decoder 'Other'"));
  EXPECT_THAT(with("/post_processor", {{"type", "Other"}}),
              HasSubstr("the post-processor 'Other'"));
  EXPECT_THAT(with("/version", "2.0"), HasSubstr("the version '2.0'"));
  EXPECT_THAT(with("/model/dropout", 0.1), HasSubstr("dropout 0.1"));
  EXPECT_EQ(with("/model/dropout", 0.0), "taken");
  // Every field is read, or refused by name; null says nothing.
  EXPECT_THAT(with("/other", 1), HasSubstr("the field 'other' of the file"));
  EXPECT_EQ(with("/other", nullptr), "taken");
  EXPECT_THAT(with("/model/other", true), HasSubstr("the field 'other' of the model 'BPE'"));
  EXPECT_THAT(with("/added_tokens/0/other", true),
              HasSubstr("the field 'other' of an added token"));
  EXPECT_THAT(with("/decoder/other", 1), HasSubstr("the field 'other' of the decoder 'ByteLevel'"));
  EXPECT_THAT(with("/normalizer", {{"type", "Lowercase"}, {"locale", "tr"}}),
              HasSubstr("the field 'locale' of the normalizer 'Lowercase'"));
  EXPECT_THAT(with("/pre_tokenizer", of_pattern("(")), HasSubstr("the pattern '('"));
  EXPECT_THAT(with("/pre_tokenizer", of_pattern(std::string(70000, 'a').c_str())),
              HasSubstr("a pattern of 70000 bytes"));
  json other = split;
  other["pattern"] = {{"String", "-"}};
  other["behavior"] = "Other";
  EXPECT_THAT(with("/pre_tokenizer", other), HasSubstr("the behavior 'Other'"));
  EXPECT_THAT(with("/pre_tokenizer", {{"type", "FixedLength"}, {"length", 0}}),
              HasSubstr("the length 0"));
  EXPECT_THAT(with("/pre_tokenizer", {{"type", "CharDelimiterSplit"}, {"delimiter", "ab"}}),
              HasSubstr("not one character"));
  const json a = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const json b = {{"Sequence", {{"id", "B"}, {"type_id", 0}}}};
  const auto of_template = [&](const json& single) -> json {
    return {{"type", "TemplateProcessing"},
            {"single", single},
            {"pair", {a, b}},
            {"special_tokens", json::object()}};
  };
  EXPECT_EQ(with("/post_processor", of_template(json::array({a}))), "taken");
  EXPECT_THAT(with("/post_processor", of_template(json::array({b}))), HasSubstr("the second text"));
  EXPECT_THAT(
      with("/post_processor", of_template(json::array({{{"SpecialToken", {{"id", "x"}}}}}))),
      HasSubstr("has no 'x'"));
  EXPECT_THAT(
      with("/post_processor",
           {{"type", "Sequence"},
            {"processors", {of_template(json::array({a, a, a})), of_template(json::array({a}))}}}),
      HasSubstr("behind one that makes 3 parts of a text"));
  EXPECT_THAT(with("/post_processor", of_template(json::array_t(2000, a))),
              HasSubstr("of more than 16 texts"));
}

json parsed(const std::string& text) { return json::parse(text); }

/// A file with these parts and a model of the words of a text, of which each is a token.
json of_words(const std::string& words, const json& parts) {
  json vocabulary = json::object();
  std::istringstream stream(words);
  for (std::string word; stream >> word;) vocabulary.emplace(word, vocabulary.size());
  json file = {{"version", "1.0"},
               {"added_tokens", json::array()},
               {"model", {{"type", "WordLevel"}, {"unk_token", "?"}, {"vocab", vocabulary}}}};
  file.update(parts);
  return file;
}

using Ids = std::vector<std::int64_t>;

TEST(Tokenizer, ExpressionsAreOnigurumas) {
  const auto cut = [](const char* pattern, const std::string& text, const std::string& words) {
    const json file = of_words("? " + words, {{"pre_tokenizer",
                                               {{"type", "Split"},
                                                {"pattern", {{"Regex", pattern}}},
                                                {"behavior", "Isolated"},
                                                {"invert", false}}}});
    return Tokenizer::parse(file.dump()).encode(text);
  };
  // A repeated group, no possessive quantifier.
  EXPECT_EQ(cut("\\p{N}{1,3}+", "1234", "1234"), (Ids{1}));
  // Matches of nothing cut.
  EXPECT_EQ(cut("(?=(\\d{3})+(?!\\d))", "1234567", "1 234 567"), (Ids{1, 2, 3}));
  EXPECT_EQ(cut("", "ab", "a b"), (Ids{1, 2}));
  // Marks are parts of words, and an intersection of classes is one.
  EXPECT_EQ(cut("\\w+", "न\u092e\u0938\u094d\u0924\u0947!", "नमस्ते !"), (Ids{1, 2}));
  EXPECT_EQ(cut("[a-c&&[^b]]", "abc", "a b c"), (Ids{1, 2, 3}));
  EXPECT_EQ(cut("[^(\\s|[.,])]+", "ab,", "ab ,"), (Ids{1, 2}));
  // Ends of lines, scripts, and characters since Oniguruma's tables (Garay, of Unicode 16).
  EXPECT_EQ(cut("$", "a\u0301\n", "a\u0301 x"), (Ids{1, 0}));
  EXPECT_EQ(cut("\\p{Han}+", "世。", "世 。"), (Ids{1, 2}));
  EXPECT_EQ(cut("\\p{Lu}", "\U00010D50\U00010D70", "\U00010D50 \U00010D70"), (Ids{1, 2}));
}

TEST(Tokenizer, ExpressionsThatDoNotEndAreErrors) {
  const auto refused = [](const char* pattern, const std::string& text) -> std::string {
    const json file = of_words("?", {{"pre_tokenizer",
                                      {{"type", "Split"},
                                       {"pattern", {{"Regex", pattern}}},
                                       {"behavior", "Isolated"},
                                       {"invert", false}}}});
    try {
      Tokenizer::parse(file.dump()).encode(text);
    } catch (const Error& error) {
      return error.what();
    }
    return "taken";
  };
  EXPECT_THAT(refused("(a|aa)+$", std::string(60, 'a') + "b"), HasSubstr("cannot be cut by"));
  // A long match is none of these.
  std::string many;
  for (int i = 0; i < 100000; ++i) many += "ab";
  EXPECT_EQ(refused("(?:a|b)+", many), "taken");
}

/// Oniguruma has functions of POSIX's names, which would be given others' patterns.
TEST(Tokenizer, TheSystemsExpressionsStayItsOwn) {
  Dl_info found = {};
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&regcomp), &found), 0);
  EXPECT_THAT(found.dli_fname, testing::Not(HasSubstr("onig")));
}

TEST(Tokenizer, NestedFilesAreErrors) {
  std::string deep = "{\"normalizer\": ";
  for (int i = 0; i < 100000; ++i) deep += "{\"type\":\"Sequence\",\"normalizers\":[";
  EXPECT_THROW(Tokenizer::parse(deep), Error);
  for (int i = 0; i < 100000; ++i) deep += "]}";
  EXPECT_THROW(Tokenizer::parse(deep + "}"), Error);
}

TEST(Tokenizer, AddedTokensAreNoWordsOfTheModel) {
  const auto token = [](const char* name, int id, bool normalized) -> json {
    return {{"id", id},        {"content", name},  {"single_word", false},    {"lstrip", false},
            {"rstrip", false}, {"special", false}, {"normalized", normalized}};
  };
  // Of names that a normalizer makes, the one in the text as it is first.
  const auto tokenizer = Tokenizer::parse(
      of_words("? x", {{"normalizer", {{"type", "Lowercase"}}},
                       {"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
                       {"added_tokens",
                        {token("Covid", 2, true), token("tok", 3, false), token("aCo", 4, false)}}})
          .dump());
  EXPECT_EQ(tokenizer.encode("COVID x covid"), (Ids{2, 1, 2}));
  EXPECT_EQ(tokenizer.encode("TOK tok"), (Ids{0, 3}));  // the model does not know it
  EXPECT_EQ(tokenizer.encode("aCovid"), (Ids{4, 0}));
}

TEST(Tokenizer, ATextThatIsTooLongIsFoundOutBeforeItsEnd) {
  const auto tokenizer = Tokenizer::parse(smallest().dump());
  const std::string text(200000, 'x');
  EXPECT_THROW(tokenizer.encode(text, true, 10), Error);
  EXPECT_EQ(tokenizer.encode("x", true, 10).size(), 1U);
}

TEST(Tokenizer, TextsAreCutAsTheFileSays) {
  json file = of_words(
      "? a b c d",
      {{"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
       {"post_processor", {{"type", "BertProcessing"}, {"cls", {"a", 7}}, {"sep", {"b", 8}}}},
       {"truncation",
        {{"direction", "Right"}, {"max_length", 4}, {"strategy", "LongestFirst"}, {"stride", 0}}}});
  const auto right = Tokenizer::parse(file.dump());
  EXPECT_EQ(right.encode_cut("a b c d").ids, (Ids{7, 1, 2, 8}));
  EXPECT_TRUE(right.encode_cut("a b c d").is_cut);
  EXPECT_FALSE(right.encode_cut("a b").is_cut);
  EXPECT_EQ(right.encode("a b c d").size(), 6U);  // a prompt stays whole
  file["truncation"]["direction"] = "Left";
  const auto left = Tokenizer::parse(file.dump());
  EXPECT_EQ(left.encode_cut("a b c d").ids, (Ids{7, 3, 4, 8}));
  EXPECT_EQ(left.encode_cut("a b c d", false).ids, (Ids{1, 2, 3, 4}));
  file["truncation"]["max_length"] = 1;
  EXPECT_THAT(refusal(file), HasSubstr("truncation leaves 1 tokens"));
}

TEST(Tokenizer, TextsArePaddedAsTheFileSays) {
  json file = of_words("? a b", {{"pre_tokenizer", {{"type", "WhitespaceSplit"}}},
                                 {"padding",
                                  {{"strategy", {{"Fixed", 5}}},
                                   {"direction", "Right"},
                                   {"pad_to_multiple_of", nullptr},
                                   {"pad_id", 9},
                                   {"pad_type_id", 0},
                                   {"pad_token", "?"}}}});
  const auto padded = [&](Ids ids) {
    Tokenizer::parse(file.dump()).pad(ids);
    return ids;
  };
  EXPECT_EQ(padded({1, 2}), (Ids{1, 2, 9, 9, 9}));
  EXPECT_EQ(padded({1, 2, 1, 2, 1, 2}).size(), 6U);
  file["padding"]["direction"] = "Left";
  file["padding"]["strategy"] = "BatchLongest";
  file["padding"]["pad_to_multiple_of"] = 4;
  EXPECT_EQ(padded({1, 2}), (Ids{9, 9, 1, 2}));
  file["padding"]["strategy"] = {{"Fixed", 1LL << 40}};
  EXPECT_THAT(refusal(file), HasSubstr("padding to 1099511627776 tokens"));
}

/// What comes token by token is the text, however it is decoded.
TEST(Tokenizer, StreamsGiveTheText) {
  const std::string words = "▁ab ##cd ef</w> <0xE2> <0x82> <0xAC> Ġg . H HH e▁f";
  const std::vector<std::string> decoders = {
      R"(null)",
      R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"always"})",
      R"({"type":"WordPiece","prefix":"##","cleanup":true})",
      R"({"type":"BPEDecoder","suffix":"</w>"})",
      R"({"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true})",
      R"({"type":"CTC","pad_token":"H","word_delimiter_token":"f","cleanup":true})",
      R"({"type":"Strip","content":"H","start":1,"stop":1})",
      R"({"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},
          {"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]})",
      R"({"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"Replace","pattern":{"Regex":"[a-f]+"},
          "content":"_"},{"type":"Strip","content":"H","start":0,"stop":2}]})"};
  std::mt19937 random(11);
  for (const std::string& decoder : decoders) {
    const auto tokenizer = Tokenizer::parse(of_words(words, {{"decoder", parsed(decoder)}}).dump());
    for (int round = 0; round < 200; ++round) {
      Ids ids(random() % 9);
      for (auto& id : ids) id = random() % 12;
      auto stream = tokenizer.stream(true);
      std::string text;
      for (const auto id : ids) text += stream.add(id);
      EXPECT_EQ(text + stream.finish(), tokenizer.decode(ids, true)) << decoder;
    }
  }
}

/// Texts come as soon as they are certain.
TEST(Tokenizer, StreamsDoNotWait) {
  const auto tokenizer =
      Tokenizer::parse(of_words("▁Hello ▁world <0xE2> <0x82> <0xAC>",
                                {{"decoder", parsed(R"({"type":"Sequence","decoders":[
                   {"type":"Replace","pattern":{"String":"▁"},"content":" "},{"type":"ByteFallback"},
                   {"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]})")}})
                           .dump());
  auto stream = tokenizer.stream(true);
  EXPECT_EQ(stream.add(0), "Hello");
  EXPECT_EQ(stream.add(1), " world");
  EXPECT_EQ(stream.add(2), "");
  EXPECT_EQ(stream.add(3), "");
  EXPECT_EQ(stream.add(4), "");  // the run may go on, and be no UTF-8
  EXPECT_EQ(stream.add(0), "\xE2\x82\xAC Hello");
  EXPECT_EQ(stream.finish(), "");
  EXPECT_EQ(tokenizer.decode(Ids{0, 2, 3}, false), "Hello\xEF\xBF\xBD\xEF\xBF\xBD");
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
      try {
        const auto tokenizer = Tokenizer::parse(file.dump());
        for (const json& text : golden.at("texts"))
          tokenizer.encode(text.at("text").get<std::string>());
      } catch (const Error&) {  // what texts become need not be UTF-8
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
void merge_slowly(std::vector<std::string>& tokens,
                  const std::vector<std::pair<std::string, std::string>>& merges) {
  while (true) {
    std::size_t best = merges.size(), where = 0;
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i)
      for (std::size_t rank = 0; rank < best; ++rank)
        if (tokens[i] == merges[rank].first && tokens[i + 1] == merges[rank].second)
          best = rank, where = i;
    if (best == merges.size()) return;
    tokens[where] += tokens[where + 1];
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(where) + 1);
  }
}

/// Of short words, and of long ones, which go another way.
TEST(BytePairs, MergesAsDefined) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> names = {"a", "b", "c"};
    std::vector<std::pair<std::string, std::string>> merges;
    json pairs = json::array();
    for (int i = 0; i < 12; ++i) {
      const std::pair<std::string, std::string> pair = {names[random() % names.size()],
                                                        names[random() % names.size()]};
      if (std::ranges::find(names, pair.first + pair.second) != names.end()) continue;
      names.push_back(pair.first + pair.second);
      merges.push_back(pair);
      pairs.push_back({pair.first, pair.second});
    }
    json vocabulary;
    for (const auto& name : names) vocabulary.emplace(name, vocabulary.size());
    const auto tokenizer = Tokenizer::parse(
        json{{"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", pairs}}}}.dump());
    std::vector<std::string> tokens(random() % (round % 2 == 0 ? 40 : 200));
    std::string text;
    for (auto& token : tokens) text += token = names[random() % 3];
    merge_slowly(tokens, merges);
    Ids expected;
    for (const auto& token : tokens) expected.push_back(vocabulary.at(token));
    ASSERT_EQ(tokenizer.encode(text), expected) << "round " << round;
  }
}

}  // namespace
}  // namespace sinter::tests
