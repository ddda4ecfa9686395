// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/tuning/tune.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <thread>

#include "ir/parallel.h"
#include "runtime/format_error.h"
#include "tools/compiler/run/measure.h"

namespace sinter::tools {
namespace {

using Clock = std::chrono::steady_clock;

/// A candidate ready for timing.
struct Trial {
  std::string schedule;
  TrialBench::Reading read;
  std::vector<double> readings;
  double median() const { return statistics_of(readings).median; }
};

/// Approximate time of one use on a large GPU, from memory traffic and flops; orders the kernels.
double estimate_us(const codegen::KernelInfo& kernel, const ir::Bindings& sizes) {
  constexpr double kLaunch = 2, kBytesPerUs = 4e6, kFlopsPerUs = 3e8;
  return kLaunch + std::max(static_cast<double>(kernel.bytes.evaluate(sizes)) / kBytesPerUs,
                            static_cast<double>(kernel.flops.evaluate(sizes)) / kFlopsPerUs);
}

/// Index of the variant that runs at these sizes.
std::size_t variant_at(const codegen::KernelInfo& kernel, const ir::Bindings& sizes) {
  for (std::size_t v = 0; v + 1 < kernel.variants.size(); ++v) {
    const auto& conditions = kernel.variants[v].conditions;
    if (std::ranges::all_of(conditions,
                            [&](const auto& condition) { return condition.holds(sizes); }))
      return v;
  }
  return kernel.variants.size() - 1;
}

/// Reads all trials `rounds` times, alternating.
void read(const std::vector<Trial*>& trials, int rounds, const Reporter& reporter) {
  for (int round = 0; round < rounds; ++round) {
    reporter.check();
    for (Trial* trial : trials) trial->readings.push_back(trial->read());
  }
}

class KernelTuner {
 public:
  /// `region`: graph whose plan has the kernel as a step.
  KernelTuner(ir::Graph region, const codegen::CompileOptions& compile,
              const TuningMachine& machine, const TuningBudget& options,
              const codegen::KernelInfo& kernel, Clock::time_point deadline,
              const Reporter& reporter)
      : options_(options),
        reporter_(reporter),
        kernel_(kernel),
        deadline_(deadline),
        variant_(variant_at(kernel, options.sizes[kernel.entry])),
        region_(std::move(region)),
        compile_(compile) {
    compile_.threads = 1;
    compile_.progress = nullptr;
    compile_.checkpoint = nullptr;  // `open` checks between batches
    compile_.list_candidates = false;
    bench_ = machine.bench(region_, options.sizes[kernel.entry]);
  }

  TunedKernel run() {
    const std::vector<std::string>& all = kernel_.variants[variant_].candidates;
    result_.name = kernel_.name;
    result_.key = kernel_.key;
    result_.variant = variant_;
    result_.uses = kernel_.uses;
    result_.candidates = all.size();
    result_.rule = result_.chosen = all[0];
    std::vector<Trial> first = open({all[0]});
    if (first.empty()) return std::move(result_);  // `problem` has the reason
    rule_ = std::move(first[0]);
    result_.problem.clear();
    constexpr std::size_t kFewest = 4;
    const std::size_t batch = std::max(jobs(), kFewest);
    for (std::size_t at = 1; at < all.size() && (at == 1 || Clock::now() < deadline_); at += batch)
      try_batch({all.begin() + static_cast<std::ptrdiff_t>(at),
                 all.begin() + static_cast<std::ptrdiff_t>(std::min(at + batch, all.size()))});
    decide();
    return std::move(result_);
  }

 private:
  std::size_t jobs() const {
    const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
    return options_.jobs > 0 ? static_cast<std::size_t>(options_.jobs) : cores;
  }

  /// Compiles a plan per schedule in parallel and opens them. Skips failures: a candidate that does
  /// not compile is Sinter's defect, not the user's.
  std::vector<Trial> open(const std::vector<std::string>& schedules) {
    reporter_.check();
    std::vector<std::optional<codegen::CompiledPlan>> plans(schedules.size());
    std::vector<std::string> problems(schedules.size());
    ir::for_each_job(schedules.size(), jobs(), [&](std::size_t i) {
      try {
        plans[i] = codegen::compile(region_, options_for(schedules[i]));
      } catch (const std::exception& error) {
        problems[i] = error.what();
      }
    });
    std::vector<Trial> trials;
    for (std::size_t i = 0; i < schedules.size(); ++i) try {
        if (!plans[i]) throw internal_error(problems[i]);
        Trial trial{schedules[i], bench_->open(*plans[i], schedules[i]), {}};
        trial.read();  // warm-up: loads kernels
        trials.push_back(std::move(trial));
      } catch (const std::exception& error) {
        if (result_.problem.empty())
          result_.problem = fmt::format("'{}' was not timed: {}", schedules[i], error.what());
      }
    return trials;
  }

  codegen::CompileOptions options_for(const std::string& schedule) const {
    codegen::CompileOptions options = compile_;
    options.schedules = {{kernel_.key, {{variant_, {schedule, "tuning"}}}}};
    options.gemm = kernel_.tactic == "gemm" ? schedule : kernel_.tactic;
    return options;
  }

  void try_batch(const std::vector<std::string>& schedules) {
    constexpr int kRounds = 2;
    constexpr std::size_t kKept = 3;
    std::vector<Trial> trials = open(schedules);
    std::vector<Trial*> turns = {&rule_};
    for (Trial& trial : trials) turns.push_back(&trial);
    read(turns, kRounds, reporter_);
    result_.tried += trials.size();
    for (Trial& trial : trials) best_.push_back(std::move(trial));
    std::ranges::stable_sort(
        best_, [](const Trial& a, const Trial& b) { return a.median() < b.median(); });
    if (best_.size() > kKept) best_.resize(kKept);
  }

  /// Measures the best candidates twice more; the winner must win both times.
  void decide() {
    constexpr int kRounds = 4;
    std::vector<Trial*> turns = {&rule_};
    for (Trial& trial : best_) turns.push_back(&trial);
    std::vector<std::vector<double>> halves(turns.size());
    for (int half = 0; half < 2; ++half) {
      for (Trial* trial : turns) trial->readings.clear();
      read(turns, kRounds, reporter_);
      for (std::size_t t = 0; t < turns.size(); ++t) halves[t].push_back(turns[t]->median());
    }
    const auto mean = [&](std::size_t t) { return (halves[t][0] + halves[t][1]) / 2; };
    std::size_t winner = 0;
    for (std::size_t t = 1; t < turns.size(); ++t) {
      const bool wins = halves[t][0] < (1 - kTuningMargin) * halves[0][0] &&
                        halves[t][1] < (1 - kTuningMargin) * halves[0][1];
      if (wins && mean(t) < mean(winner)) winner = t;
    }
    result_.rule_us = mean(0);
    result_.chosen_us = mean(winner);
    result_.chosen = turns[winner]->schedule;
  }

  const TuningBudget& options_;
  const Reporter& reporter_;
  const codegen::KernelInfo& kernel_;
  Clock::time_point deadline_;
  std::size_t variant_;
  ir::Graph region_;
  codegen::CompileOptions compile_;
  std::unique_ptr<TrialBench> bench_;
  Trial rule_;
  std::vector<Trial> best_;
  TunedKernel result_;
};

}  // namespace

ir::Graph region_graph(const ir::Graph& graph, std::size_t n, const ir::Ranges& ranges) {
  ir::GraphBuilder builder("region");
  for (const auto& [symbol, range] : ranges) {
    builder.range(symbol, range);
    builder.input("size_" + symbol, {DType::kUInt8, {ir::Dim::symbol(symbol)}});
  }
  std::map<ir::ValueId, ir::ValueId> known;
  const std::function<ir::ValueId(ir::ValueId)> copy = [&](ir::ValueId id) {
    if (const auto at = known.find(id); at != known.end()) return at->second;
    const ir::Node* producer = graph.producer(id);
    ir::ValueId made;
    if (graph.is_constant(id))
      made = builder.constant(graph.value(id).constant, graph.value(id).name);
    else if (producer && producer->op->name == "Reshape")
      made = builder.add("Reshape", {copy(producer->inputs[0])}, producer->attrs);
    else
      made = builder.input(fmt::format("in_{}", known.size()), graph.type(id));
    known.emplace(id, made);
    return made;
  };
  const ir::Node& node = graph.nodes()[n];
  std::vector<ir::ValueId> inputs;
  for (const ir::ValueId input : node.inputs) inputs.push_back(copy(input));
  const ir::GraphBuilder::OriginScope scope(builder, node.origins);
  const auto outputs = builder.add_multi(node.op->name, std::move(inputs), node.attrs, node.body);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    builder.output(fmt::format("out_{}", i), outputs[i]);
  return builder.finish();
}

std::vector<TunedKernel> tune_kernels(const ir::Graph& model,
                                      std::span<const codegen::EntryGraph> entries,
                                      const codegen::CompileOptions& compile,
                                      const TuningMachine& machine, const TuningBudget& budget,
                                      const Reporter& reporter) {
  codegen::CompileOptions listing = compile;
  listing.list_candidates = true;
  const auto kernels = (entries.empty() ? codegen::compile(model, listing)
                                        : codegen::compile_entries(model, entries, listing))
                           .kernels;
  // A kernel timed alone reads its weights in the plan's layout, which other kernels may share.
  std::vector<const ir::Graph*> graphs;
  for (const codegen::EntryGraph& entry : entries) graphs.push_back(&entry.graph);
  if (entries.empty()) graphs.push_back(&model);
  codegen::CompileOptions alone = compile;
  alone.packed_weights = codegen::packed_weights(graphs, compile);
  std::vector<std::pair<double, const codegen::KernelInfo*>> order;
  double rest = 0;
  for (const codegen::KernelInfo& kernel : kernels) {
    const ir::Bindings& sizes = budget.sizes[kernel.entry];
    const std::size_t variant = variant_at(kernel, sizes);
    const auto known = compile.schedules.find(kernel.key);
    if ((known != compile.schedules.end() && known->second.contains(variant)) ||
        kernel.variants[variant].candidates.size() < 2)
      continue;
    order.emplace_back(estimate_us(kernel, sizes) * static_cast<double>(kernel.uses), &kernel);
    rest += order.back().first;
  }
  std::ranges::stable_sort(order, [](const auto& a, const auto& b) { return a.first > b.first; });
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double>(budget.seconds));
  std::vector<TunedKernel> results;
  for (const auto& [weight, kernel] : order) {
    reporter.progress("tuning kernels", results.size(), order.size());
    const auto now = Clock::now();
    if (now >= end) {
      TunedKernel untouched;
      untouched.name = kernel->name;
      untouched.uses = kernel->uses;
      untouched.problem = "no time was left";
      results.push_back(std::move(untouched));
      continue;
    }
    const auto share = std::chrono::duration_cast<Clock::duration>((end - now) * (weight / rest));
    rest -= weight;
    const ir::Graph& graph = *graphs[kernel->entry];
    try {
      results.push_back(KernelTuner(region_graph(graph, kernel->node,
                                                 codegen::ranges_of_entry(model.ranges(), graph)),
                                    alone, machine, budget, *kernel, now + share, reporter)
                            .run());
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kCancelled) throw;
      TunedKernel failed;
      failed.name = kernel->name;
      failed.uses = kernel->uses;
      failed.problem = error.what();
      results.push_back(std::move(failed));
    }
  }
  reporter.progress("tuning kernels", order.size(), order.size());
  return results;
}

}  // namespace sinter::tools
