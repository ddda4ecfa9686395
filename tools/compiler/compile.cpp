// SPDX-License-Identifier: Apache-2.0
// Compiles a model to a plan with all results.
#include <chrono>
#include <memory>
#include <optional>

#include "fusion/paging/decoder_inputs.h"
#include "fusion/paging/paging_refused.h"
#include "runtime/files/output_file.h"
#include "runtime/format_error.h"
#include "runtime/plan/plan_file.h"
#include "tools/compiler/api.h"
#include "tools/compiler/build/model_source.h"
#include "tools/compiler/options/weights.h"
#include "tools/compiler/run/inputs.h"
#include "tools/compiler/tuning/tuning.h"
#include "tools/compiler/verify/accuracy.h"

namespace sinter::tools {
namespace {

/// Measures the plan's errors and records them, with their inputs, in its manifest.
Accuracy record_accuracy(const BuildOptions& options, BuildResult& built,
                         const Reporter& reporter) {
  Accuracy accuracy = with_context("--verify runs the plan", [&] {
    return measure_accuracy(built, options, *options.verify, reporter);
  });
  auto& manifest = *built.plan.parts.meta.manifest;
  for (const auto& output : accuracy.outputs) {
    auto entry = std::make_unique<plan::fb::OutputErrorT>();
    entry->output = output.output;
    entry->relative_error = output.relative_error;
    manifest.measured.push_back(std::move(entry));
  }
  auto entry = std::make_unique<plan::fb::OptionT>();
  entry->key = "verify";
  entry->value = fmt::format("{}, {}", accuracy.source, accuracy.shapes);
  manifest.options.push_back(std::move(entry));
  return accuracy;
}

/// The result without the plan.
CompileResult describe(const BuildResult& built, const Reporter& reporter) {
  CompileResult result;
  result.target = built.target.to_string();
  result.data_files = built.model.files;
  result.nodes_imported = built.model.node_count;
  result.steps = built.plan.parts.meta.steps.size();
  result.kernels = built.plan.stats.kernels;
  result.kernels_from_cache = built.plan.stats.cache_hits;
  result.import_ms = built.times.import_ms;
  result.passes_ms = built.times.passes_ms;
  result.codegen_ms = built.times.codegen_ms;
  for (const auto& pass : built.pipeline.times)
    result.passes.push_back({pass.name, pass.milliseconds, pass.nodes_before, pass.nodes_after});
  const fusion::Context& context = built.pipeline.context;
  for (const auto& note : context.precision_notes)
    result.precision_notes.push_back(reporter.spelled(note));
  for (const auto& layer : context.layers) {
    result.layers.push_back(layer_result(layer));
    result.layers.back().kept = reporter.spelled(layer.kept);
  }
  for (const auto& cache : context.caches)
    result.caches.push_back({cache.input, cache.output, cache.scales,
                             std::string(to_string(cache.from)), std::string(to_string(cache.to)),
                             ir::to_string(cache.shape), cache.error, cache.bytes_before,
                             cache.bytes_after});
  for (const auto& state : built.plan.states)
    result.states.push_back({state.input, state.output, state.in_place, state.reason});
  for (const auto& decision : context.decisions)
    result.decisions.push_back({decision.producer, decision.consumer, decision.fused,
                                reporter.spelled(decision.reason), decision.bytes});
  for (const auto& choice : context.layouts)
    result.layouts.push_back({choice.node, choice.bytes, choice.other_bytes, choice.reason});
  return result;
}

/// Whether a recognized decoder is paged: nothing else may determine the model's inputs.
bool finds_decoders(const BuildOptions& options, const frontend::ImportedModel& model) {
  const bool has_own_inputs = options.verify || options.packed || !options.entries.empty() ||
                              !options.states.find || !options.states.pairs.empty() ||
                              !options.min_shapes.empty() || !options.max_shapes.empty();
  return options.serve.find && !options.serve.paging && !has_own_inputs && options.fuse &&
         options.attention_precision == AttentionPrecision::kModel && !is_fused(model.graph) &&
         fusion::may_be_decoder(of_later_steps(model));
}

/// Builds the plan, paged if the model is a decoder.
BuildResult build(const BuildOptions& options, Reporter& reporter) {
  const auto target = resolve_target(options.target);
  const auto start = std::chrono::steady_clock::now();
  auto model = import_model(options.model, options, reporter, Bodies::kAll);
  const std::chrono::duration<double, std::milli> import = std::chrono::steady_clock::now() - start;
  const auto finish = [&](BuildResult result) {
    result.times.import_ms = import.count();
    return result;
  };
  if (!finds_decoders(options, model))
    return finish(build_plan(options, std::move(model), target, reporter));
  BuildOptions paged = options;
  paged.serve.paging.emplace();
  frontend::ImportedModel decoder = model;
  decoder.graph = fusion::of_one_sequence(of_later_steps(model));
  decoder.flag.reset();
  try {
    auto result = build_plan(paged, std::move(decoder), target, reporter);
    reporter.note(kPagedNote,
                  "the model is a decoder: the plan pages its caches and draws tokens, for texts "
                  "one by one and many at once; --serve=off keeps the model's own inputs");
    return finish(std::move(result));
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kCancelled) throw;
    const auto* refused = dynamic_cast<const fusion::PagingRefused*>(&error);
    if (refused == nullptr || refused->is_decoder)
      reporter.note("serve", fmt::format("the plan is of one text at a time, with the model's own "
                                         "inputs, since it cannot be paged ({})",
                                         error.what()));
  }
  model.warnings.clear();  // already reported
  return finish(build_plan(options, std::move(model), target, reporter));
}

}  // namespace

CompileResult compile_model(const BuildOptions& options, const std::string& path,
                            Reporter& reporter) {
  // Checked before minutes of work; files of external data are known after import.
  std::vector<std::string> inputs = options.weights.calibration_files;
  inputs.insert(inputs.end(), {options.model.path, options.tuning.file});
  if (options.verify && options.serve.paging)
    throw usage_error(
        "--verify compares a plan with its model, whose inputs are others than those of --serve: "
        "leave one of both out");
  if (options.verify)
    for (const auto& file : tensor_paths(options.verify->inputs.files)) inputs.push_back(file);
  files::check_output(path, inputs);
  if (options.tuning.seconds > 0 && !options.schedule.empty())
    throw usage_error(
        "one schedule for all kernels and tuning, which chooses one for each, exclude each other");
  std::optional<Tuning> tuning;
  BuildOptions with = options;
  if (is_asked_for(options.tuning)) {
    tuning.emplace(options.tuning, path, reporter);
    with.tune = [&](const auto& model, const auto& entries, const auto& target, auto& compile) {
      tuning->choose(options.target, model, entries, target, compile);
    };
  }
  BuildResult built = build(with, reporter);
  files::check_output(path, built.model.files);
  CompileResult result = describe(built, reporter);
  if (options.verify) {
    result.accuracy = record_accuracy(options, built, reporter);
    if (!result.ok()) {
      reporter.add({Severity::kError,
                    "accuracy",
                    path.empty()
                        ? "the error is above the most that is allowed: there is no plan"
                        : fmt::format("the error is above --max-error: {} was not written", path),
                    "",
                    "",
                    {},
                    "allow more, or keep the model's own precision and weights"});
      return result;
    }
  }
  reporter.check();
  // An existing file is replaced only after nothing can fail any more.
  std::optional<plan::PlanFile> file;
  if (path.empty()) {
    result.plan = plan::serialize_plan(built.plan.parts);
    result.plan_bytes = result.plan.size();
  } else {
    file.emplace(built.plan.parts, path);
    result.path = path;
    result.plan_bytes = file->size();
  }
  const fusion::Context& context = built.pipeline.context;
  if (!context.layers.empty())
    result.bytes_without_rounding = bytes_without_rounding(
        context.layers, context.precision, context.target, static_cast<double>(result.plan_bytes));
  note_idle(context.layers, options, reporter);
  if (tuning)
    result.tuning =
        tuning->finish(built.plan, file && !file->is_stream() ? file->readable_path() : "");
  if (file) file->commit();
  return result;
}

}  // namespace sinter::tools
