// SPDX-License-Identifier: Apache-2.0
// A kernel family: all that the compiler knows about one kind of fused region. Each has a folder
// here; registry.h lists them. The driver (codegen/compile.cpp) knows none by name.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/emit/kernel_request.h"
#include "codegen/plan/compile_options.h"
#include "codegen/plan/cost.h"
#include "codegen/plan/expr_table.h"
#include "codegen/plan/plan_buffers.h"
#include "ir/graph.h"

namespace sinter::codegen {

/// A fused region to compile into steps.
struct Region {
  const Graph& graph;
  const Node& node;                            // of `graph`, with a body
  std::vector<std::uint32_t> inputs, outputs;  // the plan's buffers of the node's inputs and
                                               // outputs
  std::string name;                            // name of its first step: "add_relu_3"

  /// The kind that the passes gave the region: "pointwise", "matmul", ..
  const std::string& kind() const { return node.attrs.get_string("kind"); }
};

/// One generated kernel, or several launched in sequence, on buffers of the plan. Programs with
/// equal signatures and buffers of equal types share one kernel.
class KernelProgram {
 public:
  virtual ~KernelProgram() = default;
  /// Describes everything about the kernel except its buffers.
  virtual std::string signature(const ExprTable& exprs) const = 0;
  /// The buffers that it reads or writes.
  virtual std::vector<std::uint32_t> buffers() const = 0;
  /// Generates the kernel for the request's device. The request has everything but the program:
  /// name, origins, types of buffers(), options and requested schedules.
  virtual EmittedKernel emit(KernelRequest request, ExprTable& exprs) const = 0;
  /// Whether emit() heeds KernelRequest::task.
  virtual bool has_tasks() const { return false; }
};

/// A part of a tactic: a generated kernel, or work done by the runtime or a library.
struct TacticPart {
  std::string kernel;  // its name
  std::shared_ptr<const KernelProgram> program;
  plan::fb::WorkUnion work;  // if there is no program
  /// KernelInfo::tactic of the kernel, if it can be tuned separately.
  std::optional<std::string> tuned_by = "";
};

/// One implementation of a step, with the sizes that it accepts.
struct Tactic {
  std::string name;  // printable; empty if it is the step's only tactic and has one part
  std::vector<Condition> conditions;
  std::vector<TacticPart> parts;  // run in sequence
};

/// A step before its kernels are generated.
struct StepTactics {
  /// Its buffers and its cost (set_cost). An empty name means the region's name.
  StepT step;
  std::vector<Tactic> tactics;                      // best guess first; the last has no conditions
  std::vector<plan::fb::IndexSample> samples = {};  // of its integers, while tactics are timed
};

/// A family's state during the compilation of one plan.
class FamilyState {
 public:
  virtual ~FamilyState() = default;
};

/// The context of a plan's compilation that families get.
struct PlanContext {
  const CompileOptions& options;
  std::vector<const DeviceModel*> devices;  // of options.architectures; empty: no kernels
  std::span<const Graph* const> graphs;     // all graphs of the plan
  ExprTable& exprs;
  PlanBuffers& buffers;
  std::map<std::string, std::unique_ptr<FamilyState>, std::less<>> states = {};  // by family
  std::vector<plan::fb::CustomCodeT> custom_code = {};  // that families have added to the plan

  bool generates_kernels() const { return options.target->traits().generates_kernels; }
  SizeOf sizes() const {
    return [this](std::uint32_t buffer) { return buffers.size(buffer); };
  }
};

class KernelFamily {
 public:
  virtual ~KernelFamily() = default;
  /// Name of its folder.
  virtual std::string_view name() const = 0;
  /// Empty if the family can lower the region for the target; otherwise the reason.
  virtual std::string takes(const Region& region, const ir::TargetTraits& target) const = 0;
  /// The region's steps, in sequence, each with all of its tactics. Throws Error(kUnsupported) that
  /// names the node.
  virtual std::vector<StepTactics> lower(const Region& region, PlanContext& plan) const = 0;
  /// First words of its kernels' printed schedules. CompileOptions::schedule selects a schedule by
  /// its text, which the family's programs parse.
  virtual std::vector<std::string_view> schedules() const { return {}; }
  /// Hashes of constants that only the family's kernels read, whose elements may therefore have a
  /// different order in the plan.
  virtual std::set<std::uint64_t> packed_weights(std::span<const Graph* const>,
                                                 const CompileOptions&) const {
    return {};
  }
  /// Called before the first region; may be null.
  virtual std::unique_ptr<FamilyState> begin(PlanContext&) const { return nullptr; }
};

/// A step that reads the region's inputs and writes its outputs; each buffer is listed once.
StepT step_of(const Region& region);

/// Sets the cost of a step; the arithmetic is that of most operations.
void set_cost(StepT& step, const StepCost& cost, ExprTable& exprs);

/// The only tactic of a step: one kernel, or work of the runtime.
Tactic only(std::string kernel, std::shared_ptr<const KernelProgram> program);
template <typename Work>
Tactic only(Work work) {
  Tactic tactic;
  tactic.parts.emplace_back().work.Set(std::move(work));
  return tactic;
}

/// CompileOptions::schedule if it begins with one of the family's words, otherwise "".
std::string asked_schedule(const KernelFamily& family, const CompileOptions& options);

}  // namespace sinter::codegen
