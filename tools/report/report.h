// SPDX-License-Identifier: Apache-2.0
// A picture of what was compiled and where its time goes: data, and a page of them in one HTML
// file.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include <sinter/compiler.h>

#include "tools/compiler/build/build.h"

namespace sinter::tools {

struct ReportOptions {
  RunInputs inputs;  // their shapes are those that sizes are shown for
  SessionOptions session;
  /// What `sinter profile --json` and `sinter compare --json` print; null: not given.
  nlohmann::ordered_json profile, compare;
  bool measure = true;  // without a profile: take one, if the plan runs on this machine
  int rounds = 5;       // of it
  bool verify = false;  // of a model: each kernel's own error against the reference
};

/// All that the page shows of a model, compiled as `options` say. README.md lists the members.
/// Throws as compiling does, and Error(kUsage) for a profile of another plan.
nlohmann::ordered_json report_of_model(const BuildOptions& options, const ReportOptions& how,
                                       Reporter& reporter);
/// The same of a plan, which does not know refused fusions and the operators of the model.
nlohmann::ordered_json report_of_plan(const Plan& plan, const std::string& name,
                                      const ReportOptions& how, Reporter& reporter);

/// The page: one HTML file that loads nothing. `against`: another report's data, beside which the
/// page shows `report`; null: none.
std::string report_page(const nlohmann::ordered_json& report,
                        const nlohmann::ordered_json& against = nullptr);
/// The data of a page. Throws Error(kUsage) naming `path` if `html` is none.
nlohmann::ordered_json data_of_page(std::string_view html, const std::string& path);

}  // namespace sinter::tools
