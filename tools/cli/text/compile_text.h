// SPDX-License-Identifier: Apache-2.0
// Results of a compilation as human-readable text.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include <sinter/compiler.h>

namespace sinter::tools {

/// States that are changed in place share one line; others have one line each.
std::vector<std::string> states_text(const std::vector<StateResult>& states);

/// Reasons for fusing pairs or not: counts and, of pairs not fused, the kinds with the most bytes
/// at stake and the most pairs. With `all`: each pair, and the reason for each value's layout.
std::vector<std::string> fusion_text(const CompileResult& result, bool all);
/// The table of 8-bit caches and a summary; empty if there are none.
std::vector<std::string> caches_text(const std::vector<CacheResult>& caches);
/// A row per layer and a summary; empty without layers.
std::vector<std::string> layers_text(const CompileResult& result, bool is_calibrated);

/// Tables of timings; empty if nothing was timed.
std::vector<std::string> tuning_text(const TuningResult& tuning);

/// A row per output; `option` is the option that raises the bound.
std::string accuracy_text(const Accuracy& accuracy, const std::string& option);

nlohmann::ordered_json to_json(const CompileResult& result);

}  // namespace sinter::tools
