// SPDX-License-Identifier: Apache-2.0
// What is in a plan or a model, as data.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include <sinter/compiler.h>

#include "frontend/import.h"
#include "tools/compiler/build/build.h"

namespace sinter::tools {

/// True if the file starts like a plan. Throws Error(kUsage) if it cannot be opened.
bool is_plan_file(const std::string& path);

/// The requested views, else a summary.
nlohmann::ordered_json plan_report(const Plan& plan, const PlanViews& views);

/// Inputs, outputs, dimensions and operators of a model; with `graph` its text instead.
nlohmann::ordered_json model_report(const std::string& name, const frontend::ImportedModel& model,
                                    bool graph);

/// The steps of the model's plan, for `shapes` if given; compiles no kernels.
nlohmann::ordered_json steps_report(const BuildOptions& options,
                                    const frontend::ImportedModel& model, const Shapes& shapes,
                                    Reporter& reporter);

}  // namespace sinter::tools
