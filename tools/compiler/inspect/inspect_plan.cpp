#include "tools/compiler/inspect/inspect_plan.h"

#include <fstream>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sinter/error.h>
#include <sinter/sinter.h>

#ifdef SINTER_WITH_CUDA
#include "runtime/cuda/tuning_cache.h"
#endif
#include "runtime/plan/entries.h"
#include "runtime/plan/plan_data.h"
#include "runtime/plan/works.h"
#include "runtime/plan_access.h"
#include "tools/compiler/inspect/step_list.h"
#include "tools/compiler/options/expressions.h"

namespace sinter::tools {
namespace {

using plan::fb::BufferKind;
using plan::fb::KernelStepT;
using plan::fb::PlanT;
using plan::fb::Work;

/// A plan with its expressions as text, or as numbers once a shape is bound.
class Inspector {
 public:
  Inspector(const Plan& plan, const PlanViews& views, const Console& console)
      : plan_(plan),
        meta_(PlanAccess::data(plan)->meta),
        console_(console),
        texts_(expression_texts(meta_)) {
    if (!views.shapes.empty() || meta_.symbols.empty()) values_ = bind_shapes(meta_, views.shapes);
  }

  void summary() {
    report_["target"] = meta_.target;
    report_["architectures"] = meta_.architectures;
    report_["compiler"] = meta_.compiler_version;
    report_["steps"] = meta_.steps.size();
    report_["weight_bytes"] = plan_.weight_bytes();
    console_.print(fmt::format(
        "plan for {}{}, written by sinter {}{}", meta_.target,
        meta_.architectures.empty() ? ""
                                    : fmt::format(" ({})", fmt::join(meta_.architectures, ", ")),
        meta_.compiler_version,
        meta_.cuda_version > 0 ? fmt::format(" with NVRTC {}.{}", meta_.cuda_version / 1000,
                                             meta_.cuda_version % 1000 / 10)
                               : ""));
    if (meta_.manifest) {
      const auto& manifest = *meta_.manifest;
      std::vector<std::string> options;
      for (const auto& option : manifest.options)
        options.push_back(option->key + "=" + option->value);
      report_["model"] = manifest.model_name;
      report_["model_hash"] = fmt::format("{:016x}", manifest.model_hash);
      report_["options"] = options;
      console_.print(fmt::format("model {} ({:016x}), {} nodes; {}", manifest.model_name,
                                 manifest.model_hash, manifest.nodes_imported,
                                 fmt::join(options, ", ")));
      for (const auto& note : manifest.precision_notes) console_.print("precision: " + note);
      for (const auto& output : manifest.measured) {
        console_.print(fmt::format("measured: output {}, relative error {:.2e}", output->output,
                                   output->relative_error));
        report_["measured"].push_back(
            {{"output", output->output}, {"relative_error", output->relative_error}});
      }
      report_["precision_notes"] = manifest.precision_notes;
    }
    bindings("input", plan_.inputs());
    bindings("output", plan_.outputs());
    states();
    for (const auto& entry : meta_.entries) {
      const std::string limits = plan::limits_text(meta_, *entry);
      console_.print(fmt::format("entry {}: {}, {} steps", entry->name, limits, entry->step_count));
      report_["entries"].push_back(
          {{"name", entry->name}, {"limits", limits}, {"steps", entry->step_count}});
    }
    console_.print(fmt::format("{} steps, weights {}", meta_.steps.size(),
                               format_bytes(static_cast<double>(plan_.weight_bytes()))));
  }

  void steps() { list_steps(meta_, values_, console_, report_); }

  void kernels() {
    std::vector<std::vector<std::string>> rows = {
        {"kernel", "block", "grid", "shared", "when", "schedule", "by"}};
    for (const auto& step : meta_.steps)
      plan::for_each_work(step->work, [&](const plan::fb::WorkUnion& work) {
        const KernelStepT* kernel = work.AsKernelStep();
        if (kernel == nullptr) return;
        for (const auto& variant : kernel->variants) {
          std::vector<std::string> grid;
          for (const auto size : variant->grid) grid.push_back(text(size));
          const std::vector<std::string> conditions = conditions_text(variant->conditions, texts_);
          std::string blocks = fmt::format("{}", fmt::join(grid, " x "));
          if (variant->cluster > 1) blocks += fmt::format(" in clusters of {}", variant->cluster);
          rows.push_back(
              {variant->function, fmt::format("{}", fmt::join(variant->block, "x")), blocks,
               fmt::format("{}", variant->shared_bytes),
               conditions.empty() ? "always" : fmt::format("{}", fmt::join(conditions, " and ")),
               variant->schedule, chosen_by(*variant)});
          report_["kernels"].push_back({{"step", step->name},
                                        {"function", variant->function},
                                        {"block", variant->block},
                                        {"grid", grid},
                                        {"cluster", variant->cluster},
                                        {"shared_bytes", variant->shared_bytes},
                                        {"conditions", conditions},
                                        {"schedule", variant->schedule},
                                        {"chosen_by", chosen_by(*variant)}});
        }
      });
    console_.print(rows.size() == 1 ? "no kernels: the CPU target runs loop programs"
                                    : format_table(rows));
  }

  static std::string chosen_by(const plan::fb::KernelVariantT& variant) {
    return variant.chosen_by.empty() ? "rule" : variant.chosen_by;
  }

  void source() {
    std::map<std::uint32_t, std::set<std::string>> schedules;  // by the kernels' first modules
    for (const auto& step : meta_.steps)
      plan::for_each_work(step->work, [&](const plan::fb::WorkUnion& work) {
        if (const KernelStepT* kernel = work.AsKernelStep())
          for (const auto& variant : kernel->variants)
            if (!variant->schedule.empty())
              schedules[variant->module_].insert(fmt::format(
                  "// {}: {}, by {}", variant->function, variant->schedule, chosen_by(*variant)));
      });
    std::set<std::uint64_t> seen;
    const auto sources = PlanAccess::data(plan_)->sources;
    for (std::uint32_t m = 0; m < meta_.modules.size(); ++m) {
      const auto& module = meta_.modules[m];
      if (!seen.insert(module->source_offset).second) continue;
      for (const std::string& line : schedules[m]) console_.print(line);
      const std::string body(reinterpret_cast<const char*>(sources.data()) + module->source_offset,
                             module->source_size);
      console_.print(body);
      report_["sources"].push_back(
          {{"name", module->name}, {"source", body}, {"schedules", schedules[m]}});
    }
    if (meta_.modules.empty()) console_.print("no CUDA text: this plan is for the CPU");
  }

  void graph() {
    console_.print(meta_.graph_text);
    report_["graph"] = meta_.graph_text;
  }

  void memory() {
    if (values_.empty())
      throw Error(ErrorCode::kUsage, "this plan has symbolic dimensions: say for which --shapes");
    const plan::StepRange steps = steps_for(meta_, values_);
    const auto layout = plan::plan_memory(meta_, values_, steps);
    std::vector<std::vector<std::string>> rows = {{"buffer", "kind", "bytes", "offset", "steps"}};
    for (std::size_t i = 0; i < meta_.buffers.size(); ++i) {
      const auto& buffer = *meta_.buffers[i];
      if (buffer.kind == BufferKind::Weight || !plan::is_used(buffer, steps)) continue;
      const bool arena = buffer.kind == BufferKind::Arena;
      rows.push_back({fmt::format("{}", i), plan::fb::EnumNameBufferKind(buffer.kind),
                      fmt::format("{}", values_[buffer.bytes]),
                      arena ? fmt::format("{}", layout.offsets[i]) : "",
                      arena ? fmt::format("{}..{}", buffer.first_step, buffer.last_step) : ""});
    }
    console_.print(format_table(rows));
    console_.print(fmt::format("arena {}; without reuse it would be {}",
                               format_bytes(static_cast<double>(layout.arena_bytes)),
                               format_bytes(static_cast<double>(layout.unshared_bytes))));
    report_["arena_bytes"] = layout.arena_bytes;
    report_["arena_bytes_without_reuse"] = layout.unshared_bytes;
  }

  /// What was chosen by timing on GPUs: libraries' algorithms and ways to do a step, by sessions,
  /// and schedules of kernels, by the compiler.
  void tuning() {
#ifdef SINTER_WITH_CUDA
    const std::string file = PlanAccess::data(plan_)->path + runtime::kTuningSuffix;
    std::string environment;
    std::vector<std::vector<std::string>> rows;
    const auto flush = [&] {
      if (!rows.empty()) console_.print(environment + "\n" + format_table(rows));
      rows.clear();
    };
    report_["tuning"] = nlohmann::ordered_json::array();
    for (const auto& [where, problem, algorithm] : runtime::read_tuning_file(file)) {
      if (where != environment) flush();
      environment = where;
      if (rows.empty()) rows = {{"problem", "us", "chosen"}};
      // Behind the bar are the alternatives with their sizes; in front of a kernel's name a hash.
      rows.push_back({algorithm.blob.empty()
                          ? problem.substr(std::min(problem.find(' ') + 1, problem.size()))
                          : problem.substr(0, problem.find(" | ")),
                      fmt::format("{:.2f}", algorithm.microseconds), algorithm.note});
      report_["tuning"].push_back({{"environment", where},
                                   {"problem", problem},
                                   {"us", algorithm.microseconds},
                                   {"chosen", algorithm.note}});
    }
    flush();
    if (report_["tuning"].empty())
      console_.print(fmt::format("nothing has been chosen by timing yet: there is no {}", file));
#else
    throw Error(ErrorCode::kUsage, "this build has no CUDA target, which --tuning is about");
#endif
  }

  const nlohmann::ordered_json& report() const { return report_; }

 private:
  std::string text(std::uint32_t expression) const {
    return values_.empty() ? texts_[expression] : std::to_string(values_[expression]);
  }

  static std::string type_text(const BindingInfo& info) {
    std::vector<std::string> dims;
    for (const auto& dim : info.shape)
      dims.push_back(dim.min == dim.max || dim.text.find_first_of("*+-( ") != std::string::npos
                         ? dim.text
                         : fmt::format("{}={}..{}", dim.text, dim.min, dim.max));
    return fmt::format("{}[{}]", to_string(info.dtype), fmt::join(dims, ", "));
  }

  /// Inputs or outputs; of those that are states the text has one line in `states`.
  void bindings(const char* what, const std::vector<BindingInfo>& infos) {
    const bool is_input = std::string_view(what) == "input";
    std::set<std::size_t> states;
    for (const auto& state : meta_.states) states.insert(is_input ? state->input : state->output);
    for (std::size_t i = 0; i < infos.size(); ++i) {
      const auto type = type_text(infos[i]);
      if (!states.contains(i)) console_.print(fmt::format("{} {}: {}", what, infos[i].name, type));
      report_[fmt::format("{}s", what)].push_back({{"name", infos[i].name}, {"type", type}});
    }
  }

  void states() {
    const auto inputs = plan_.inputs(), outputs = plan_.outputs();
    for (const auto& state : meta_.states) {
      const BindingInfo &input = inputs[state->input], &output = outputs[state->output];
      console_.print(fmt::format("state {} -> {}: {}", input.name, output.name, type_text(input)));
      report_["states"].push_back({{"input", input.name}, {"output", output.name}});
    }
  }

  const Plan& plan_;
  const PlanT& meta_;
  const Console& console_;
  std::vector<std::string> texts_;
  std::vector<std::int64_t> values_;
  nlohmann::ordered_json report_;
};

}  // namespace

bool is_plan_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(ErrorCode::kUsage, fmt::format("'{}' cannot be opened", path));
  char magic[6] = {};
  file.read(magic, sizeof magic);
  return std::string_view(magic, sizeof magic) == "SINTER";
}

void inspect_plan(const std::string& path, const PlanViews& views, const Console& console) {
  const auto plan = Plan::load(path);
  Inspector inspector(plan, views, console);
  if (views.steps) inspector.steps();
  if (views.kernels) inspector.kernels();
  if (views.memory) inspector.memory();
  if (views.source) inspector.source();
  if (views.graph) inspector.graph();
  if (views.tuning) inspector.tuning();
  if (!views.steps && !views.kernels && !views.memory && !views.source && !views.graph &&
      !views.tuning)
    inspector.summary();
  console.result(inspector.report());
}

}  // namespace sinter::tools
