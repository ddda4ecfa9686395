// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/inspect/plan_report.h"

#include <filesystem>
#include <map>
#include <set>

#include <fmt/ranges.h>

#include "ir/text/text.h"
#include "runtime/files/input_file.h"
#include "runtime/format_error.h"
#include "runtime/libraries/tuning_cache.h"
#include "runtime/plan/entries.h"
#include "runtime/plan/plan_data.h"
#include "runtime/plan/step_visitor.h"
#include "runtime/plan_access.h"
#include "tools/compiler/inspect/step_list.h"
#include "tools/compiler/options/shapes.h"

namespace sinter::tools {
namespace {

using nlohmann::ordered_json;
using plan::fb::BufferKind;
using plan::fb::KernelStepT;
using plan::fb::PlanT;

const char* code_kind(plan::fb::CodeKind kind) {
  switch (kind) {
    case plan::fb::CodeKind::Text: return "CUDA text";
    case plan::fb::CodeKind::Binary: return "cubins";
    case plan::fb::CodeKind::Host: return "host function";
  }
  return "";
}

/// A plan with its expressions as text, or as numbers for a bound shape.
class Inspector {
 public:
  Inspector(const Plan& plan, const PlanViews& views)
      : plan_(plan), meta_(PlanAccess::data(plan)->meta), texts_(expression_texts(meta_)) {
    if (!views.shapes.empty() || meta_.symbols.empty()) values_ = bind_shapes(meta_, views.shapes);
  }

  void summary() {
    report_["target"] = meta_.target;
    report_["architectures"] = meta_.architectures;
    report_["compiler"] = meta_.compiler_version;
    report_["cuda_version"] = meta_.cuda_version;
    report_["steps"] = meta_.steps.size();
    report_["weight_bytes"] = plan_.weight_bytes();
    if (meta_.manifest) {
      const auto& manifest = *meta_.manifest;
      std::vector<std::string> options;
      for (const auto& option : manifest.options)
        options.push_back(option->key + "=" + option->value);
      report_["model"] = manifest.model_name;
      report_["model_hash"] = fmt::format("{:016x}", manifest.model_hash);
      report_["nodes_imported"] = manifest.nodes_imported;
      report_["options"] = options;
      for (const auto& output : manifest.measured)
        report_["measured"].push_back(
            {{"output", output->output}, {"relative_error", output->relative_error}});
      report_["precision_notes"] = manifest.precision_notes;
    }
    for (const auto& code : meta_.custom_code)
      report_["custom_code"].push_back({{"operator", code->name},
                                        {"kind", code_kind(code->kind)},
                                        {"hash", fmt::format("{:016x}", code->hash)}});
    bindings("inputs", plan_.inputs());
    bindings("outputs", plan_.outputs());
    states();
    for (const auto& entry : meta_.entries)
      report_["entries"].push_back({{"name", entry->name},
                                    {"limits", plan::limits_text(meta_, *entry)},
                                    {"steps", entry->step_count}});
  }

  void steps() { list_steps(meta_, values_, report_); }

  void kernels() {
    report_["architectures"] = meta_.architectures;
    for (const auto& step : meta_.steps)
      plan::for_each_step_work(step->work, [&](const plan::fb::WorkUnion& work) {
        const KernelStepT* kernel = work.AsKernelStep();
        if (kernel == nullptr) return;
        for (const auto& variant : kernel->variants) {
          std::vector<std::string> grid;
          for (const auto size : variant->grid) grid.push_back(text(size));
          report_["kernels"].push_back(
              {{"step", step->name},
               {"function", variant->function},
               {"block", variant->block},
               {"grid", grid},
               {"cluster", variant->cluster},
               {"shared_bytes", variant->shared_bytes},
               {"conditions", conditions_text(variant->conditions, texts_)},
               {"schedule", variant->schedule},
               {"architectures", architectures_of(*variant)},
               {"chosen_by", chosen_by(*variant)}});
        }
      });
  }

  /// The plan's architectures for which the variant exists.
  std::vector<std::string> architectures_of(const plan::fb::KernelVariantT& variant) const {
    if (variant.architectures.empty()) return meta_.architectures;
    std::vector<std::string> names;
    for (const std::uint32_t architecture : variant.architectures)
      names.push_back(meta_.architectures[architecture]);
    return names;
  }

  /// The index of its first module: architectures with equal source share it.
  static std::uint32_t first_module(const plan::fb::KernelVariantT& variant) {
    return variant.module_ + (variant.architectures.empty() ? 0 : variant.architectures[0]);
  }

  void source() {
    std::map<std::uint32_t, std::set<std::string>> schedules;  // by the kernels' first modules
    for (const auto& step : meta_.steps)
      plan::for_each_step_work(step->work, [&](const plan::fb::WorkUnion& work) {
        if (const KernelStepT* kernel = work.AsKernelStep())
          for (const auto& variant : kernel->variants)
            if (!variant->schedule.empty())
              schedules[first_module(*variant)].insert(fmt::format(
                  "// {}: {}, by {}", variant->function, variant->schedule, chosen_by(*variant)));
      });
    std::set<std::uint64_t> seen;
    const auto sources = PlanAccess::data(plan_)->sources;
    for (std::uint32_t m = 0; m < meta_.modules.size(); ++m) {
      const auto& module = meta_.modules[m];
      if (!seen.insert(module->source_offset).second) continue;
      const std::string body(reinterpret_cast<const char*>(sources.data()) + module->source_offset,
                             module->source_size);
      report_["sources"].push_back(
          {{"name", module->name}, {"source", body}, {"schedules", schedules[m]}});
    }
  }

  void graph() { report_["graph"] = meta_.graph_text; }

  void memory() {
    if (values_.empty())
      throw usage_error("this plan has symbolic dimensions: say for which --shapes");
    const plan::StepRange steps = steps_for(meta_, values_);
    const auto layout = plan::plan_memory(meta_, values_, steps);
    report_["buffers"] = ordered_json::array();
    for (std::size_t i = 0; i < meta_.buffers.size(); ++i) {
      const auto& buffer = *meta_.buffers[i];
      if (buffer.kind == BufferKind::Weight || !plan::is_used(buffer, steps)) continue;
      ordered_json entry = {{"buffer", i},
                            {"kind", plan::fb::EnumNameBufferKind(buffer.kind)},
                            {"bytes", values_[buffer.bytes]}};
      if (buffer.kind == BufferKind::Arena) {
        entry["offset"] = layout.offsets[i];
        entry["first_step"] = buffer.first_step;
        entry["last_step"] = buffer.last_step;
      }
      report_["buffers"].push_back(std::move(entry));
    }
    report_["arena_bytes"] = layout.arena_bytes;
    report_["arena_bytes_without_reuse"] = layout.unshared_bytes;
  }

  /// Choices by timing on GPUs: libraries' algorithms and tactics, from sessions; schedules of
  /// kernels, from the compiler.
  void tuning() {
    report_["tuning_file"] = "";
    report_["tuning"] = ordered_json::array();
    const std::string& path = PlanAccess::data(plan_)->path;
    if (path.empty()) return;  // a plan in memory has no such file
    const std::string file = path + runtime::kTuningSuffix;
    report_["tuning_file"] = file;
    for (const auto& [where, problem, algorithm] : runtime::read_tuning_file(file))
      report_["tuning"].push_back({{"environment", where},
                                   {"problem", problem},
                                   {"is_schedule", algorithm.blob.empty()},
                                   {"us", algorithm.microseconds},
                                   {"chosen", algorithm.note}});
  }

  ordered_json take() { return std::move(report_); }

 private:
  std::string text(std::uint32_t expression) const {
    return values_.empty() ? texts_[expression] : std::to_string(values_[expression]);
  }

  static std::string chosen_by(const plan::fb::KernelVariantT& variant) {
    return variant.chosen_by.empty() ? "rule" : variant.chosen_by;
  }

  static std::string type_text(const BindingInfo& info) {
    std::vector<std::string> dims;
    for (const auto& dim : info.shape)
      dims.push_back(dim.min == dim.max || dim.text.find_first_of("*+-( ") != std::string::npos
                         ? dim.text
                         : fmt::format("{}={}..{}", dim.text, dim.min, dim.max));
    return fmt::format("{}[{}]", to_string(info.dtype), fmt::join(dims, ", "));
  }

  void bindings(const char* what, const std::vector<BindingInfo>& infos) {
    for (const BindingInfo& info : infos)
      report_[what].push_back({{"name", info.name}, {"type", type_text(info)}});
  }

  void states() {
    const auto inputs = plan_.inputs(), outputs = plan_.outputs();
    for (const auto& state : meta_.states)
      report_["states"].push_back(
          {{"input", inputs[state->input].name}, {"output", outputs[state->output].name}});
  }

  const Plan& plan_;
  const PlanT& meta_;
  std::vector<std::string> texts_;
  std::vector<std::int64_t> values_;
  ordered_json report_ = ordered_json::object();
};

}  // namespace

bool is_plan_file(const std::string& path) {
  if (std::error_code none; std::filesystem::is_directory(path, none)) return false;
  const files::InputFile file = files::open_input(path);
  if (!file.problem.empty())
    throw file.error(path, fmt::format("'{}' cannot be opened: {}", path, file.problem));
  char magic[6] = {};
  files::read_some(file.descriptor, std::as_writable_bytes(std::span(magic)), path);
  return std::string_view(magic, sizeof magic) == "SINTER";
}

ordered_json plan_report(const Plan& plan, const PlanViews& views) {
  Inspector inspector(plan, views);
  if (views.steps) inspector.steps();
  if (views.kernels) inspector.kernels();
  if (views.memory) inspector.memory();
  if (views.source) inspector.source();
  if (views.graph) inspector.graph();
  if (views.tuning) inspector.tuning();
  if (!views.steps && !views.kernels && !views.memory && !views.source && !views.graph &&
      !views.tuning)
    inspector.summary();
  return inspector.take();
}

ordered_json model_report(const std::string& name, const frontend::ImportedModel& model,
                          bool graph) {
  ordered_json report = {{"model", name},
                         {"opset", model.opset},
                         {"producer", model.producer},
                         {"nodes", model.node_count},
                         {"graph_nodes", model.graph.nodes().size()}};
  if (graph) {
    report["graph"] = ir::print(model.graph);
    return report;
  }
  const auto add = [&](const char* what, const std::string& of, const ir::TensorType& type) {
    report[what].push_back({{"name", of}, {"type", ir::to_string(type)}});
  };
  for (const auto id : model.graph.inputs())
    add("inputs", model.graph.value(id).name, model.graph.type(id));
  for (std::size_t i = 0; i < model.graph.outputs().size(); ++i)
    add("outputs", model.graph.output_names()[i], model.graph.type(model.graph.outputs()[i]));
  for (const auto& [symbol, range] : model.graph.ranges())
    report["dimensions"].push_back({{"name", symbol}, {"min", range.min}, {"max", range.max}});
  std::map<std::string, int> counts;
  for (const auto& node : model.graph.nodes()) ++counts[node.op->name];
  report["operators"] = counts;
  return report;
}

ordered_json steps_report(const BuildOptions& options, const frontend::ImportedModel& model,
                          const Shapes& shapes, Reporter& reporter) {
  BuildOptions build = options;
  build.code = false;
  const auto result = build_plan(build, model, resolve_target(build.target), reporter);
  const auto& plan = result.plan.parts.meta;
  std::vector<std::int64_t> values;
  if (!shapes.empty() || plan.symbols.empty()) values = bind_shapes(plan, shapes);
  ordered_json report = {{"model", build.model.path.empty() ? build.model.name : build.model.path},
                         {"target", result.target.to_string()},
                         {"precision", to_string(build.precision)},
                         {"fuse", build.fuse ? "on" : "off"},
                         {"shapes", to_text(shapes)}};
  list_steps(plan, values, report);
  return report;
}

}  // namespace sinter::tools
