// SPDX-License-Identifier: Apache-2.0
// Constraints of a stranger, from bytes: an Error, or a grammar whose texts are followed; those of
// a schema are JSON. The first byte says which kind.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include <sinter/error.h>

#include "runtime/grammar/grammar.h"
#include "runtime/grammar/source.h"
#include "runtime/sandbox/sandbox.h"
#include "tests/fuzz/growth.h"
#include "tests/fuzz/json_mutator.h"

namespace {

using namespace sinter;
using Kind = Constraint::Kind;

constexpr int kEnd = 256;

grammar::Compiler& compiler() {
  static const std::vector<std::string> bytes = [] {
    std::vector<std::string> all;
    for (int byte = 0; byte < 256; ++byte) all.emplace_back(1, static_cast<char>(byte));
    return all;
  }();
  static grammar::Compiler made(kEnd + 1, [](TokenId token) -> std::string_view {
    return token == kEnd ? std::string_view("") : bytes[static_cast<std::size_t>(token)];
  });
  return made;
}

/// A text of random tokens; empty if it does not end soon.
std::string text_of(const std::shared_ptr<const grammar::Grammar>& made, unsigned seed) {
  std::mt19937 random(seed);
  const std::vector<TokenId> stops = {kEnd};
  grammar::Matcher matcher(made, stops);
  std::string text;
  for (int i = 0; i < 200; ++i) {
    std::vector<TokenId> allowed;
    for (TokenId token = 0; token <= kEnd; ++token)
      if (grammar::allows(matcher.mask(), token)) allowed.push_back(token);
    if (allowed.empty()) std::abort();
    const bool may_end = allowed.back() == kEnd && random() % 3 == 0;
    const TokenId token = may_end ? kEnd : allowed[random() % allowed.size()];
    matcher.accept(token);
    if (token != kEnd) text += static_cast<char>(token);
    if (matcher.has_ended()) return text;
  }
  return "";
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  sandbox::start();
  compiler();
  tests::watch_growth();
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
  return tests::mutate_json(data, size, most, seed, 1);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  constexpr Kind kKinds[] = {Kind::kJsonSchema, Kind::kJsonSchema, Kind::kRegex, Kind::kGrammar,
                             Kind::kStructuralTag};
  Constraint constraint;
  constraint.kind = kKinds[data[0] % std::size(kKinds)];
  constraint.text.assign(reinterpret_cast<const char*>(data) + 1, size - 1);
  tests::grows_from_here();
  try {
    grammar::source_of(constraint);  // in this process, where a fault is seen
    // A process for each takes most of the time.
    if (std::hash<std::string>()(constraint.text) % 4 != 0) return 0;
    const std::string text = text_of(compiler().compile(constraint), static_cast<unsigned>(size));
    if (constraint.kind == Kind::kJsonSchema && !text.empty() && !nlohmann::json::accept(text)) {
      std::fprintf(stderr, "no JSON: %s\n", text.c_str());
      std::abort();
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInternal) return 0;
    std::fprintf(stderr, "%s\n", error.what());
    std::abort();
  }
  return 0;
}
