// SPDX-License-Identifier: Apache-2.0
// Texts of random models under constraints: sample_texts COUNT SEED < CONSTRAINTS > ANSWERS
// A line of CONSTRAINTS is {"kind": "json_schema", "text": ".."}; one of ANSWERS {"refused": why}
// or
// {"texts": [[text, has it ended]..], "failed": [why..]}. A text's model is random weights of
// tokens: bytes, and pieces of two and more, which lie across what a grammar tells apart.
#include <cmath>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include <sinter/error.h>

#include "runtime/grammar/grammar.h"
#include "runtime/sandbox/sandbox.h"

namespace {

using namespace sinter;
using nlohmann::json;

constexpr int kMostTokens = 600;  // of a text
constexpr int kHurry = 200;       // from which on ends are likely

std::vector<std::string> vocabulary_of(std::mt19937& random) {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  for (const char* piece : {"{\"",
                            "\":",
                            "\": ",
                            "\",",
                            "\", \"",
                            "\"}",
                            "\"]",
                            "},",
                            "],",
                            "[\"",
                            "[{",
                            "}}",
                            "]}",
                            "true",
                            "false",
                            "null",
                            "\\\"",
                            "\\\\",
                            "\\n",
                            "\\u00",
                            "\\u",
                            "\\t",
                            "10",
                            "00",
                            "99",
                            "-1",
                            "1.",
                            "0.",
                            ".5",
                            "e+",
                            "ab",
                            "the",
                            "name",
                            "value",
                            "http",
                            "://",
                            "2024-",
                            "T12:",
                            ":00",
                            "@",
                            ".com",
                            "\xC3\xA9",
                            "\xE2\x82\xAC",
                            "\xF0\x9F\x98\x80",
                            "\"\"",
                            "{}",
                            "[]",
                            "\n  ",
                            "  ",
                            ": ",
                            ", "})
    tokens.emplace_back(piece);
  const std::string letters = "abcdefghijklmnopqrstuvwxyzABCDEFXYZ0123456789_-./\"\\{}[]:,";
  for (int i = 0; i < 250; ++i) {
    std::string piece;
    for (std::size_t k = 0; k < 2 + random() % 3; ++k) piece += letters[random() % letters.size()];
    tokens.push_back(piece);
  }
  return tokens;
}

/// What brings a text to its end.
bool closes(const std::string& token) {
  for (const char c : token)
    if (c != '"' && c != '}' && c != ']') return false;
  return !token.empty();
}

class Model {
 public:
  Model(const std::vector<std::string>& tokens, std::mt19937& random) : random_(random) {
    std::normal_distribution<double> normal;
    for (const std::string& token : tokens)
      weights_.push_back(std::exp(1.5 * normal(random)) * (closes(token) ? 8 : 1) *
                         (token.find_first_of(" \n\t") != std::string::npos ? 0.1 : 1));
    for (std::size_t i = 0; i < tokens.size(); ++i)
      if (closes(tokens[i])) closing_.push_back(i);
    weights_.push_back(4);  // the end
  }

  /// -1 if none may come.
  TokenId draw(std::span<const std::uint32_t> mask, int step) {
    std::vector<double> now(weights_.size());
    const double hurry = step > kHurry ? 200 : 1;
    for (std::size_t i = 0; i < now.size(); ++i)
      now[i] = grammar::allows(mask, static_cast<TokenId>(i)) ? weights_[i] : 0;
    for (const std::size_t i : closing_) now[i] *= hurry;
    now.back() *= hurry;
    double sum = 0;
    for (const double weight : now) sum += weight;
    if (sum == 0) return -1;
    return static_cast<TokenId>(std::discrete_distribution<>(now.begin(), now.end())(random_));
  }

 private:
  std::mt19937& random_;
  std::vector<double> weights_;
  std::vector<std::size_t> closing_;
};

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return std::cerr << "sample_texts COUNT SEED\n", 2;
  sandbox::start();
  std::mt19937 random(static_cast<unsigned>(std::stoul(arguments[2])));
  const auto tokens = vocabulary_of(random);
  const auto end = static_cast<TokenId>(tokens.size());
  grammar::Compiler compiler(end + 1, [&](TokenId token) -> std::string_view {
    return token == end ? std::string_view("") : tokens[static_cast<std::size_t>(token)];
  });
  const std::vector<TokenId> stops = {end};
  for (std::string line; std::getline(std::cin, line);) {
    const json given = json::parse(line);
    Constraint constraint;
    constraint.kind =
        given["kind"] == "regex" ? Constraint::Kind::kRegex : Constraint::Kind::kJsonSchema;
    constraint.text = given["text"];
    json answer = json::object();
    try {
      const auto made = compiler.compile(constraint);
      answer["texts"] = json::array();
      answer["failed"] = json::array();
      for (int i = 0; i < std::stoi(arguments[1]); ++i) {
        Model model(tokens, random);
        std::string text;
        bool has_ended = false;
        try {
          grammar::Matcher matcher(made, stops);
          for (int step = 0; step < kMostTokens && !has_ended; ++step) {
            const TokenId token = model.draw(matcher.mask(), step);
            if (token < 0) throw Error(ErrorCode::kUsage, "no token may come behind " + text);
            if (token != end) text += tokens[static_cast<std::size_t>(token)];
            matcher.accept(token);
            has_ended = matcher.has_ended();
          }
          answer["texts"].push_back({text, has_ended});
        } catch (const Error& error) {
          answer["failed"].push_back(error.what());
        }
      }
    } catch (const Error& error) {
      answer["refused"] = error.what();
    }
    // What is no UTF-8 is seen by who reads: "\xff" is no text of JSON.
    std::cout << answer.dump(-1, ' ', true, json::error_handler_t::replace) << std::endl;
  }
}
