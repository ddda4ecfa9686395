// SPDX-License-Identifier: Apache-2.0
// Regions that become loops: pointwise chains, row reductions, scatters and scans.
#include <algorithm>

#include <fmt/format.h>

#include "codegen/emit/memory/clear_before.h"
#include "codegen/families/loops/emit_loops.h"
#include "codegen/families/loops/loops_kernel.h"
#include "codegen/families/loops/merge_broadcast.h"
#include "codegen/families/loops/scan/scan_chain.h"
#include "codegen/families/loops/schedule.h"
#include "codegen/program/describe.h"
#include "codegen/program/loop_lowering.h"

namespace sinter::codegen {
namespace {

using plan::fb::LoopProgramT;

class LoopsKernel final : public KernelProgram {
 public:
  LoopsKernel(LoopProgramT program, std::string schedule, std::optional<std::uint32_t> scan_tiles,
              std::optional<RankSummands> summands)
      : program_(std::move(program)),
        schedule_(std::move(schedule)),
        scan_tiles_(scan_tiles),
        summands_(summands) {}

  std::string signature(const ExprTable& exprs) const override {
    LoopProgramT local = program_;
    for (std::uint32_t b = 0; b < local.buffers.size(); ++b) local.buffers[b] = b;
    return (scan_tiles_ ? "in tiles " : "") +
           (summands_ ? fmt::format("sum of {} ranks in {} ", summands_->ranks, summand()) : "") +
           print_loop_program(local, exprs);
  }
  std::vector<std::uint32_t> buffers() const override {
    std::vector<std::uint32_t> all = program_.buffers;
    if (scan_tiles_) all.push_back(*scan_tiles_);
    if (summands_) all.push_back(summands_->peers);
    return all;
  }
  EmittedKernel emit(KernelRequest request, ExprTable& exprs) const override {
    request.program = &program_;
    request.buffer_types.resize(program_.buffers.size());
    request.scan_tiles = scan_tiles_;
    request.summands = summands_;
    if (summands_) request.summands->buffer = summand();
    // A schedule asked for says nothing of tiles.
    if (!scan_tiles_) request.schedule = schedule_;
    EmittedKernel kernel = emit_loops(request, exprs);
    if (!scan_tiles_) return kernel;
    kernel.choices.clear();
    clear_before(kernel, request.name, *scan_tiles_, *scan_chain_words(program_, exprs), exprs);
    return kernel;
  }
  bool has_tasks() const override { return !scan_tiles_ && !summands_; }

 private:
  /// The number of the summands' buffer in the program.
  std::uint32_t summand() const {
    return static_cast<std::uint32_t>(std::ranges::find(program_.buffers, summands_->buffer) -
                                      program_.buffers.begin());
  }
  LoopProgramT program_;
  std::string schedule_;
  std::optional<std::uint32_t> scan_tiles_;
  std::optional<RankSummands> summands_;  // buffer: of the plan
};

/// A step with its cost; its reads are the region's buffers that the program reads. A body may have
/// inputs that its outputs do not need.
StepTactics step_for(const LoopProgramT& program, const Region& region, PlanContext& plan) {
  StepTactics result{step_of(region), {}};
  set_cost(result.step, cost_of(program, plan.exprs, plan.sizes()), plan.exprs);
  std::erase_if(result.step.reads, [&](std::uint32_t buffer) {
    return std::find(program.buffers.begin(), program.buffers.end(), buffer) ==
           program.buffers.end();
  });
  return result;
}

class LoopsFamily final : public KernelFamily {
 public:
  std::string_view name() const override { return "loops"; }

  std::string takes(const Region& region, const ir::TargetTraits&) const override {
    for (const char* kind : {"pointwise", "reduction", "scatter", "scan"})
      if (region.kind() == kind) return "";
    return "it is no loop over elements or rows";
  }

  std::vector<StepTactics> lower(const Region& region, PlanContext& plan) const override {
    const ir::Graph& body = *region.node.body;
    std::vector<StepTactics> steps;
    if (!plan.generates_kernels()) {
      // A region that concatenates sources becomes a step for each source.
      for (LoopProgramT& program :
           lower_region_parts(body, region.inputs, region.outputs, plan.exprs)) {
        StepTactics part = step_for(program, region, plan);
        if (!steps.empty()) part.step.name.clear();
        plan::fb::LoopStepT loop;
        loop.program = std::make_unique<LoopProgramT>(std::move(program));
        part.tactics.push_back(only(std::move(loop)));
        steps.push_back(std::move(part));
      }
      return steps;
    }
    LoopProgramT program = lower_region(body, region.inputs, region.outputs, plan.exprs);
    merge_broadcast_loops(program, plan.exprs);
    steps.push_back(step_for(program, region, plan));
    StepTactics& result = steps.back();
    std::optional<std::uint32_t> scan_tiles;
    if (const auto words = scan_chain_words(program, plan.exprs)) {
      scan_tiles = plan.buffers.scratch({DType::kUInt64, {*words}});
      result.step.writes.push_back(*scan_tiles);
    }
    result.tactics.push_back(
        only(region.name, loops_kernel(std::move(program), plan.options, scan_tiles)));
    if (scan_tiles) {
      result.tactics[0].name = "tiles";
      result.tactics[0].parts.resize(2);
    }
    return steps;
  }

  std::vector<std::string_view> schedules() const override { return schedule_names(); }
};

}  // namespace

std::shared_ptr<const KernelProgram> loops_kernel(LoopProgramT program,
                                                  const CompileOptions& options,
                                                  std::optional<std::uint32_t> scan_tiles) {
  return std::make_shared<LoopsKernel>(std::move(program), asked_schedule(loops_family(), options),
                                       scan_tiles, std::nullopt);
}

std::shared_ptr<const KernelProgram> loops_kernel_of_sum(LoopProgramT program,
                                                         const CompileOptions& options,
                                                         RankSummands summands) {
  return std::make_shared<LoopsKernel>(std::move(program), asked_schedule(loops_family(), options),
                                       std::nullopt, summands);
}

const KernelFamily& loops_family() {
  static const LoopsFamily family;
  return family;
}

}  // namespace sinter::codegen
