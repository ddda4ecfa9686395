// SPDX-License-Identifier: Apache-2.0
// GEMMs and convolutions with their prologues and epilogues.
#include <algorithm>

#include <fmt/format.h>
#include <sinter/error.h>

#include "codegen/families/family.h"
#include "codegen/families/gemm/gemm_schedule.h"
#include "codegen/families/gemm/gemm_step.h"
#include "codegen/families/gemm/gemm_tactics.h"
#include "codegen/families/gemm/library_lowering.h"
#include "codegen/families/gemm/small_m/small_m_schedule.h"
#include "codegen/families/gemm/weights/packed_buffers.h"
#include "codegen/families/gemm/weights/unpacked_weights.h"
#include "codegen/families/loops/loops_kernel.h"
#include "codegen/plan/panel_buffers.h"
#include "ir/scaled_rows.h"

namespace sinter::codegen {
namespace {

/// Weights that kernels read in packed order; each is packed once for the whole plan.
struct GemmState final : FamilyState {
  GemmState(PlanBuffers& buffers, std::set<std::uint64_t> weights, GemmRequest request)
      : packed(buffers, std::move(weights)), panels(buffers), asked(std::move(request)) {}
  PackedBuffers packed;
  PanelBuffers panels;
  GemmRequest asked;  // CompileOptions::gemm, or the requested schedule of one kernel
  /// Offsets of groups by which rows of a step in front are multiplied.
  std::set<std::uint32_t> known_offsets;
};

/// Buffers without the product's, which the plan does not have.
std::vector<std::uint32_t> real_buffers(const GemmProgram& product) {
  std::vector<std::uint32_t> buffers = product.program.buffers;
  buffers.erase(buffers.begin() + product.product);
  return buffers;
}

/// The request for a GEMM's kernel; the types are those of real_buffers().
KernelRequest request_for(const GemmProgram& product, KernelRequest request,
                          const std::string& schedule) {
  request.buffer_types.insert(request.buffer_types.begin() + product.product, product.result);
  set_gemm(request, product);
  if (!schedule.empty()) request.schedule = schedule;
  return request;
}

class GemmKernelProgram final : public KernelProgram {
 public:
  GemmKernelProgram(GemmProgram product, std::string schedule)
      : product_(std::move(product)), schedule_(std::move(schedule)) {}

  std::string signature(const ExprTable& exprs) const override {
    return print_gemm(product_, exprs);
  }
  std::vector<std::uint32_t> buffers() const override { return real_buffers(product_); }
  EmittedKernel emit(KernelRequest request, ExprTable& exprs) const override {
    // A task copies weights before it waits.
    if (request.task) request.programmatic_launch = true;
    return emit_gemm(request_for(product_, std::move(request), schedule_), exprs);
  }
  bool has_tasks() const override { return !product_.by_warpgroups && product_.groups == 0; }

 private:
  GemmProgram product_;
  std::string schedule_;  // requested; empty: the rule's
};

class UnpackKernel final : public KernelProgram {
 public:
  explicit UnpackKernel(UnpackProgram program) : program_(std::move(program)) {}

  std::string signature(const ExprTable&) const override { return print_unpacking(program_); }
  std::vector<std::uint32_t> buffers() const override {
    std::vector<std::uint32_t> all = program_.reads();
    all.push_back(program_.result);
    return all;
  }
  EmittedKernel emit(KernelRequest request, ExprTable& exprs) const override {
    return emit_unpack(program_, request.name, request.origins, exprs, request.programmatic_launch);
  }

 private:
  UnpackProgram program_;
};

/// The tactics of one region, for targets that generate kernels.
class RegionTactics {
 public:
  RegionTactics(const Region& region, PlanContext& plan, GemmState& state)
      : region_(region),
        plan_(plan),
        asked_(state.asked),
        packed_(state.packed),
        known_offsets_(state.known_offsets),
        product_(region.node, region.inputs, region.outputs, plan.buffers, plan.exprs,
                 plan.options) {}

  StepTactics run() {
    require_float8();
    StepTactics result{step_of(region_), {}};
    if (product_.is_scratch()) result.step.writes.push_back(product_.between());
    if (product_.prologue_rows()) result.step.writes.push_back(*product_.prologue_rows());
    set_cost(result.step, product_.work(), plan_.exprs);
    result.samples = product_.index_samples();
    if (product_.is_grouped()) knows_groups_ = known_offsets_.contains(offsets(result));
    const std::vector<GemmTactic> tactics = gemm_tactics(product_, asked_, kernels());
    for (const GemmTactic& tactic : tactics) {
      read_packed(tactic, result.step);
      Tactic& made = result.tactics.emplace_back(to_tactic(tactic));
      for (std::size_t part = 0; part < made.parts.size(); ++part)
        made.parts[part].tuned_by = tactics.size() > 1 ? tuning_request(tactic, part) : "";
    }
    // A kernel after the prologue reads its rows; the step itself produces them.
    if (product_.prologue_rows()) std::erase(result.step.reads, *product_.prologue_rows());
    if (product_.is_grouped()) known_offsets_.insert(offsets(result));
    return result;
  }

 private:
  static std::uint32_t offsets(const StepTactics& grouped) { return grouped.samples[0].buffer(); }

  GemmKernelQueries kernels() {
    const auto& devices = plan_.devices;
    return {
        [this](auto kernel, std::string& refusal) { return accept(std::move(kernel), refusal); },
        [this](const GemmProgram& kernel) { return gemm_limits(kernel, plan_.exprs); },
        [this](const GemmProgram& kernel) { return few_of_groups(kernel, plan_.exprs); },
        [this](const GemmProgram& kernel) { return few_tokens(kernel, plan_.exprs); },
        std::ranges::any_of(devices, [](const DeviceModel* device) { return device->has_wgmma; }),
        [this](const GemmProgram& kernel) { return packed_.takes_elements(kernel); },
        [this](const GemmProgram& kernel) { return has_one_order(kernel, plan_.exprs.ranges()); },
        [this](const GemmProgram& packed) {
          std::string ignored;
          return plan_unpacking(packed, plan_.buffers, plan_.exprs, ignored);
        }};
  }

  /// Refuses fp8 on devices without fp8 tensor cores: a loop kernel would work but be slow without
  /// explanation.
  void require_float8() const {
    if (!is_float8(product_.left_type())) return;
    for (const DeviceModel* device : plan_.devices)
      if (device->float8_flops == 0)
        throw Error(
            ErrorCode::kUnsupported,
            fmt::format("'{}' multiplies {}: {} has no such products, which sm_89 and later have; "
                        "compile for those, or cast the operands to f16",
                        region_.name, to_string(product_.left_type()), device->architecture));
  }

  /// The GEMM if some schedule accepts it on every device; otherwise `refusal` has the reason.
  std::optional<GemmProgram> accept(std::optional<GemmProgram> product, std::string& refusal) {
    const PlanBuffers& buffers = plan_.buffers;
    product->fast_accumulation = plan_.options.fast_accumulation && product->is_float8();
    product->tf32 = plan_.options.tf32 && product->type == DType::kFloat32;
    // Which of the groups' weights a block reads is known behind the step that finds the offsets.
    product->b_is_weight = (product->groups == 0 || knows_groups_) &&
                           buffers.is_weight(product->program.buffers[product->b_buffer()]);
    if (product->prologue)
      for (std::size_t b = 0; b + 1 < product->prologue->program.buffers.size(); ++b)
        product->prologue->weights.push_back(
            buffers.is_weight(product->program.buffers[product->prologue->first + b]));
    packed_.pack(*product);
    KernelRequest request;
    request.name = region_.name;
    for (const std::uint32_t buffer : real_buffers(*product))
      request.buffer_types.push_back(buffers.type(buffer));
    request.programmatic_launch = plan_.options.programmatic_launch;
    request.precise = plan_.options.precise_math;
    for (const DeviceModel* device : plan_.devices) {
      request.device = device;
      if (!can_emit_gemm(request_for(*product, request, asked_.schedule), plan_.exprs, refusal))
        return std::nullopt;
    }
    return product;
  }

  /// Replaces the graph's weights by packed ones in what the step reads.
  void read_packed(const GemmTactic& tactic, StepT& step) const {
    if (tactic.kernel && tactic.kernel->weights)
      PackedBuffers::replace(
          step.reads, product_.weights(),
          std::span(tactic.kernel->program.buffers).subspan(tactic.kernel->first_operand()));
    if (!tactic.unpacking) return;
    PackedBuffers::replace(step.reads, product_.weights(), tactic.unpacking->reads());
    if (step.writes.back() != tactic.unpacking->result)
      step.writes.push_back(tactic.unpacking->result);
  }

  Tactic to_tactic(const GemmTactic& tactic) const {
    Tactic result{tactic.name(), tactic.conditions, {}};
    const auto add = [&](const char* suffix, std::shared_ptr<const KernelProgram> program) {
      result.parts.push_back({region_.name + suffix, std::move(program), {}});
    };
    const auto loops = [&](LoopProgramT program) {
      return loops_kernel(std::move(program), plan_.options);
    };
    if (tactic.prologue_first) add("_prologue", loops(*product_.prologue()));
    if (tactic.unpacking) add("_unpack", std::make_shared<UnpackKernel>(*tactic.unpacking));
    if (tactic.kernel) {
      const std::string suffix = std::string(tactic.prologue_first ? "_after_prologue" : "") +
                                 (tactic.then_epilogue ? "_alone" : "");
      add(suffix.c_str(), std::make_shared<GemmKernelProgram>(*tactic.kernel, asked_.schedule));
    } else if (tactic.loops) {
      add("_loops", loops(*tactic.loops));
    } else {
      product_.set_library(result.parts.emplace_back().work,
                           tactic.unpacking ? &*tactic.unpacking : nullptr);
    }
    if (tactic.then_epilogue && product_.epilogue()) add("_epilogue", loops(*product_.epilogue()));
    return result;
  }

  const Region& region_;
  PlanContext& plan_;
  const GemmRequest& asked_;
  PackedBuffers& packed_;
  std::set<std::uint32_t>& known_offsets_;
  bool knows_groups_ = false;
  GemmStep product_;
};

class GemmFamily final : public KernelFamily {
 public:
  std::string_view name() const override { return "gemm"; }

  std::string takes(const Region& region, const ir::TargetTraits& target) const override {
    if (region.kind() == "matmul" || region.kind() == "conv") return "";
    if (region.kind() == "grouped_matmul")
      return target.gemm_kernels ? "" : "this target's grouped matmuls are a step of the runtime";
    if (region.kind() != "gemm") return "it is no matrix product and no convolution";
    return target.gemm_kernels ? "" : "this target's products are a library's";
  }

  std::set<std::uint64_t> packed_weights(std::span<const Graph* const> graphs,
                                         const CompileOptions& options) const override {
    if (!options.target->traits().gemm_kernels) return {};
    return options.packed_weights ? *options.packed_weights : weights_of_few_rows(graphs);
  }

  std::unique_ptr<FamilyState> begin(PlanContext& plan) const override {
    const std::string& asked = plan.options.gemm;
    return std::make_unique<GemmState>(
        plan.buffers, packed_weights(plan.graphs, plan.options),
        GemmRequest(asked.empty() ? asked_schedule(*this, plan.options) : asked));
  }

  std::vector<StepTactics> lower(const Region& region, PlanContext& plan) const override {
    std::vector<StepTactics> steps;
    auto& state = static_cast<GemmState&>(*plan.states.at(std::string(name())));
    // GEMMs for the library only, with weights in a layout that it reads.
    if (region.kind() == "matmul" &&
        !(plan.generates_kernels() &&
          (multiplies_quantized(region.node) || multiplies_eight_bits(region.node)))) {
      plan::fb::MatmulStepT product = lower_matmul(*region.node.body, region.inputs, region.outputs,
                                                   plan.exprs, plan.options.tf32);
      StepT step = step_of(region);
      if (product.quantization)
        state.panels.pack(product, step.reads, plan.exprs,
                          plan.options.int8_activations || may_round(*region.node.body));
      steps.push_back(library(std::move(step), plan, std::move(product)));
    } else if (!plan.generates_kernels()) {
      steps.push_back(library(step_of(region), plan,
                              lower_conv(*region.node.body, region.inputs, region.outputs,
                                         plan.exprs, plan.options.tf32)));
    } else {
      steps.push_back(RegionTactics(region, plan, state).run());
    }
    return steps;
  }

  std::vector<std::string_view> schedules() const override {
    return {"warp_tile", "simt", "small_m", "int8_gemv", "tma", "pingpong", "mixed_input", "w4a8"};
  }

 private:
  static bool may_round(const Graph& body) {
    return std::ranges::any_of(body.nodes(), [](const Node& node) {
      return ir::has_scaled_weights(node) && ir::may_round(node.attrs);
    });
  }

  template <typename Work>
  static StepTactics library(StepT step, PlanContext& plan, Work work) {
    StepTactics result{std::move(step), {}};
    set_cost(result.step, cost_of(work, plan.exprs, plan.sizes()), plan.exprs);
    result.tactics.push_back(only(std::move(work)));
    return result;
  }
};

}  // namespace

const KernelFamily& gemm_family() {
  static const GemmFamily family;
  return family;
}

}  // namespace sinter::codegen
