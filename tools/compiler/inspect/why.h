// SPDX-License-Identifier: Apache-2.0
// Why two ONNX nodes are or are not in one kernel.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "frontend/import.h"
#include "fusion/explain.h"
#include "tools/compiler/build/build.h"

namespace sinter::tools {

struct WhyReport {
  fusion::Explanation why;
  ir::Graph last;                                // whose kernels `why` speaks of
  std::map<std::string, std::string> operators;  // of the model, by the names of nodes

  /// A kernel for people: "'softmax' (Softmax) from ...".
  std::string kernel_text(ir::NodeId id) const;
};

/// Those of `names` that hold `name` or look like it, best first, at most five.
std::vector<std::string> near_matches(const std::string& name,
                                      const std::vector<std::string>& names);

/// Runs the passes over `model` as `options` say and tells what they did about the nodes called
/// `a` and `b`. Throws Error(kUsage) for names that the model does not have, with those that look
/// like them.
WhyReport explain_why(const BuildOptions& options, const frontend::ImportedModel& model,
                      const Target& target, const std::string& a, const std::string& b,
                      Reporter& reporter);

nlohmann::ordered_json to_json(const WhyReport& report);

}  // namespace sinter::tools
