// SPDX-License-Identifier: Apache-2.0
// The decoder of models/tiny, the tokens that NumPy makes with it, and those of an engine.
#pragma once

#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sinter/engine.h>

#include "runtime/engine/executor.h"
#include "tests/support/paths.h"

namespace sinter::tests {

inline const std::string kTinyDecoder = source_dir() + "/models/tiny/decoder.onnx";

/// Prompts with their greedy tokens.
inline const nlohmann::json& greedy() {
  static const nlohmann::json cases = [] {
    std::ifstream file(source_dir() + "/tests/tools/goldens/greedy.json");
    return nlohmann::json::parse(file)["decoder"];
  }();
  return cases;
}

/// By request and sample.
using GenerationTexts = std::map<std::pair<RequestId, int>, std::vector<TokenId>>;

/// What came of requests, when all have ended.
inline GenerationTexts texts_of(std::unique_ptr<engine::Executor> executor,
                                const EngineOptions& options,
                                const std::vector<GenerationRequest>& requests,
                                EngineStats* stats = nullptr) {
  GenerationTexts texts;
  std::mutex mutex;
  Engine engine(std::move(executor), options);
  for (const GenerationRequest& request : requests)
    engine.submit(request, [&](const GenerationOutput& output) {
      EXPECT_TRUE(output.error.empty()) << output.error;
      const std::scoped_lock lock(mutex);
      auto& tokens = texts[{output.request, output.sample}];
      tokens.insert(tokens.end(), output.tokens.begin(), output.tokens.end());
    });
  engine.drain();
  if (stats != nullptr) *stats = engine.stats();
  return texts;
}

}  // namespace sinter::tests
