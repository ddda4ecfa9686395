// SPDX-License-Identifier: Apache-2.0
// What came of a compilation, for people and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include <sinter/compiler.h>

namespace sinter::tools {

/// States that are changed in place in one line, the others one by one.
std::vector<std::string> states_text(const std::vector<StateResult>& states);

/// Why pairs were fused or not: counts and, of those that were not, the kinds with most bytes at
/// stake and most pairs; or with `all` each, and why values lie as they lie.
std::vector<std::string> fusion_text(const CompileResult& result, bool all);
/// The table of caches in 8 bits, and what holds for all of them; nothing if there are none.
std::vector<std::string> caches_text(const std::vector<CacheResult>& caches);
/// A row for each layer, and what all of them come to; nothing without layers.
std::vector<std::string> layers_text(const CompileResult& result, bool is_calibrated);

/// Tables of what was timed; nothing if nothing was.
std::vector<std::string> tuning_text(const TuningResult& tuning);

/// A row for each output; `option` is what raises the bound.
std::string accuracy_text(const Accuracy& accuracy, const std::string& option);

nlohmann::ordered_json to_json(const CompileResult& result);

}  // namespace sinter::tools
