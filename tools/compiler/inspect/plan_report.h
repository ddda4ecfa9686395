// SPDX-License-Identifier: Apache-2.0
// What is in a plan or a model, as data.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include <sinter/compiler.h>

#include "frontend/import.h"
#include "tools/compiler/build/build.h"

namespace sinter::tools {

/// True if the file begins as a plan does. A file that cannot be opened throws Error(kUsage).
bool is_plan_file(const std::string& path);

/// The views that are asked for, else a summary.
nlohmann::ordered_json plan_report(const Plan& plan, const PlanViews& views);

/// Inputs, outputs, dimensions and operators of a model, or with `graph` its text in their place.
nlohmann::ordered_json model_report(const std::string& name, const frontend::ImportedModel& model,
                                    bool graph);

/// The steps that the model would have, for `shapes` if there are any; no kernel is compiled.
nlohmann::ordered_json steps_report(const BuildOptions& options,
                                    const frontend::ImportedModel& model, const Shapes& shapes,
                                    Reporter& reporter);

}  // namespace sinter::tools
