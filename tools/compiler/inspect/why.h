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
  ir::Graph last;                                // the final graph, whose kernels `why` describes
  std::map<std::string, std::string> operators;  // of the model, by node name

  /// A kernel, human-readable: "'softmax' (Softmax) from ...".
  std::string kernel_text(ir::NodeId id) const;
};

/// Up to 5 of `names` that contain `name` or are similar, best first.
std::vector<std::string> near_matches(const std::string& name,
                                      const std::vector<std::string>& names);

/// Runs the passes over `model` and explains what they did with the nodes `a` and `b`. Throws
/// Error(kUsage) for unknown names, with similar ones.
WhyReport explain_why(const BuildOptions& options, const frontend::ImportedModel& model,
                      const Target& target, const std::string& a, const std::string& b,
                      Reporter& reporter);

nlohmann::ordered_json to_json(const WhyReport& report);

}  // namespace sinter::tools
