// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/verbs/plan_source.h"

#include "runtime/format_error.h"
#include "tools/compiler/api.h"
#include "tools/compiler/inspect/plan_report.h"

namespace sinter::tools {

PlanSource::PlanSource(const std::string& file, const BuildTexts& texts, const LoadOptions& load,
                       const Console& console)
    : file_(file), load_(load) {
  if (is_plan_file(file)) {
    check_no_build_options(texts, file);
    return;
  }
  if (!load.require_signature.empty())
    throw usage_error("--require-signature is about plans, and '{}' is none", file);
  BuildTexts own = texts;
  own.model = file;
  const BuildRequest request(own, console);
  CompileResult result = at_boundary(
      request.options().monitor, OptionNames::kFlags,
      [&](Reporter& reporter) { return compile_model(request.options(), "", reporter); });
  console.note(fmt::format("{} was compiled in memory for {}, in {:.1f} s", file, result.target,
                           (result.import_ms + result.passes_ms + result.codegen_ms) / 1000));
  compiled_ = std::move(result.plan);
}

Plan PlanSource::load() const {
  return compiled_.empty() ? Plan::load(file_, load_) : Plan::from_memory(compiled_);
}

}  // namespace sinter::tools
