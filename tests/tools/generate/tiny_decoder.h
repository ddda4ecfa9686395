// The decoder of models/tiny, and the tokens that NumPy makes with it.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

namespace sinter::tests {

inline const std::string kTinyDecoder = SINTER_SOURCE_DIR "/models/tiny/decoder.onnx";

/// Prompts with their greedy tokens.
inline const nlohmann::json& greedy() {
  static const nlohmann::json cases = [] {
    std::ifstream file(SINTER_SOURCE_DIR "/tests/tools/goldens/greedy.json");
    return nlohmann::json::parse(file)["decoder"];
  }();
  return cases;
}

}  // namespace sinter::tests
