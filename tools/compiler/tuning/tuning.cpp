#include "tools/compiler/tuning/tuning.h"

#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sinter/error.h>

#ifdef SINTER_WITH_CUDA
#include "runtime/cuda/tuning_cache.h"
#endif
#include "runtime/plan/works.h"

namespace sinter::tools {
namespace {

#ifdef SINTER_WITH_CUDA
constexpr const char* kSuffix = runtime::kTuningSuffix;
#else
constexpr const char* kSuffix = ".tuning";
#endif

bool calls_libraries(const plan::fb::PlanT& plan) {
  bool found = false;
  for (const auto& step : plan.steps)
    plan::for_each_work(step->work, [&](const plan::fb::WorkUnion& work) {
      found =
          found || work.type == plan::fb::Work::MatmulStep || work.type == plan::fb::Work::ConvStep;
    });
  return found;
}

}  // namespace

void add_tuning_options(Command& verb, TuningOptions& options) {
  auto* tune = verb.add_option(
      "--tune", options.seconds,
      "CUDA: choose schedules of generated kernels by timing candidates on this machine's GPU for "
      "so many seconds, then algorithms of libraries");
  tune->check_positive()->type_name("SECONDS")->excludes("--schedule");
  verb.add_option("--tuning-cache", options.file,
                  "File that keeps what was tuned (default with --tune: the plan's name with "
                  ".tuning behind it); without --tune schedules are taken from it");
  verb.add_option("--tuning-gpu", options.gpu,
                  "Whose schedules to take, if the file has those of several GPUs: its name");
  verb.add_option("--optShapes", options.shapes, "Shapes to tune for: NAME:8x128")->needs(tune);
}

Tuning::Tuning(TuningOptions options, std::string plan_path, const Console& console,
               const std::function<TuningMachine(int device)>& machine)
    : options_(std::move(options)),
      plan_path_(std::move(plan_path)),
      file_(options_.file.empty() && options_.seconds > 0 ? plan_path_ + kSuffix : options_.file),
      console_(console) {
  if (options_.seconds > 0) try {
      machine_ = machine(options_.device);
    } catch (const Error& error) {
      throw Error(error.code(),
                  fmt::format("--tune times kernels on a GPU, and none can be used here: {}. Tune "
                              "where the GPU is, and give the file that this writes to "
                              "--tuning-cache",
                              error.what()));
    }
  if (!file_.empty() && (options_.seconds <= 0 || std::filesystem::exists(file_)))
    kept_ = read_schedules(file_);
}

void Tuning::check_target(const Target& target) const {
  if (!target.cuda)
    throw Error(ErrorCode::kUsage,
                "tuning is about target cuda: a plan for the CPU has no kernels");
  if (!machine_) return;
  if (target.architectures.size() != 1 || target.architectures[0] != machine_->architecture)
    throw Error(ErrorCode::kUsage,
                fmt::format("--tune on this machine's {} chooses for {} alone, not for {}: write "
                            "--target=cuda; or tune on a GPU of that architecture and give the "
                            "file that this writes to --tuning-cache",
                            machine_->gpu, machine_->architecture,
                            fmt::join(target.architectures, " and ")));
}

/// For each graph the size of every symbol, of which an entry point may have made constants.
std::vector<ir::Bindings> Tuning::choose_sizes(const ir::Graph& model,
                                               std::span<const codegen::EntryGraph> entries) {
  const ShapeMap shapes = parse_shapes(options_.shapes);
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
      console_.note(fmt::format("tuning{} for {}{}", entry.empty() ? "" : " entry " + entry,
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
    throw Error(ErrorCode::kUsage, "--optShapes: no entry point takes these shapes" + why);
  return sizes;
}

void Tuning::choose(const std::string& target_text, const ir::Graph& model,
                    std::span<const codegen::EntryGraph> entries, const Target& target,
                    codegen::CompileOptions& compile) {
  check_target(target);
  if (target.architectures.size() != 1) {
    console_.note(
        fmt::format("tuning cache '{}' is not used: schedules are tuned for one "
                    "architecture, the plan is for {}",
                    file_, fmt::join(target.architectures, " and ")));
    return;
  }
  std::optional<std::string> gpu;
  if (!options_.gpu.empty())
    gpu = options_.gpu;
  else if (machine_)
    gpu = machine_->gpu;
  else if (!target_text.starts_with("cuda:"))
    gpu = gpu_machine(options_.device).gpu;  // that `target` has been resolved to
  compile.schedules = chosen_ = schedules_for(kept_, file_, target.architectures[0], gpu);
  if (!machine_) return;
  TuneOptions tune;
  tune.seconds = options_.seconds;
  tune.jobs = compile.threads;
  tune.sizes = choose_sizes(model, entries);
  tuned_ = tune_kernels(model, entries, compile, *machine_, tune, console_);
  keep_schedules(file_, *machine_, tuned_);
  if (std::filesystem::exists(file_)) kept_ = read_schedules(file_);
  compile.schedules = chosen_ = schedules_for(kept_, file_, machine_->architecture, machine_->gpu);
}

void Tuning::finish(const codegen::CompiledPlan& plan) {
  const std::string beside = plan_path_ + kSuffix;
  if (!file_.empty() && file_ != beside) copy_tuning(file_, beside);
  if (machine_) {
    if (!tuned_.empty()) {
      console_.print(fmt::format("on {}, {}:", machine_->gpu, machine_->versions));
      console_.print(format_tuning(tuned_));
    }
    report_["gpu"] = machine_->gpu;
    report_["kernels"] = to_json(tuned_);
    if (calls_libraries(plan.parts.meta)) tune_libraries();
    if (file_ != beside) copy_tuning(beside, file_);
  }
  tell_use(plan);
}

void Tuning::tune_libraries() {
#ifdef SINTER_WITH_CUDA
  SessionOptions session;
  session.device = options_.device;
  session.thorough_tuning = true;
  with_context("timing algorithms of libraries", [&] {
    Session one(Plan::load(plan_path_), session);
    for (const auto& shapes : input_shapes_) one.warm_up(shapes);
  });
  std::vector<std::vector<std::string>> rows = {{"problem", "us", "chosen"}};
  for (const auto& [where, problem, chosen] : runtime::read_tuning_file(plan_path_ + kSuffix)) {
    if (chosen.blob.empty()) continue;  // a schedule
    rows.push_back({problem.substr(0, problem.find(" | ")),
                    fmt::format("{:.2f}", chosen.microseconds), chosen.note});
    report_["libraries"].push_back({{"environment", where},
                                    {"problem", problem},
                                    {"us", chosen.microseconds},
                                    {"chosen", chosen.note}});
  }
  if (rows.size() > 1) console_.print(format_table(rows));
#endif
}

void Tuning::tell_use(const codegen::CompiledPlan& plan) {
  std::size_t used = 0;
  for (const codegen::KernelInfo& kernel : plan.kernels) {
    used += chosen_.contains(kernel.key);
    for (const codegen::VariantInfo& variant : kernel.variants)
      if (!variant.refused.empty())
        console_.note(
            fmt::format("tuning cache '{}': kernel '{}' has no schedule '{}' any more; "
                        "the rule's is used",
                        file_, kernel.name, variant.refused));
  }
  console_.note(
      fmt::format("tuning cache '{}': schedules of {} of {} kernels are from it; {} of "
                  "its {} schedules are for other kernels or GPUs",
                  file_, used, plan.kernels.size(), kept_.size() > used ? kept_.size() - used : 0,
                  kept_.size()));
  report_["file"] = file_;
  report_["kernels_from_cache"] = used;
}

}  // namespace sinter::tools
