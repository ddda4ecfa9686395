#include "codegen/compile.h"

#include <algorithm>
#include <functional>
#include <set>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sinter/error.h>

#include "codegen/emit/kernel_request.h"
#include "codegen/families/attention/attention_step.h"
#include "codegen/families/attention/cpu_attention.h"
#include "codegen/families/gemm/emit_gemm.h"
#include "codegen/families/gemm/gemm_lowering.h"
#include "codegen/families/gemm/gemm_schedule.h"
#include "codegen/families/gemm/gemm_step.h"
#include "codegen/families/gemm/gemm_tactics.h"
#include "codegen/families/gemm/library_lowering.h"
#include "codegen/families/gemm/weights/emit_unpack.h"
#include "codegen/families/gemm/weights/packed_buffers.h"
#include "codegen/families/horizontal/horizontal_lowering.h"
#include "codegen/families/sort/emit_sort.h"
#include "codegen/families/sort/sort_lowering.h"
#include "codegen/kernel_emitters.h"
#include "codegen/kernel_groups.h"
#include "codegen/plan/alternatives.h"
#include "codegen/plan/cost.h"
#include "codegen/plan/plan_buffers.h"
#include "codegen/program/describe.h"
#include "codegen/program/loop_lowering.h"
#include "codegen/targets/cuda/architectures.h"
#include "codegen/targets/cuda/nvrtc.h"
#include "ir/sorted_names.h"
#include "ir/text/text.h"

namespace sinter::codegen {
namespace {

using ir::Graph;
using ir::Node;
using plan::fb::LoopProgramT;
using plan::fb::StepT;

std::vector<std::uint32_t> unique(std::vector<std::uint32_t> values) {
  std::vector<std::uint32_t> result;
  for (const std::uint32_t value : values)
    if (std::find(result.begin(), result.end(), value) == result.end()) result.push_back(value);
  return result;
}

class Compiler {
 public:
  /// `model` has the bindings' shapes and all ranges; `graphs` are added in this order.
  Compiler(const Graph& model, std::span<const Graph* const> graphs, const CompileOptions& options)
      : graph_(graphs[0]),
        options_(options),
        exprs_(model.ranges()),
        buffers_(*graph_, exprs_, model),
        packed_(buffers_, packed_weights(graphs, options)) {
    for (const Graph* graph : graphs) node_count_ += graph->nodes().size();
  }

  void add_entry(const EntryGraph& entry) {
    graph_ = &entry.graph;
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
    for (std::size_t n = 0; n < graph_->nodes().size(); ++n) {
      const Node& node = graph_->nodes()[n];
      if (options_.checkpoint) options_.checkpoint();
      ++nodes_done_;
      if (node.op->name == "Reshape") continue;  // the same buffer under another shape
      node_ = n;
      const std::string name = fmt::format("{}_{}", name_stem(node), steps_.size());
      try {
        add_step(node, name);
      } catch (Error& error) {
        error.set_node(error_node(node));
        error.add_context(fmt::format("lowering '{}' ({})", name, describe(node)));
        throw;
      }
      if (options_.progress && !options_.cuda) options_.progress(nodes_done_, node_count_);
    }
    if (options_.progress && !options_.cuda) options_.progress(nodes_done_, node_count_);
    for (const PlanBuffers::Copy& copy : buffers_.copies()) add_copy(copy);
    add_state_infos();
    graph_texts_ += ir::print(*graph_);
  }

  CompiledPlan run() {
    plan::fb::PlanT& plan = result_.parts.meta;
    plan.compiler_version = SINTER_VERSION;
    plan.target = options_.cuda ? "cuda" : "cpu";
    if (options_.cuda && options_.code) compile_kernels();
    set_lifetimes();
    add_states(plan);
    buffers_.write(result_.parts);
    for (StepT& step : steps_) plan.steps.push_back(std::make_unique<StepT>(std::move(step)));
    write_manifest(plan);
    plan.graph_text = std::move(graph_texts_);
    exprs_.write(plan);
    for (const auto& symbol : plan.symbols)
      if (const auto value = options_.values_of.find(symbol->name);
          value != options_.values_of.end())
        for (std::size_t i = 0; i < plan.inputs.size(); ++i)
          if (plan.inputs[i]->name == value->second)
            symbol->value_of = static_cast<std::int32_t>(i);
    add_limits(plan);
    return std::move(result_);
  }

 private:
  Error::Node error_node(const Node& node) const {
    Error::Node described{fmt::format("{}", fmt::join(node.origins, ", ")), name_stem(node), {}};
    for (const ir::ValueId input : node.inputs)
      described.inputs.push_back(ir::to_string(graph_->type(input)));
    return described;
  }

  void add_step(const Node& node, const std::string& name) {
    if (node.op->kind != ir::OpKind::kFused || !node.body)
      throw Error(ErrorCode::kUnsupported,
                  "only fused regions and reshapes can be compiled; the passes must have wrapped "
                  "every other operator");
    std::vector<std::uint32_t> inputs, outputs;
    for (const ir::ValueId value : node.inputs) inputs.push_back(buffers_.of(value));
    for (const ir::ValueId value : node.outputs) outputs.push_back(buffers_.of(value));
    StepT step;
    step.name = name;
    step.origins = node.origins;
    step.reads = unique(inputs);
    step.writes = unique(outputs);
    const SizeOf size = [&](std::uint32_t buffer) { return buffers_.size(buffer); };
    const std::string& family = node.attrs.get_string("family");
    for (const ScatterRegion& region : scatter_regions(node))
      if (const std::uint32_t data = inputs[region.data], result = outputs[region.result];
          data != result)
        add_copy({data, result, 0});
    if (family == "pointwise" || family == "reduction" || family == "scatter" || family == "scan") {
      if (!options_.cuda) {
        add_loop_steps(node, inputs, outputs, step);
        return;
      }
      LoopProgramT program = lower_region(*node.body, inputs, outputs, exprs_);
      set_loop_work(step, program);
      add_loop_kernel(name, node.origins, std::move(program), {steps_.size(), {}});
    } else if (family == "matmul" && !(options_.cuda && multiplies_quantised(node))) {
      auto work = lower_matmul(*node.body, inputs, outputs, exprs_, options_.tf32);
      set_work(step, work_of(work, exprs_, size));
      step.work.Set(std::move(work));
    } else if ((family == "product" || family == "conv" || family == "matmul") && options_.cuda) {
      add_product(node, name, inputs, outputs, step);
    } else if (family == "horizontal" && options_.cuda) {
      add_horizontal(node, name, inputs, outputs, step);
    } else if (family == "attention" && options_.cuda) {
      add_attention(node, name, inputs, outputs, step);
    } else if (family == "attention") {
      const AttentionProgram program = lower_attention(*node.body, inputs, outputs, exprs_);
      set_work(step, work_of(program, exprs_, size));
      step.work.Set(cpu_attention_step(program, exprs_));
    } else if (family == "sort") {
      const SortProblem problem = lower_sort(*node.body, inputs, outputs);
      set_work(step, work_of(problem, exprs_));
      if (options_.cuda)
        add_sort_kernels(name, node.origins, problem, step);
      else
        step.work.Set(sort_step(problem, exprs_));
    } else if (family == "conv") {
      auto work = lower_conv(*node.body, inputs, outputs, exprs_, options_.tf32);
      set_work(step, work_of(work, exprs_, size));
      step.work.Set(std::move(work));
    } else {
      throw Error(ErrorCode::kUnsupported, fmt::format("target {} has no lowering of family '{}'",
                                                       result_.parts.meta.target, family));
    }
    steps_.push_back(std::move(step));
  }

  /// On the CPU a region that puts sources side by side is a step for each of them.
  void add_loop_steps(const Node& node, const std::vector<std::uint32_t>& inputs,
                      const std::vector<std::uint32_t>& outputs, const StepT& all) {
    const std::size_t first = steps_.size();
    for (LoopProgramT& program : lower_region_parts(*node.body, inputs, outputs, exprs_)) {
      StepT step = all;
      if (steps_.size() > first) step.name = fmt::format("{}_{}", name_stem(node), steps_.size());
      set_loop_work(step, program);
      plan::fb::LoopStepT loop;
      loop.program = std::make_unique<LoopProgramT>(std::move(program));
      step.work.Set(std::move(loop));
      ++result_.stats.kernels;
      steps_.push_back(std::move(step));
    }
  }

  void set_loop_work(StepT& step, const LoopProgramT& program) {
    set_work(step,
             work_of(program, exprs_, [&](std::uint32_t buffer) { return buffers_.size(buffer); }));
    // What a body carries but its outputs do not need is not read.
    std::erase_if(step.reads, [&](std::uint32_t buffer) {
      return std::find(program.buffers.begin(), program.buffers.end(), buffer) ==
             program.buffers.end();
    });
  }

  /// A product or a convolution and what follows it, in every way that may be best.
  void add_product(const Node& node, const std::string& name,
                   const std::vector<std::uint32_t>& inputs,
                   const std::vector<std::uint32_t>& outputs, StepT& step) {
    const ProductStep product(node, inputs, outputs, buffers_, exprs_, options_.tf32);
    if (product.is_scratch()) step.writes.push_back(product.between());
    if (product.made_rows()) step.writes.push_back(*product.made_rows());
    set_work(step, product.work());
    plan::fb::ChoiceStepT choice;
    const ProductKernels kernels = {
        [&](auto kernel, std::string& refusal) { return accept(std::move(kernel), name, refusal); },
        [&](const ProductProgram& kernel) { return product_limits(kernel, exprs_); },
        have_warpgroups(options_.architectures),
        [&](const ProductProgram& kernel) { return packed_.takes_elements(kernel); },
        [&](const ProductProgram& packed) {
          std::string ignored;
          return plan_unpacking(packed, buffers_, exprs_, ignored);
        }};
    for (ProductWay& way : product_ways(product, options_.product, kernels)) {
      if (way.kernel && way.kernel->weights)
        PackedBuffers::replace(
            step.reads, product.weights(),
            std::span(way.kernel->program.buffers).subspan(way.kernel->first_operand()));
      if (way.unpacking) {
        PackedBuffers::replace(step.reads, product.weights(), way.unpacking->reads());
        if (step.writes.back() != way.unpacking->result)
          step.writes.push_back(way.unpacking->result);
      }
      auto alternative = std::make_unique<plan::fb::AlternativeT>();
      alternative->name = std::move(way.name);
      alternative->conditions = std::move(way.conditions);
      const auto next_part = [&] {
        alternative->parts.push_back(std::make_unique<plan::fb::PartT>());
        return Place{steps_.size(),
                     std::pair(choice.alternatives.size(), alternative->parts.size() - 1)};
      };
      if (way.rows_first)
        add_loop_kernel(name + "_rows", node.origins, *product.rows(), next_part());
      if (way.unpacking) add_unpack_kernel(name, node.origins, *way.unpacking, next_part());
      const Place first = next_part();
      if (way.kernel)
        add_product_kernel(
            name + (way.rows_first ? "_behind" : "") + (way.then_rest ? "_alone" : ""),
            node.origins, *way.kernel, first);
      else if (way.loops)
        add_loop_kernel(name + "_loops", node.origins, std::move(*way.loops), first);
      else
        product.set_library(alternative->parts.back()->work,
                            way.unpacking ? &*way.unpacking : nullptr);
      if (way.then_rest && product.rest())
        add_loop_kernel(name + "_rest", node.origins, *product.rest(), next_part());
      choice.alternatives.push_back(std::move(alternative));
    }
    // A kernel behind the rows reads them, the step as a whole makes them.
    if (product.made_rows()) std::erase(step.reads, *product.made_rows());
    step.work.Set(std::move(choice));
  }

  plan::fb::WorkUnion& work_at(const Place& place) {
    plan::fb::WorkUnion& work = steps_[place.step].work;
    if (!place.part) return work;
    return work.AsChoiceStep()->alternatives[place.part->first]->parts[place.part->second]->work;
  }

  void add_states(plan::fb::PlanT& plan) const {
    for (const ir::State& state : graph_->states()) {
      auto entry = std::make_unique<plan::fb::StateT>();
      entry->input = static_cast<std::uint32_t>(state.input);
      entry->output = static_cast<std::uint32_t>(state.output);
      plan.states.push_back(std::move(entry));
    }
  }

  /// What becomes of the states in the graph whose steps have been added; the first entry point
  /// that copies one says why.
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

  /// Symbols have their numbers only once all expressions are written.
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

  void set_work(StepT& step, const StepWork& work) {
    step.bytes_read = exprs_.intern(work.bytes_read);
    step.bytes_written = exprs_.intern(work.bytes_written);
    step.flops = exprs_.intern(work.flops);
    step.arithmetic = work.arithmetic;
  }

  void add_copy(const PlanBuffers::Copy& copy) {
    StepT step;
    step.name = fmt::format("copy_{}", steps_.size());
    step.reads = {copy.source};
    step.writes = {copy.target};
    const ir::Dim bytes = buffers_.size(copy.target).bytes;
    set_work(step, {bytes, bytes, ir::Dim(0)});
    plan::fb::CopyStepT work;
    work.source = copy.source;
    work.target = copy.target;
    work.bytes = exprs_.intern(bytes);
    step.work.Set(std::move(work));
    steps_.push_back(std::move(step));
  }

  void add_unpack_kernel(const std::string& name, const std::vector<std::string>& origins,
                         const UnpackProgram& program, const Place& place) {
    std::vector<std::uint32_t> buffers = program.reads();
    buffers.push_back(program.result);
    add_to_group(name + "_unpack", origins, print_unpacking(program), std::move(buffers),
                 emitters_.unpacking(program), place);
  }

  /// Puts the step that is about to be added with those that can share its kernel: those of one
  /// signature, which says everything about a kernel but its buffers, and of equal buffer types.
  void add_to_group(const std::string& name, const std::vector<std::string>& origins,
                    std::string signature, std::vector<std::uint32_t> buffers, EmitKernel emit,
                    const Place& place) {
    for (const std::uint32_t buffer : buffers)
      signature += fmt::format(" {}@{}", to_string(buffers_.type(buffer)),
                               std::find(buffers.begin(), buffers.end(), buffer) - buffers.begin());
    const auto [at, added] = group_by_signature_.emplace(std::move(signature), groups_.size());
    if (added) groups_.push_back({name, at->first, {}, {}, {}, {}, std::move(emit)});
    KernelGroup& group = groups_[at->second];
    group.nodes.push_back({entries_.size(), node_});
    group.places.push_back(place);
    group.buffers.push_back(std::move(buffers));
    group.origins.insert(group.origins.end(), origins.begin(), origins.end());
  }

  void add_loop_kernel(const std::string& name, const std::vector<std::string>& origins,
                       LoopProgramT program, const Place& place) {
    LoopProgramT local = program;
    for (std::uint32_t b = 0; b < local.buffers.size(); ++b) local.buffers[b] = b;
    std::vector<std::uint32_t> buffers = program.buffers;
    add_to_group(name, origins, print_loop_program(local, exprs_), std::move(buffers),
                 emitters_.loops(std::move(program)), place);
  }

  /// Many small regions: what they read and write, all at once.
  void add_horizontal(const Node& node, const std::string& name,
                      const std::vector<std::uint32_t>& inputs,
                      const std::vector<std::uint32_t>& outputs, StepT& step) {
    HorizontalProgram program = lower_horizontal(*node.body, inputs, outputs);
    StepWork work{0, 0, 0};
    std::vector<std::uint32_t> buffers;
    for (const HorizontalPart& part : program.parts)
      buffers.insert(buffers.end(), part.buffers.begin(), part.buffers.end());
    buffers = unique(std::move(buffers));
    std::set<std::uint32_t> changed;  // of which only what is scattered moves
    for (const ScatterRegion& region : scatter_regions(node)) {
      changed.insert({inputs[region.data], outputs[region.result]});
      work.bytes_written = work.bytes_written +
                           ir::element_count(region.updates.shape) *
                               ir::Dim(static_cast<std::int64_t>(size_of(region.updates.dtype)));
    }
    for (const std::uint32_t buffer : step.reads)
      if (!changed.contains(buffer))
        work.bytes_read = work.bytes_read + buffers_.size(buffer).bytes;
    for (const std::uint32_t buffer : step.writes)
      if (!changed.contains(buffer))
        work.bytes_written = work.bytes_written + buffers_.size(buffer).bytes;
    work.flops = program.flops();
    set_work(step, work);
    std::erase_if(step.reads, [&](std::uint32_t buffer) {
      return std::find(buffers.begin(), buffers.end(), buffer) == buffers.end();
    });
    std::string signature = print_horizontal(program);
    add_to_group(name, node.origins, std::move(signature), std::move(buffers),
                 emitters_.horizontals(std::move(program)), {steps_.size(), {}});
  }

  void add_attention(const Node& node, const std::string& name,
                     const std::vector<std::uint32_t>& inputs,
                     const std::vector<std::uint32_t>& outputs, StepT& step) {
    AttentionStep attention =
        lower_attention_step(*graph_, node, inputs, outputs, buffers_, exprs_);
    set_work(step, attention.work);
    Place place{steps_.size(), {}};
    if (const std::size_t in_front = attention.in_front.size(); in_front > 0) {
      step.writes.push_back(*attention.queries);
      step.work.Set(one_way("attention behind its rows (" + attention.refusal + ")", in_front + 1));
      for (place.part = {0, 0}; place.part->second < in_front; ++place.part->second)
        add_loop_kernel(fmt::format("{}_front{}", name, place.part->second), node.origins,
                        std::move(attention.in_front[place.part->second]), place);
    }
    std::string signature = print_attention(attention.program, exprs_);
    std::vector<std::uint32_t> buffers = attention.program.buffers;
    add_to_group(name, node.origins, std::move(signature), std::move(buffers),
                 emitters_.attentions(std::move(attention.program)), place);
  }

  /// The product is no buffer of the plan.
  static std::vector<std::uint32_t> real_buffers(const ProductProgram& product) {
    std::vector<std::uint32_t> buffers = product.program.buffers;
    buffers.erase(buffers.begin() + product.product);
    return buffers;
  }

  void add_product_kernel(const std::string& name, const std::vector<std::string>& origins,
                          const ProductProgram& product, const Place& place) {
    add_to_group(name, origins, print_product(product, exprs_), real_buffers(product),
                 emitters_.product(product), place);
  }

  void compile_kernels() {
    plan::fb::PlanT& plan = result_.parts.meta;
    if (options_.architectures.empty())
      throw Error(ErrorCode::kUsage,
                  "no GPU architecture to compile for: name one, as in --target=cuda:sm_90");
    plan.architectures = options_.architectures;
    std::vector<std::string> sources;
    for (const KernelGroup& group : groups_) {
      if (options_.checkpoint) options_.checkpoint();
      with_context(fmt::format("generating kernel '{}'", group.name),
                   [&] { sources.push_back(emit(group, sources.size())); });
      if (options_.edit_source) options_.edit_source(group.name, sources.back());
    }
    result_.stats.kernels = sources.size();
    if (sources.empty()) return;
    NvrtcOptions nvrtc;
    nvrtc.threads = options_.threads;
    nvrtc.cache_dir = options_.cache_dir;
    nvrtc.progress = options_.progress;
    NvrtcStats stats;
    auto compiled = compile_cuda(sources, options_.architectures, nvrtc, stats);
    require_all(compiled);
    result_.stats.cache_hits = stats.cache_hits;
    result_.stats.nvrtc_seconds = stats.seconds;
    plan.cuda_version = static_cast<std::uint32_t>(stats.version);
    add_modules(result_.parts, groups_, std::move(sources), std::move(compiled),
                options_.architectures);
  }

  static std::vector<std::string> sorted_once(std::vector<std::string> names) {
    ir::sort_unique(names);
    return names;
  }

  /// Throws KernelsRefused if NVRTC has not taken every group's source.
  void require_all(const std::vector<std::vector<CompiledKernel>>& compiled) const {
    std::vector<RefusedKernel> refused;
    for (std::size_t g = 0; g < groups_.size(); ++g)
      for (std::size_t a = 0; a < compiled[g].size(); ++a)
        if (const auto& refusal = compiled[g][a].refusal) {
          refused.push_back({groups_[g].name, options_.architectures[a],
                             sorted_once(groups_[g].origins), groups_[g].nodes, refusal->log,
                             refusal->reproducer});
          break;
        }
    if (!refused.empty()) throw KernelsRefused(std::move(refused));
  }

  /// Writes the kernel of group number `index` and points its steps at it.
  std::string emit(const KernelGroup& group, std::size_t index) {
    const std::vector<std::string> origins = sorted_once(group.origins);
    std::vector<DType> types;
    for (const std::uint32_t buffer : group.buffers[0]) types.push_back(buffers_.type(buffer));
    std::string key = kernel_key(group, exprs_.ranges(), options_);
    const auto chosen = options_.schedules.find(key);
    ScheduleWish wish;
    wish.chosen = chosen == options_.schedules.end() ? nullptr : &chosen->second;
    wish.list = options_.list_candidates;
    wish.clusters = have_clusters(options_.architectures);
    emitters_.begin(wish, given_buffers(group));
    EmittedKernel kernel = group.emit(group.name, origins, std::move(types));
    if (auto info = kernel_info(group, steps_[group.places[0].step], kernel.choices, exprs_)) {
      info->key = std::move(key);
      result_.kernels.push_back(std::move(*info));
    }
    for (std::size_t k = 0; k <= kernel.more.size(); ++k) {
      plan::fb::KernelStepT& step = k == 0 ? kernel.step : kernel.more[k - 1];
      for (auto& variant : step.variants)
        variant->module_ = static_cast<std::uint32_t>(index * options_.architectures.size());
      for (std::size_t s = 0; s < group.places.size(); ++s) {
        plan::fb::KernelStepT work = on_buffers_of(group, step, s);
        Place place = group.places[s];
        if (k > 0) place.part->second += k;
        work_at(place).Set(std::move(work));
      }
    }
    return std::move(kernel.source);
  }

  /// Buffers of the group's first step that, as those of the others in their place, no step writes.
  std::set<std::uint32_t> given_buffers(const KernelGroup& group) const {
    std::set<std::uint32_t> given;
    for (std::size_t b = 0; b < group.buffers[0].size(); ++b)
      if (std::all_of(group.buffers.begin(), group.buffers.end(),
                      [&](const auto& buffers) { return buffers_.is_given(buffers[b]); }))
        given.insert(group.buffers[0][b]);
    return given;
  }

  /// One kernel if no row is longer than what a block sorts, else parts of the only alternative.
  void add_sort_kernels(const std::string& name, const std::vector<std::string>& origins,
                        const SortProblem& problem, StepT& step) {
    const SortSchedule schedule = choose_sort(problem, exprs_);
    Place place{steps_.size(), {}};
    std::vector<std::uint32_t> scratch;
    if (schedule.passes > 0) {
      const ir::TensorType bytes{DType::kUInt8, {sort_scratch_bytes(problem, schedule, exprs_)}};
      for (int b = 0; b < std::min(schedule.passes, 2); ++b)
        scratch.push_back(buffers_.scratch(bytes));
      step.writes.insert(step.writes.end(), scratch.begin(), scratch.end());
      step.work.Set(one_way("sort", static_cast<std::size_t>(schedule.passes) + 1));
      place.part = {0, 0};
    }
    std::vector<std::uint32_t> buffers = {problem.input, problem.output};
    buffers.insert(buffers.end(), scratch.begin(), scratch.end());
    std::string signature = fmt::format("sort {}", problem.descending);
    for (const ir::Dim& dim : {problem.outer, problem.length, problem.inner, problem.count})
      signature += " " + dim.to_string();
    add_to_group(
        name, origins, std::move(signature), std::move(buffers),
        [this, problem, scratch](const std::string& kernel, const std::vector<std::string>& from,
                                 const std::vector<DType>&) {
          return emit_sort(problem, scratch, kernel, from, exprs_);
        },
        place);
  }

  /// The product if some schedule takes it; else `refusal` says why not.
  std::optional<ProductProgram> accept(std::optional<ProductProgram> product,
                                       const std::string& name, std::string& refusal) {
    product->b_is_weight = buffers_.is_weight(product->program.buffers[product->b_buffer()]);
    if (product->rows)
      for (std::size_t b = 0; b + 1 < product->rows->program.buffers.size(); ++b)
        product->rows->weights.push_back(
            buffers_.is_weight(product->program.buffers[product->rows->first + b]));
    packed_.pack(*product);
    std::vector<DType> types;
    for (const std::uint32_t buffer : real_buffers(*product))
      types.push_back(buffers_.type(buffer));
    if (!can_emit_product(emitters_.product_request(*product, name, {}, std::move(types)), exprs_,
                          refusal))
      return std::nullopt;
    return product;
  }

  void set_lifetimes() {
    for (std::size_t s = 0; s < steps_.size(); ++s)
      for (const auto* list : {&steps_[s].reads, &steps_[s].writes})
        for (const std::uint32_t buffer : *list)
          buffers_.use(buffer, static_cast<std::uint32_t>(s));
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

  const Graph* graph_;  // whose steps are being added
  const CompileOptions& options_;
  ExprTable exprs_;
  PlanBuffers buffers_;
  PackedBuffers packed_;
  std::vector<StepT> steps_;
  std::vector<std::unique_ptr<plan::fb::EntryT>> entries_;
  std::vector<const std::map<std::string, ir::Range>*> entry_limits_;
  std::string graph_texts_;
  std::vector<KernelGroup> groups_;
  std::map<std::string, std::size_t> group_by_signature_;
  KernelEmitters emitters_{options_, exprs_};
  std::size_t node_ = 0;                         // that is being lowered
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

}  // namespace sinter::codegen
