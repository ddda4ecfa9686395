// SPDX-License-Identifier: Apache-2.0
// Asks our tokenizers what lines of JSON say, for check_tokenizers.py: {"load": PATH}, {"encode":
// [TEXT, ..]} or {"decode": [[ID, ..], ..]}. A line of answers for each line.
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include <sinter/error.h>

#include "tools/tokenizer/tokenizer.h"

namespace {

using nlohmann::json;
using sinter::tools::Tokenizer;

template <typename Make>
json answer_of(const Make& make) {
  try {
    return make();
  } catch (const sinter::Error& error) {
    return {{"error", error.what()}};
  }
}

json decoded(const Tokenizer& tokenizer, const std::vector<std::int64_t>& ids, bool skip_special) {
  auto stream = tokenizer.stream(skip_special);
  std::string text;
  for (const auto id : ids) text += stream.add(id);
  text += stream.finish();
  return json::array({tokenizer.decode(ids, skip_special), text});
}

json answer(const json& line, std::optional<Tokenizer>& tokenizer) {
  json result = json::array();
  if (line.contains("load")) {
    tokenizer.reset();
    return answer_of([&]() -> json {
      tokenizer = Tokenizer::load(line.at("load"));
      return "loaded";
    });
  }
  const bool special = line.value("special", true);
  if (line.contains("pairs")) {
    for (const json& each : line.at("pairs"))
      result.push_back(answer_of([&]() -> json {
        return tokenizer->encode_pair(each[0].get<std::string>(), each[1].get<std::string>(),
                                      special);
      }));
  } else if (line.contains("encode")) {
    for (const json& each : line.at("encode"))
      result.push_back(answer_of(
          [&]() -> json { return tokenizer->encode_cut(each.get<std::string>(), special).ids; }));
  } else if (line.contains("decode")) {
    for (const json& each : line.at("decode"))
      result.push_back(answer_of([&]() -> json {
        const auto ids = each.get<std::vector<std::int64_t>>();
        return json::array({decoded(*tokenizer, ids, false), decoded(*tokenizer, ids, true)});
      }));
  } else {  // seconds that encoding all of them takes, the least of some rounds
    double least = 1e9;
    for (int round = 0; round < line.value("rounds", 3); ++round) {
      const auto start = std::chrono::steady_clock::now();
      for (const json& each : line.at("time"))
        tokenizer->encode(each.get_ref<const std::string&>());
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      least = std::min(least, took.count());
    }
    return least;
  }
  return result;
}

}  // namespace

int main() {
  std::optional<Tokenizer> tokenizer;
  std::ios::sync_with_stdio(false);
  for (std::string line; std::getline(std::cin, line);)
    std::cout
        << answer(json::parse(line), tokenizer).dump(-1, ' ', false, json::error_handler_t::replace)
        << std::endl;
}
