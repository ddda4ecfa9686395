// SPDX-License-Identifier: Apache-2.0
// Hints for operators that the importer does not know.
#include <fmt/format.h>

#include "frontend/ops/table/op_table.h"

namespace sinter::frontend {
namespace {

struct Row {
  std::string_view name, advice;
};

// Operators that cannot be compiled, and alternatives for a model.
constexpr Row kHintRows[] = {
    {"RandomNormal", "pass random numbers in as an input"},
    {"RandomNormalLike", "pass random numbers in as an input"},
    {"RandomUniform", "pass random numbers in as an input"},
    {"RandomUniformLike", "pass random numbers in as an input"},
    {"Bernoulli", "pass random numbers in as an input"},
    {"Multinomial", "pass random numbers in as an input"},
};

constexpr Row kMicrosoftRows[] = {
    {"BifurcationDetector",
     "its output's shape depends on data: take it out of the model and run it before or after"},
    {"Unique",
     "its output's shape depends on data: take it out of the model and run it before or after"},
};

constexpr Row kMlRows[] = {
    {"CastMap", "maps have no tensor form: pass the values in as a tensor"},
    {"DictVectorizer", "maps have no tensor form: pass the values in as a tensor"},
};

constexpr std::string_view kSequences[] = {"Sequence", "Split", "Concat", "Optional",
                                           "String",   "Regex", "Tfidf"};

}  // namespace

std::string advice_of(std::string_view domain, std::string_view name) {
  if (!domain.empty()) return {};
  for (const Row& row : kHintRows)
    if (row.name == name) return std::string(row.advice);
  return {};
}

std::string hint(std::string_view domain, std::string_view name) {
  if (domain == "com.microsoft")
    for (const Row& row : kMicrosoftRows)
      if (row.name == name) return std::string(row.advice);
  if (domain == kMl)
    for (const Row& row : kMlRows)
      if (row.name == name) return std::string(row.advice);
  if (domain == "com.microsoft.nchwc")
    return "its weights are laid out for one CPU: save the optimised model at level "
           "ORT_ENABLE_EXTENDED, not ORT_ENABLE_ALL";
  if (!domain.empty())
    return fmt::format(
        "define it in a file for --op, give it a body as a function of the model (domain '{}'), or "
        "export with operators of "
        "ai.onnx",
        domain);
  if (std::string advice = advice_of(domain, name); !advice.empty()) return advice;
  for (const std::string_view prefix : kSequences)
    if (name.substr(0, prefix.size()) == prefix)
      return "sequences, optionals and strings have no tensor form; export the model with tensors "
             "only, and keep such steps outside of it";
  return "export with operators that 'sinter ops' lists, or cut the model before it "
         "(onnx.utils.extract_model)";
}

}  // namespace sinter::frontend
