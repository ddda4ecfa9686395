// SPDX-License-Identifier: Apache-2.0
// The report of a compilation: what was compiled and where its time goes, as data and as one HTML
// file.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include <sinter/compiler.h>

#include "tools/compiler/build/build.h"

namespace sinter::tools {

struct ReportOptions {
  RunInputs inputs;  // their shapes also determine the sizes shown
  SessionOptions session;
  /// Output of `sinter profile --json` and `sinter compare --json`; null: not given.
  nlohmann::ordered_json profile, compare;
  bool measure = true;  // without a profile: measures one, if the plan runs on this machine
  int rounds = 5;       // of that profile
  bool verify = false;  // for a model: measures each kernel's own error relative to the reference
};

/// All data of the page for a model compiled with `options`. README.md lists the members. Throws as
/// compilation does, and Error(kUsage) for a profile of another plan.
nlohmann::ordered_json report_of_model(const BuildOptions& options, const ReportOptions& how,
                                       Reporter& reporter);
/// The same for a plan, without refused fusions and the model's operators.
nlohmann::ordered_json report_of_plan(const Plan& plan, const std::string& name,
                                      const ReportOptions& how, Reporter& reporter);

/// The page: a self-contained HTML file. `against`: data of another report for comparison; null:
/// none.
std::string report_page(const nlohmann::ordered_json& report,
                        const nlohmann::ordered_json& against = nullptr);
/// The data in a page. Throws Error(kUsage) naming `path` if `html` is no such page.
nlohmann::ordered_json data_of_page(std::string_view html, const std::string& path);

}  // namespace sinter::tools
