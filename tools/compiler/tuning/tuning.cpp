// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/tuning/tuning.h"

#include <charconv>
#include <filesystem>
#include <set>

#include <fmt/ranges.h>

#include "runtime/format_error.h"
#include "runtime/libraries/tuning_cache.h"
#include "runtime/plan/step_visitor.h"
#include "runtime/plan_access.h"
#include "tools/compiler/options/shapes.h"

namespace sinter::tools {
namespace {

constexpr const char* kSuffix = runtime::kTuningSuffix;

bool calls_libraries(const plan::fb::PlanT& plan) {
  bool found = false;
  for (const auto& step : plan.steps)
    plan::for_each_step_work(step->work, [&](const plan::fb::WorkUnion& work) {
      found =
          found || work.type == plan::fb::Work::MatmulStep || work.type == plan::fb::Work::ConvStep;
    });
  return found;
}

/// Host operators of the plan, human-readable; empty: none.
std::string host_operators(const plan::fb::PlanT& plan) {
  std::vector<std::string> names;
  for (const auto& code : plan.custom_code)
    if (code->kind == plan::fb::CodeKind::Host) names.push_back(code->name);
  return fmt::format("{}", fmt::join(names, ", "));
}

// An entry: environment "schedules sm_90 NVIDIA H200", problem "KEY VARIANT NAME", no blob, and the
// note "SCHEDULE | details".
constexpr std::string_view kEnvironment = "schedules ";
constexpr std::string_view kBar = " | ";

/// Removes and returns the first word of `text`.
std::string first_word(std::string_view& text) {
  const std::size_t end = std::min(text.find(' '), text.size());
  const std::string word(text.substr(0, end));
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

std::optional<KeptSchedule> as_schedule(const runtime::TunedChoice& choice) {
  std::string_view where = choice.environment, problem = choice.problem;
  if (!where.starts_with(kEnvironment)) return std::nullopt;
  where.remove_prefix(kEnvironment.size());
  KeptSchedule kept;
  kept.architecture = first_word(where);
  kept.gpu = where;
  kept.key = first_word(problem);
  const std::string variant = first_word(problem);
  const auto [end, error] =
      std::from_chars(variant.data(), variant.data() + variant.size(), kept.variant);
  if (error != std::errc() || end != variant.data() + variant.size()) return std::nullopt;
  kept.kernel = problem;
  const std::string& note = choice.algorithm.note;
  const std::size_t bar = note.find(kBar);
  kept.schedule = note.substr(0, bar);
  if (bar != note.npos) kept.details = note.substr(bar + kBar.size());
  kept.microseconds = choice.algorithm.microseconds;
  return kept;
}

}  // namespace

std::vector<KeptSchedule> read_schedules(const std::string& file) {
  std::vector<KeptSchedule> all;
  for (const runtime::TunedChoice& choice : runtime::check_tuning_file(file))
    if (auto kept = as_schedule(choice)) all.push_back(std::move(*kept));
  return all;
}

void keep_schedules(const std::string& file, const TuningMachine& machine,
                    const std::vector<TunedKernel>& kernels) {
  const auto cache = runtime::TuningCache::open(
      file, fmt::format("{}{} {}", kEnvironment, machine.architecture, machine.gpu));
  for (const TunedKernel& kernel : kernels) {
    if (kernel.rule_us <= 0) continue;
    runtime::TunedAlgorithm entry;
    entry.microseconds = kernel.chosen_us;
    entry.note = fmt::format("{}{}rule: {}, {:.2f} us; {} of {} tried; {}", kernel.chosen, kBar,
                             kernel.chosen == kernel.rule ? "the same" : kernel.rule,
                             kernel.rule_us, kernel.tried, kernel.candidates - 1, machine.versions);
    cache->store(fmt::format("{} {} {}", kernel.key, kernel.variant, kernel.name), entry);
  }
  if (!cache->save()) throw usage_error("tuning cache '{}' cannot be written", file);
}

void copy_tuning(const std::string& from, const std::string& to) {
  if (!runtime::copy_tuning_file(from, to))
    throw usage_error("tuning cache '{}' cannot be written", to);
}

std::map<std::string, codegen::ChosenSchedules> schedules_for(
    const std::vector<KeptSchedule>& kept, const std::string& file, const std::string& architecture,
    const std::optional<std::string>& gpu) {
  std::set<std::string> gpus;
  for (const KeptSchedule& entry : kept)
    if (entry.architecture == architecture) gpus.insert(entry.gpu);
  if (!gpu && gpus.size() > 1)
    throw usage_error(
        "tuning cache '{}' has schedules for several GPUs of {}: say which by --tuning-gpu: {}",
        file, architecture, fmt::join(gpus, ", "));
  std::map<std::string, codegen::ChosenSchedules> chosen;
  for (const KeptSchedule& entry : kept)
    if (entry.architecture == architecture && (!gpu || entry.gpu == *gpu))
      chosen[entry.key][entry.variant] = {entry.schedule, fmt::format("tuning on {}", entry.gpu)};
  return chosen;
}

bool is_asked_for(const TuneOptions& options) {
  return options.seconds > 0 || !options.file.empty();
}

Tuning::Tuning(TuneOptions options, std::string plan_path, Reporter& reporter,
               const std::function<TuningMachine(int device)>& machine)
    : options_(std::move(options)),
      plan_path_(std::move(plan_path)),
      file_(options_.file.empty() && options_.seconds > 0 ? plan_path_ + kSuffix : options_.file),
      reporter_(reporter) {
  if (options_.seconds > 0 && options_.file.empty() && plan_path_.empty())
    throw usage_error(
        "what is timed is kept in a file, and a plan in memory has none beside it: name one for "
        "the tuning");
  if (options_.seconds > 0) try {
      machine_ = machine(options_.device);
    } catch (const Error& error) {
      throw Error(
          error.code(),
          fmt::format("--tune times kernels on a GPU, and none can be used here: {}. Tune where "
                      "the GPU is, and give the file that this writes to --tuning-cache",
                      error.what()));
    }
  if (!file_.empty() && (options_.seconds <= 0 || std::filesystem::exists(file_)))
    kept_ = read_schedules(file_);
}

void Tuning::check_target(const Target& target) const {
  if (!target.traits().generates_kernels)
    throw usage_error("tuning is about target cuda: a plan for the CPU has no kernels");
  if (!machine_) return;
  if (target.architectures.size() != 1 || target.architectures[0] != machine_->architecture)
    throw usage_error(
        "--tune on this machine's {} chooses for {} alone, not for {}: write --target=cuda; or "
        "tune on a GPU of that architecture and give the file that this writes to --tuning-cache",
        machine_->gpu, machine_->architecture, fmt::join(target.architectures, " and "));
}

/// For each graph the value of every symbol, including those that an entry point made constant.
std::vector<ir::Bindings> Tuning::choose_sizes(const ir::Graph& model,
                                               std::span<const codegen::EntryGraph> entries) {
  const Shapes shapes = options_.shapes;
  std::vector<ir::Bindings> sizes;
  const auto add = [&](const ir::Graph& graph, ir::Bindings numbers, const std::string& entry) {
    auto& inputs = input_shapes_.emplace_back();
    for (const ir::ValueId id : graph.inputs()) {
      auto& shape = inputs[graph.value(id).name];
      for (const ir::Dim& dim : graph.type(id).shape) shape.push_back(dim.evaluate(numbers));
    }
    std::vector<std::string> texts;
    for (const auto& [symbol, value] : numbers)
      texts.push_back(fmt::format("{}={}", symbol, value));
    if (!texts.empty())
      reporter_.note("tuning",
                     fmt::format("tuning{} for {}{}", entry.empty() ? "" : " entry " + entry,
                                 fmt::join(texts, ", "),
                                 options_.shapes.empty() ? "; --optShapes says otherwise" : ""));
    sizes.push_back(std::move(numbers));
  };
  if (entries.empty()) add(model, typical_sizes(model, shapes), "");
  std::size_t taken = 0;
  std::string why;
  for (const codegen::EntryGraph& entry : entries) {
    ir::Bindings numbers;
    try {
      numbers = typical_sizes(entry.graph, shapes);
      ++taken;
    } catch (const Error& error) {
      why += fmt::format("; {}: {}", entry.name, error.what());
      numbers = typical_sizes(entry.graph, {});
    }
    for (const auto& [symbol, range] : entry.limits) numbers.emplace(symbol, range.max);
    numbers.merge(typical_sizes(model, {}));
    add(entry.graph, std::move(numbers), entry.name);
  }
  if (!entries.empty() && taken == 0)
    throw usage_error("--optShapes: no entry point takes these shapes" + why);
  return sizes;
}

void Tuning::choose(const std::string& target_text, const ir::Graph& model,
                    std::span<const codegen::EntryGraph> entries, const Target& target,
                    codegen::CompileOptions& compile) {
  check_target(target);
  if (target.architectures.size() != 1) {
    reporter_.note("tuning", fmt::format("tuning cache '{}' is not used: schedules are tuned for "
                                         "one architecture, the plan is for {}",
                                         file_, fmt::join(target.architectures, " and ")));
    return;
  }
  std::optional<std::string> gpu;
  if (!options_.gpu.empty())
    gpu = options_.gpu;
  else if (machine_)
    gpu = machine_->gpu;
  else if (!target_text.starts_with("cuda:"))
    gpu = gpu_machine(options_.device).gpu;  // `target` was resolved to this GPU
  compile.schedules = chosen_ = schedules_for(kept_, file_, target.architectures[0], gpu);
  if (!machine_) return;
  TuningBudget tune;
  tune.seconds = options_.seconds;
  tune.jobs = compile.threads;
  tune.sizes = choose_sizes(model, entries);
  tuned_ = tune_kernels(model, entries, compile, *machine_, tune, reporter_);
  keep_schedules(file_, *machine_, tuned_);
  if (std::filesystem::exists(file_)) kept_ = read_schedules(file_);
  compile.schedules = chosen_ = schedules_for(kept_, file_, machine_->architecture, machine_->gpu);
}

TuningResult Tuning::finish(const codegen::CompiledPlan& plan, const std::string& written) {
  const std::string beside = plan_path_.empty() ? "" : plan_path_ + kSuffix;
  if (!file_.empty() && !beside.empty() && file_ != beside) copy_tuning(file_, beside);
  TuningResult result;
  result.file = file_;
  if (machine_) {
    result.gpu = machine_->gpu;
    result.versions = machine_->versions;
    result.kernels.assign(tuned_.begin(), tuned_.end());
    if (calls_libraries(plan.parts.meta)) {
      const std::string operators = host_operators(plan.parts.meta);
      if (!operators.empty() && options_.operator_libraries.empty())
        reporter_.note("tuning", fmt::format("algorithms of libraries are not timed, as a run of "
                                             "the plan needs the functions of {}: name their "
                                             "library by --op-library, or leave the choice to the "
                                             "plan's sessions",
                                             operators));
      else if (beside.empty() || written.empty())
        reporter_.note("tuning",
                       "algorithms of libraries are timed for plans in files alone: sessions of "
                       "this one choose them at first use");
      else
        tune_libraries(written, result);
    }
    if (!beside.empty() && file_ != beside) copy_tuning(beside, file_);
  }
  tell_use(plan, result);
  return result;
}

void Tuning::tune_libraries(const std::string& written, TuningResult& result) {
  SessionOptions session;
  session.device = options_.device;
  session.thorough_tuning = true;
  session.operator_libraries = options_.operator_libraries;
  with_context("timing algorithms of libraries", [&] {
    const Plan loaded = Plan::load(written);
    // Sessions store their choices beside the plan's final path.
    std::const_pointer_cast<plan::PlanData>(PlanAccess::data(loaded))->path = plan_path_;
    Session one(loaded, session);
    for (const auto& shapes : input_shapes_) {
      reporter_.check();
      one.warm_up(shapes);
    }
  });
  for (const auto& [where, problem, chosen] : runtime::read_tuning_file(plan_path_ + kSuffix))
    if (!chosen.blob.empty())  // otherwise a schedule
      result.libraries.push_back({where, problem, chosen.note, chosen.microseconds});
}

void Tuning::tell_use(const codegen::CompiledPlan& plan, TuningResult& result) {
  std::size_t used = 0;
  for (const codegen::KernelInfo& kernel : plan.kernels) {
    used += chosen_.contains(kernel.key);
    for (const codegen::VariantInfo& variant : kernel.variants)
      if (!variant.refused.empty())
        reporter_.warn(
            "tuning",
            fmt::format(
                "tuning cache '{}': kernel '{}' has no schedule '{}' any more; the rule's is used",
                file_, kernel.name, variant.refused));
  }
  reporter_.note("tuning",
                 fmt::format("tuning cache '{}': schedules of {} of {} kernels are from it; {} of "
                             "its {} schedules are for other kernels or GPUs",
                             file_, used, plan.kernels.size(),
                             kept_.size() > used ? kept_.size() - used : 0, kept_.size()));
  result.kernels_from_file = used;
}

}  // namespace sinter::tools
