// SPDX-License-Identifier: Apache-2.0
#include "codegen/compile.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sinter/error.h>
#include <sinter/version.h>

#include "codegen/families/registry.h"
#include "codegen/kernel_table.h"
#include "codegen/plan/largest_sizes.h"
#include "codegen/plan/plan_buffers.h"
#include "codegen/program/describe.h"
#include "codegen/tasks/task_run.h"
#include "ir/ranks/ranks.h"
#include "ir/text/text.h"

namespace sinter::codegen {
namespace {

/// Devices for which kernels are generated; empty if the target generates none. Cost estimates need
/// no architecture.
std::vector<const DeviceModel*> devices_of(const CompileOptions& options) {
  std::vector<const DeviceModel*> devices;
  if (!options.target->traits().generates_kernels) return devices;
  for (const std::string& architecture : options.architectures)
    devices.push_back(&options.target->device(architecture));
  if (devices.empty()) devices.push_back(&reference_device());
  return devices;
}

class Compiler {
 public:
  /// `model` has the bindings' shapes and all ranges; `graphs` are compiled in this order.
  Compiler(const Graph& model, std::span<const Graph* const> graphs, const CompileOptions& options)
      : graph_(graphs[0]),
        ranges_(model.ranges()),
        options_(options),
        exprs_(model.ranges()),
        buffers_(*graph_, exprs_, model),
        context_{options, devices_of(options), graphs, exprs_, buffers_},
        kernels_(options, exprs_, buffers_, context_.devices) {
    for (const Graph* graph : graphs) node_count_ += graph->nodes().size();
    for (const KernelFamily* family : families())
      if (auto state = family->begin(context_))
        context_.states.emplace(family->name(), std::move(state));
  }

  void add_entry(const EntryGraph& entry) {
    graph_ = &entry.graph;
    exprs_.set_ranges(ranges_of_entry(ranges_, entry.graph));
    buffers_.begin(entry.graph);
    auto info = std::make_unique<plan::fb::EntryT>();
    info->name = entry.name;
    info->first_step = static_cast<std::uint32_t>(steps_.size());
    add_steps();
    info->step_count = static_cast<std::uint32_t>(steps_.size()) - info->first_step;
    entries_.push_back(std::move(info));
    entry_limits_.push_back(&entry.limits);
  }

  void add_steps() {
    add_nodes();
    if (options_.progress && !context_.generates_kernels())
      options_.progress(nodes_done_, node_count_);
    for (const PlanBuffers::Copy& copy : buffers_.copies()) add_copy(copy);
    add_state_infos();
    ir::PrintOptions print;
    print.constants = &result_.printed;
    graph_texts_ += ir::print(*graph_, print);
  }

  CompiledPlan run() {
    plan::fb::PlanT& plan = result_.parts.meta;
    exprs_.set_ranges(ranges_);
    plan.compiler_version = SINTER_VERSION;
    plan.target = options_.target->name();
    if (context_.generates_kernels() && options_.code) compile_kernels();
    if (context_.generates_kernels())
      for (StepT& step : steps_)
        with_context(fmt::format("step '{}'", step.name),
                     [&] { ask_for_the_largest(step, exprs_); });
    set_lifetimes();
    add_states(plan);
    buffers_.write(result_.parts, options_.ranks);
    plan.ranks = static_cast<std::uint32_t>(options_.ranks);
    for (auto& [offset, tensor] : buffers_.take_traced())
      result_.traced.push_back({offset, std::move(tensor)});
    for (StepT& step : steps_) plan.steps.push_back(std::make_unique<StepT>(std::move(step)));
    for (auto& code : context_.custom_code)
      plan.custom_code.push_back(std::make_unique<plan::fb::CustomCodeT>(std::move(code)));
    write_manifest(plan);
    plan.graph_text = std::move(graph_texts_);
    exprs_.write(plan);
    for (const auto& symbol : plan.symbols)
      if (const auto value = options_.values_of.find(symbol->name);
          value != options_.values_of.end())
        for (std::size_t i = 0; i < plan.inputs.size(); ++i)
          if (plan.inputs[i]->name == value->second)
            symbol->value_of = static_cast<std::int32_t>(i);
    for (const auto& symbol : plan.symbols)
      symbol->is_rank = options_.ranks > 1 && symbol->name == ir::kRankSymbol;
    add_limits(plan);
    return std::move(result_);
  }

 private:
  void add_nodes() {
    for (std::size_t n = 0; n < graph_->nodes().size(); ++n) {
      const Node& node = graph_->nodes()[n];
      if (options_.checkpoint) options_.checkpoint();
      if (loops_ == 0) ++nodes_done_;
      if (node.op->name == "Reshape") continue;  // the same buffer with another shape
      if (loops_ == 0) node_ = n;
      const std::string name = fmt::format("{}_{}", name_stem(node), steps_.size() + run_.size());
      try {
        if (node.op->kind == ir::OpKind::kWhile)
          add_loop(node);
        else if (node.op->name == "TokenCount")
          continue;  // the code that binds the inputs computes it
        else if (node.op->kind == ir::OpKind::kExtent)
          add_extent(node);
        else
          add_step(node, name);
      } catch (Error& error) {
        if (error.node().name.empty()) error.set_node(error_node(node));
        error.add_context(fmt::format("lowering '{}' ({})", name, describe(node)));
        throw;
      }
      if (options_.progress && !context_.generates_kernels())
        options_.progress(nodes_done_, node_count_);
    }
    end_run();
  }

  /// Adds the steps of a loop's body. Restores the current graph afterwards, also on errors.
  void add_body(const Graph& body) {
    const Graph* outer = std::exchange(graph_, &body);
    ++loops_;
    const auto leave = [&] {
      --loops_;
      graph_ = outer;
    };
    try {
      add_nodes();
    } catch (...) {
      leave();
      throw;
    }
    leave();
  }

  /// Adds a While: copies of its initial states, the step, then the steps of its body. One of at
  /// most one iteration becomes a branch.
  void add_loop(const Node& node) {
    end_run();
    const bool checked = node.attrs.get_int("checked") != 0;
    const bool is_branch = is_branch_of(*graph_, node);
    PlanBuffers::Loop loop = buffers_.begin_body(node);
    // A branch reads its condition once; nothing changes it.
    if (is_branch) loop.states.erase(loop.states.begin());
    for (const PlanBuffers::Copy& copy : loop.initial)
      if (!is_branch || copy.output != 0) add_copy(copy);
    const std::size_t number = steps_.size();
    StepT step;
    step.name = fmt::format("{}_{}", is_branch ? "branch" : "loop", number);
    step.origins = node.origins;
    std::set<std::uint32_t> reads(loop.captured.begin(), loop.captured.end());
    reads.insert(loop.states.begin(), loop.states.end());
    if (is_branch) reads.insert(loop.first_state);
    step.reads.assign(reads.begin(), reads.end());
    step.writes = loop.states;
    if (!is_branch) step.writes.push_back(loop.counter);
    set_cost(step, {ir::Dim(0), ir::Dim(0), ir::Dim(0)}, exprs_);
    steps_.push_back(std::move(step));
    add_body(*node.body);
    for (const PlanBuffers::Copy& copy : buffers_.end_body())
      if (!is_branch || copy.output != 0) add_copy(copy);
    const auto steps = static_cast<std::uint32_t>(steps_.size() - number - 1);
    if (is_branch) {
      plan::fb::IfStepT work;
      work.condition = loop.first_state;
      work.then_steps = steps;
      steps_[number].work.Set(work);
      return;
    }
    plan::fb::WhileStepT work;
    work.steps = steps;
    work.counter = loop.counter;
    if (const auto& trips = node.attrs.get_dims("trips"); !trips.empty())
      work.trips = static_cast<std::int32_t>(exprs_.intern(trips[0]));
    if (checked) work.condition = static_cast<std::int32_t>(loop.states[0]);
    steps_[number].work.Set(std::move(work));
  }

  /// Whether a loop has at most one iteration and nothing reads its number or condition.
  static bool is_branch_of(const Graph& graph, const Node& node) {
    const auto& trips = node.attrs.get_dims("trips");
    const Graph& body = *node.body;
    const auto is_free = [](const Graph& in, ValueId value) {
      return in.users(value).empty() && !in.is_output(value);
    };
    return node.attrs.get_int("checked") != 0 && trips.size() == 1 && trips[0] == Dim(1) &&
           is_free(body, body.inputs()[0]) && is_free(body, body.inputs()[1]) &&
           is_free(graph, node.outputs[0]) && body.producer(body.outputs()[0]) == nullptr;
  }

  void add_extent(const Node& node) {
    end_run();
    const std::uint32_t extent = buffers_.of(node.outputs[0]);
    if (const std::uint32_t source = buffers_.of(node.inputs[0]); source != extent)
      add_copy({source, extent, 0});
    StepT step;
    step.name = fmt::format("size_{}", steps_.size());
    step.origins = node.origins;
    step.reads = {extent};
    set_cost(step, {ir::Dim(0), ir::Dim(0), ir::Dim(0)}, exprs_);
    plan::fb::ExtentStepT work;
    work.extent = extent;
    step.work.Set(work);
    steps_.push_back(std::move(step));
  }

  /// The buffers of sizes that the kernels of a node read on the device.
  std::vector<std::uint32_t> extents_of(const Node& node) const {
    std::set<std::uint32_t> found;
    if (!context_.generates_kernels()) return {};
    for (const std::string& symbol : ir::named_symbols(node, graph_->types(node.outputs)))
      for (const auto& [name, buffer] : exprs_.extents_of(Dim::symbol(symbol)))
        found.insert(buffer);
    return {found.begin(), found.end()};
  }

  Error::Node error_node(const Node& node) const {
    Error::Node described{fmt::format("{}", fmt::join(node.origins, ", ")), name_stem(node), {}};
    for (const ValueId input : node.inputs)
      described.inputs.push_back(ir::to_string(graph_->type(input)));
    return described;
  }

  void add_step(const Node& node, const std::string& name) {
    if (node.op->kind != OpKind::kFused || !node.body)
      throw Error(ErrorCode::kUnsupported,
                  "only fused regions and reshapes can be compiled; the passes must have wrapped "
                  "every other operator");
    Region region{*graph_, node, {}, {}, name};
    const std::vector<std::uint32_t> extents = extents_of(node);
    for (const ValueId value : node.inputs) region.inputs.push_back(buffers_.of(value));
    for (const ValueId value : node.outputs) region.outputs.push_back(buffers_.of(value));
    for (const ScatterRegion& scatter : scatter_regions(node))
      if (const std::uint32_t data = region.inputs[scatter.data],
          result = region.outputs[scatter.result];
          data != result)
        add_copy({data, result, 0});
    for (StepTactics& step : family_of(region, *options_.target).lower(region, context_)) {
      if (step.step.name.empty())
        step.step.name = fmt::format("{}_{}", name_stem(node), steps_.size() + run_.size());
      for (const std::uint32_t extent : extents)
        if (std::ranges::find(step.step.reads, extent) == step.step.reads.end())
          step.step.reads.push_back(extent);
      if (joins_run(step, extents)) {
        run_.back().origins = node.origins;
        continue;
      }
      end_run();
      add_tactics(node.origins, step, extents);
    }
  }

  /// Adds the step to the run of steps that may become one launch, if it may.
  bool joins_run(StepTactics& step, const std::vector<std::uint32_t>& extents) {
    if (!options_.tasks || !context_.generates_kernels() || loops_ > 0 || !extents.empty())
      return false;
    std::string why;
    const std::optional<std::size_t> tactic = task_tactic(step, context_, why);
    if (!tactic) return false;
    run_.push_back({std::move(step), *tactic, {}});
    return true;
  }

  /// Adds the steps of the run: as one if they are several.
  void end_run() {
    std::vector<RunStep> run = std::exchange(run_, {});
    if (run.size() < 2) {
      for (RunStep& member : run) add_tactics(member.origins, member.step, {});
      return;
    }
    StepTactics whole = merge_run(std::move(run), fmt::format("tasks_{}", steps_.size()), context_);
    const std::vector<std::string> origins = whole.step.origins;
    add_tactics(origins, whole, {});
  }

  /// A step with one tactic of one part is that part's work; otherwise it is a choice.
  void add_tactics(const std::vector<std::string>& origins, StepTactics& step,
                   const std::vector<std::uint32_t>& extents) {
    const NodePlace at{entries_.size(), node_};
    const bool is_choice = step.tactics.size() > 1 || !step.tactics[0].name.empty() ||
                           step.tactics[0].parts.size() > 1;
    plan::fb::TacticStepT choice;
    for (std::size_t t = 0; t < step.tactics.size(); ++t) {
      Tactic& tactic = step.tactics[t];
      auto written = std::make_unique<plan::fb::TacticT>();
      written->name = std::move(tactic.name);
      written->conditions = std::move(tactic.conditions);
      for (std::size_t p = 0; p < tactic.parts.size(); ++p) {
        TacticPart& part = tactic.parts[p];
        Place place{steps_.size(), {}};
        if (is_choice) place.part = {t, p};
        if (loops_ > 0)
          part.tuned_by.reset();  // without the loop the node would be in another
                                  // graph
        if (part.program) kernels_.add(part, origins, extents, at, place);
        if (part.work.type == plan::fb::Work::LoopStep) ++result_.stats.kernels;
        written->parts.push_back(std::make_unique<plan::fb::PartT>());
        written->parts.back()->work = std::move(part.work);
      }
      choice.tactics.push_back(std::move(written));
    }
    choice.samples = std::move(step.samples);
    if (is_choice)
      step.step.work.Set(std::move(choice));
    else
      step.step.work = std::move(choice.tactics[0]->parts[0]->work);
    steps_.push_back(std::move(step.step));
  }

  void add_states(plan::fb::PlanT& plan) const {
    for (const ir::State& state : graph_->states()) {
      auto entry = std::make_unique<plan::fb::StateT>();
      entry->input = static_cast<std::uint32_t>(state.input);
      entry->output = static_cast<std::uint32_t>(state.output);
      const std::string& name =
          graph_->value(graph_->inputs()[static_cast<std::size_t>(state.input)]).name;
      for (const CompileOptions::SplitState& split : options_.split_states)
        if (split.input == name) {
          entry->axis = split.axis;
          entry->parts = static_cast<std::uint32_t>(split.parts);
        }
      plan.states.push_back(std::move(entry));
    }
  }

  /// Records, for the graph whose steps have been added, how each state is updated. The first entry
  /// point that copies a state supplies the reason.
  void add_state_infos() {
    result_.states.resize(graph_->states().size());
    for (std::size_t i = 0; i < result_.states.size(); ++i) {
      const ir::State& state = graph_->states()[i];
      StateInfo& info = result_.states[i];
      info.input = graph_->value(graph_->inputs()[static_cast<std::size_t>(state.input)]).name;
      info.output = graph_->output_names()[static_cast<std::size_t>(state.output)];
      if (info.reason.empty()) info.reason = buffers_.why_copied(state);
      info.in_place = info.reason.empty();
    }
  }

  /// Symbols get their indices only when all expressions have been written.
  void add_limits(plan::fb::PlanT& plan) {
    for (std::size_t e = 0; e < entries_.size(); ++e) {
      for (std::uint32_t s = 0; s < plan.symbols.size(); ++s) {
        const auto limit = entry_limits_[e]->find(plan.symbols[s]->name);
        if (limit != entry_limits_[e]->end())
          entries_[e]->limits.emplace_back(s, limit->second.min, limit->second.max);
      }
      plan.entries.push_back(std::move(entries_[e]));
    }
  }

  void add_copy(const PlanBuffers::Copy& copy) {
    end_run();
    StepT step;
    step.name = fmt::format("copy_{}", steps_.size());
    step.reads = {copy.source};
    step.writes = {copy.target};
    const Dim bytes = buffers_.size(copy.target).bytes;
    set_cost(step, {bytes, bytes, ir::Dim(0)}, exprs_);
    plan::fb::CopyStepT work;
    work.source = copy.source;
    work.target = copy.target;
    work.bytes = exprs_.intern(bytes);
    step.work.Set(std::move(work));
    steps_.push_back(std::move(step));
  }

  void compile_kernels() {
    if (options_.architectures.empty())
      throw Error(ErrorCode::kUsage,
                  "no GPU architecture to compile for: name one, as in --target=cuda:sm_90");
    result_.parts.meta.architectures = options_.architectures;
    kernels_.compile(steps_, result_);
  }

  void set_lifetimes() {
    for (std::size_t s = 0; s < steps_.size(); ++s)
      for (const auto* list : {&steps_[s].reads, &steps_[s].writes})
        for (const std::uint32_t buffer : *list)
          buffers_.use(buffer, static_cast<std::uint32_t>(s));
    // Buffers that a loop reads or carries live until its last iteration ends.
    for (std::size_t s = 0; s < steps_.size(); ++s) {
      const auto* loop = steps_[s].work.AsWhileStep();
      const auto* branch = steps_[s].work.AsIfStep();
      if (!loop && !branch) continue;
      const std::size_t end = s + (loop ? loop->steps : branch->then_steps + branch->else_steps);
      for (const auto* list : {&steps_[s].reads, &steps_[s].writes})
        for (const std::uint32_t buffer : *list)
          buffers_.use(buffer, static_cast<std::uint32_t>(end));
    }
  }

  void write_manifest(plan::fb::PlanT& plan) const {
    plan.manifest = std::make_unique<plan::fb::ManifestT>();
    plan.manifest->model_name = options_.model_name;
    plan.manifest->model_hash = options_.model_hash;
    plan.manifest->nodes_imported = static_cast<std::uint32_t>(options_.nodes_imported);
    plan.manifest->precision_notes = options_.precision_notes;
    for (const auto& [key, value] : options_.options) {
      auto option = std::make_unique<plan::fb::OptionT>();
      option->key = key;
      option->value = value;
      plan.manifest->options.push_back(std::move(option));
    }
  }

  const Graph* graph_;    // current graph
  const Ranges& ranges_;  // of the model
  const CompileOptions& options_;
  ExprTable exprs_;
  PlanBuffers buffers_;
  PlanContext context_;
  KernelTable kernels_;
  std::vector<StepT> steps_;
  std::vector<RunStep> run_;  // behind steps_, until it ends
  std::vector<std::unique_ptr<plan::fb::EntryT>> entries_;
  std::vector<const std::map<std::string, ir::Range>*> entry_limits_;
  std::string graph_texts_;
  std::size_t node_ = 0;                         // current node
  std::size_t loops_ = 0;                        // that enclose the current graph
  std::size_t nodes_done_ = 0, node_count_ = 0;  // of all graphs
  CompiledPlan result_;
};

}  // namespace

KernelsRefused::KernelsRefused(std::vector<RefusedKernel> refused)
    : Error(ErrorCode::kInternal,
            fmt::format("kernel '{}' ({}) does not compile for {}. Reproducer: {}\n{}",
                        refused.front().name, fmt::join(refused.front().origins, ", "),
                        refused.front().architecture, refused.front().reproducer,
                        refused.front().log)),
      kernels(std::move(refused)) {}

Ranges ranges_of_entry(const Ranges& model, const Graph& entry) {
  Ranges ranges = model;
  for (const auto& [symbol, range] : entry.ranges()) ranges.insert_or_assign(symbol, range);
  return ranges;
}

CompiledPlan compile(const Graph& graph, const CompileOptions& options) {
  const Graph* const graphs[] = {&graph};
  Compiler compiler(graph, graphs, options);
  compiler.add_steps();
  return compiler.run();
}

CompiledPlan compile_entries(const Graph& model, std::span<const EntryGraph> entries,
                             const CompileOptions& options) {
  if (entries.empty()) throw Error(ErrorCode::kInternal, "a plan without entry points");
  std::vector<const Graph*> graphs;
  for (const EntryGraph& entry : entries) graphs.push_back(&entry.graph);
  Compiler compiler(model, graphs, options);
  for (const EntryGraph& entry : entries) compiler.add_entry(entry);
  return compiler.run();
}

std::set<std::uint64_t> packed_weights(std::span<const Graph* const> graphs,
                                       const CompileOptions& options) {
  std::set<std::uint64_t> all;
  for (const KernelFamily* family : families()) all.merge(family->packed_weights(graphs, options));
  return all;
}

}  // namespace sinter::codegen
