// SPDX-License-Identifier: Apache-2.0
// Reports of tools/compiler/inspect as human-readable lines.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace sinter::tools {

using Lines = std::vector<std::string>;

Lines plan_summary_text(const nlohmann::ordered_json& report);
/// For plans and models.
Lines steps_text(const nlohmann::ordered_json& report, std::size_t most = 0);
Lines kernels_text(const nlohmann::ordered_json& report, std::size_t most = 0);
Lines source_text(const nlohmann::ordered_json& report);
Lines memory_text(const nlohmann::ordered_json& report);
Lines plan_tuning_text(const nlohmann::ordered_json& report);

}  // namespace sinter::tools
