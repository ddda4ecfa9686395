// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/api.h"

#include "frontend/import.h"
#include "ir/text/text.h"
#include "runtime/format_error.h"
#include "tools/compiler/build/model_source.h"
#include "tools/compiler/each_entry.h"
#include "tools/compiler/inspect/plan_report.h"
#include "tools/compiler/inspect/profile_report.h"
#include "tools/compiler/inspect/why.h"
#include "tools/compiler/refit/refit.h"
#include "tools/compiler/verify/accuracy.h"

namespace sinter {
namespace tools {

CompileError compile_error(const Error& error, const Reporter& reporter) {
  std::vector<Diagnostic> all = reporter.diagnostics();
  const std::string code(to_string(error.code()));
  if (const auto* model = dynamic_cast<const frontend::UnsupportedModel*>(&error)) {
    for (const auto& [node, why, hint] : model->nodes())
      all.push_back({Severity::kError, code,
                     reporter.spelled(fmt::format("node '{}' ({}) is not supported: {}", node.name,
                                                  node.op, why)),
                     node.name, node.op, node.inputs, reporter.spelled(hint)});
  } else {
    const Error::Node& node = error.node();
    all.push_back({Severity::kError, code, reporter.spelled(error.what()), node.name, node.op,
                   node.inputs, ""});
  }
  Error spelled(error.code(), reporter.spelled(error.what()));
  spelled.set_node(error.node());
  return CompileError(spelled, std::move(all));
}

namespace {

/// Runs a function of <sinter/compiler.h>.
template <typename Body>
decltype(auto) library_call(const Monitor& monitor, Body&& body) {
  return at_boundary(monitor, OptionNames::kFields, std::forward<Body>(body));
}

CompileResult compile_at_boundary(const Model& model, const std::string& path,
                                  const CompileOptions& options) {
  return library_call(options.monitor, [&](Reporter& reporter) {
    CompileResult result = compile_model(BuildOptions(model, options), path, reporter);
    result.diagnostics = reporter.diagnostics();
    return result;
  });
}

}  // namespace
}  // namespace tools

using tools::BuildOptions;
using tools::library_call;
using tools::Reporter;

CompileError::~CompileError() = default;

std::string_view to_string(Severity severity) {
  switch (severity) {
    case Severity::kNote: return "note";
    case Severity::kWarning: return "warning";
    case Severity::kError: break;
  }
  return "error";
}

std::string_view to_string(Precision precision) {
  switch (precision) {
    case Precision::kModel: return "model";
    case Precision::kFloat16: return "fp16";
    case Precision::kBFloat16: return "bf16";
    case Precision::kInt8: return "int8";
    case Precision::kFloat8: return "fp8";
    case Precision::kTf32: break;
  }
  return "tf32";
}

Precision parse_precision(std::string_view text) {
  for (const Precision precision : {Precision::kModel, Precision::kFloat16, Precision::kBFloat16,
                                    Precision::kTf32, Precision::kInt8, Precision::kFloat8})
    if (to_string(precision) == text) return precision;
  throw usage_error("'{}' is no precision: write model, fp16, bf16, tf32, int8 or fp8", text);
}

std::string_view to_string(CachePrecision precision) {
  switch (precision) {
    case CachePrecision::kModel: return "model";
    case CachePrecision::kFloat8: return "fp8";
    case CachePrecision::kInt8: break;
  }
  return "int8";
}

CachePrecision parse_cache_precision(std::string_view text) {
  for (const CachePrecision precision :
       {CachePrecision::kModel, CachePrecision::kFloat8, CachePrecision::kInt8})
    if (to_string(precision) == text) return precision;
  throw usage_error("'{}' is no precision of caches: write model, fp8 or int8", text);
}

std::string_view to_string(AttentionPrecision precision) {
  return precision == AttentionPrecision::kModel ? "model" : "fp8";
}

AttentionPrecision parse_attention_precision(std::string_view text) {
  for (const AttentionPrecision precision :
       {AttentionPrecision::kModel, AttentionPrecision::kFloat8})
    if (to_string(precision) == text) return precision;
  throw usage_error("'{}' is no precision of attention: write model or fp8", text);
}

std::string_view to_string(ActivationScales scales) {
  switch (scales) {
    case ActivationScales::kStatic: return "static";
    case ActivationScales::kToken: return "token";
    case ActivationScales::kBlock: break;
  }
  return "block";
}

ActivationScales parse_activation_scales(std::string_view text) {
  for (const ActivationScales scales :
       {ActivationScales::kStatic, ActivationScales::kToken, ActivationScales::kBlock})
    if (to_string(scales) == text) return scales;
  throw usage_error("--activation-scales is '{}': it is static, token or block", text);
}

CompileResult compile(const Model& model, const CompileOptions& options) {
  return tools::compile_at_boundary(model, "", options);
}

CompileResult compile_to_file(const Model& model, const std::string& path,
                              const CompileOptions& options) {
  if (path.empty())
    throw CompileError(
        Error(ErrorCode::kUsage, "the plan's file has no name"),
        {{Severity::kError, "usage", "the plan's file has no name", "", "", {}, ""}});
  return tools::compile_at_boundary(model, path, options);
}

Accuracy verify(const Model& model, const CompileOptions& options, const VerifyOptions& verify) {
  return library_call(options.monitor, [&](Reporter& reporter) {
    const BuildOptions build(model, options);
    const auto built = tools::build_plan(build, reporter);
    Accuracy accuracy = tools::measure_accuracy(built, build, verify, reporter);
    accuracy.diagnostics = reporter.diagnostics();
    return accuracy;
  });
}

CompareResult compare(const Model& model, const CompileOptions& options,
                      const CompareOptions& compare) {
  return library_call(options.monitor, [&](Reporter& reporter) {
    auto result = tools::compare_builds(BuildOptions(model, options), compare, reporter);
    result.diagnostics = reporter.diagnostics();
    return result;
  });
}

Plan with_weights(const Plan& plan, std::span<const NamedTensor> tensors,
                  const RefitOptions& options) {
  return Plan::from_memory(refit(plan, tensors, "", options).plan);
}

RefitResult refit(const Plan& plan, std::span<const NamedTensor> tensors,
                  const std::string& plan_path, const RefitOptions& options) {
  return library_call(options.monitor, [&](Reporter& reporter) {
    RefitResult result =
        tools::refit_to(plan, tools::new_weights(tensors), plan_path, options.partial, reporter);
    result.diagnostics = reporter.diagnostics();
    return result;
  });
}

RefitResult refit(const Plan& plan, const std::string& weights_path, const std::string& plan_path,
                  const RefitOptions& options) {
  return library_call(options.monitor, [&](Reporter& reporter) {
    RefitResult result =
        tools::refit_file(plan, weights_path, plan_path, options.partial, reporter);
    result.diagnostics = reporter.diagnostics();
    return result;
  });
}

ProfileReport profile(const Plan& plan, const ProfileOptions& options) {
  return library_call(options.monitor, [&](Reporter& reporter) {
    ProfileReport report = tools::profile_plan(plan, options, reporter);
    report.diagnostics = reporter.diagnostics();
    return report;
  });
}

namespace {

/// A model's names may be invalid UTF-8, which JSON does not allow.
std::string json_text(const nlohmann::ordered_json& object) {
  return object.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::string why(const Model& model, std::string_view node_a, std::string_view node_b,
                const CompileOptions& options) {
  return library_call(options.monitor, [&](Reporter& reporter) {
    const auto explain = [&](const BuildOptions& build) {
      return tools::to_json(tools::explain_why(build, tools::import_model(model, build, reporter),
                                               tools::resolve_target(build.target),
                                               std::string(node_a), std::string(node_b), reporter));
    };
    const BuildOptions build(model, options);
    const auto text = [&](const nlohmann::ordered_json& json) {
      return reporter.spelled(json_text(json));  // reasons contain names of options
    };
    if (options.entries.empty()) return text(explain(build));
    nlohmann::ordered_json entries = nlohmann::ordered_json::array();
    for (const auto& one : tools::entries_one_by_one(build, {}, reporter)) {
      entries.push_back({{"entry", one.name}});
      entries.back().update(
          with_context(fmt::format("entry '{}'", one.name), [&] { return explain(one.options); }));
    }
    return text({{"entries", entries}});
  });
}

std::string inspect_model(const Model& model, const CompileOptions& options) {
  return library_call(options.monitor, [&](Reporter& reporter) {
    const auto imported = tools::import_model(model, options, reporter);
    return json_text(tools::model_report(tools::name_of(model), imported, false));
  });
}

std::string inspect_refit(const Plan& plan) {
  return library_call({}, [&](Reporter&) { return json_text(tools::refit_report(plan)); });
}

std::string inspect_plan(const Plan& plan, const PlanViews& views) {
  return library_call({}, [&](Reporter&) { return json_text(tools::plan_report(plan, views)); });
}

std::string graph_text(const Model& model, const CompileOptions& options,
                       std::string_view behind_pass) {
  return library_call(options.monitor, [&](Reporter& reporter) {
    tools::require_one_entry(options, "the text of a graph");
    const auto imported = tools::import_model(model, options, reporter);
    if (behind_pass == "import") return ir::print(imported.graph);
    BuildOptions build(model, options);
    build.stop_after = behind_pass;
    return ir::print(
        tools::run_passes(build, imported, tools::resolve_target(options.target), reporter).graph);
  });
}

}  // namespace sinter
