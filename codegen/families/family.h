// A kernel family: everything that the compiler knows of one kind of fused regions. Each has a
// folder here; registry.h lists them, and the driver (codegen/compile.cpp) knows none by name.
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

/// A fused region that is to become steps.
struct Region {
  const Graph& graph;
  const Node& node;                            // of `graph`, with a body
  std::vector<std::uint32_t> inputs, outputs;  // the plan's buffers of the node's values
  std::string name;                            // of its first step: "add_relu_3"

  /// Which kind of region the passes made: "pointwise", "matmul", ..
  const std::string& kind() const { return node.attrs.get_string("kind"); }
};

/// One generated kernel, or several launched one after the other, on the plan's buffers. Programs
/// with equal signatures on buffers of equal types are one kernel.
class KernelProgram {
 public:
  virtual ~KernelProgram() = default;
  /// Everything about the kernel but its buffers.
  virtual std::string signature(const ExprTable& exprs) const = 0;
  /// Those that it reads or writes.
  virtual std::vector<std::uint32_t> buffers() const = 0;
  /// Writes it for the request's device. The request has everything but the program: name, origins,
  /// the types of buffers(), options and schedules that are asked for.
  virtual EmittedKernel emit(KernelRequest request, ExprTable& exprs) const = 0;
};

/// A part of a tactic: a generated kernel, or work that the runtime or a library does.
struct TacticPart {
  std::string kernel;  // its name
  std::shared_ptr<const KernelProgram> program;
  plan::fb::WorkUnion work;  // without a program
  /// KernelInfo::tactic of the kernel, if it can be tuned by itself.
  std::optional<std::string> tuned_by = "";
};

/// One way to do a step, and the sizes that it is for.
struct Tactic {
  std::string name;  // printable; empty: the step has no other, and it is one part
  std::vector<Condition> conditions;
  std::vector<TacticPart> parts;  // one after the other
};

/// A step before its kernels are written.
struct StepTactics {
  /// The buffers that it reads and writes, and its cost (set_cost). Empty name: the region's.
  StepT step;
  std::vector<Tactic> tactics;  // best guess first; the last has no conditions
};

/// What a family keeps while one plan is compiled.
class FamilyState {
 public:
  virtual ~FamilyState() = default;
};

/// What families are given while one plan is compiled.
struct PlanContext {
  const CompileOptions& options;
  std::vector<const DeviceModel*> devices;  // of options.architectures; empty: no kernels
  std::span<const Graph* const> graphs;     // all of the plan's
  ExprTable& exprs;
  PlanBuffers& buffers;
  std::map<std::string, std::unique_ptr<FamilyState>, std::less<>> states = {};  // by family
  std::vector<plan::fb::CustomCodeT> custom_code = {};  // that families have put into the plan

  bool generates_kernels() const { return options.target->traits().generates_kernels; }
  SizeOf sizes() const {
    return [this](std::uint32_t buffer) { return buffers.size(buffer); };
  }
};

class KernelFamily {
 public:
  virtual ~KernelFamily() = default;
  /// The name of its folder.
  virtual std::string_view name() const = 0;
  /// Empty if the family makes steps of the region for the target, else why not.
  virtual std::string takes(const Region& region, const ir::TargetTraits& target) const = 0;
  /// The region's steps, one after the other, each with every way to do it. Throws
  /// Error(kUnsupported) naming the node.
  virtual std::vector<StepTactics> lower(const Region& region, PlanContext& plan) const = 0;
  /// The words that printed schedules of its kernels begin with: CompileOptions::schedule asks for
  /// one of them by its text, which the family's programs parse.
  virtual std::vector<std::string_view> schedules() const { return {}; }
  /// Hashes of constants of the graphs that nothing but the family's kernels reads, which may
  /// therefore have an order of their own in the plan.
  virtual std::set<std::uint64_t> packed_weights(std::span<const Graph* const>,
                                                 const CompileOptions&) const {
    return {};
  }
  /// Called before the first region; may be null.
  virtual std::unique_ptr<FamilyState> begin(PlanContext&) const { return nullptr; }
};

/// A step that reads the region's inputs and writes its outputs, each buffer once.
StepT step_of(const Region& region);

/// Writes down what a step costs, of which the arithmetic is most of the operations.
void set_cost(StepT& step, const StepCost& cost, ExprTable& exprs);

/// The only tactic of a step: one kernel, or work of the runtime.
Tactic only(std::string kernel, std::shared_ptr<const KernelProgram> program);
template <typename Work>
Tactic only(Work work) {
  Tactic tactic;
  tactic.parts.emplace_back().work.Set(std::move(work));
  return tactic;
}

/// CompileOptions::schedule if it begins with one of the family's words, else "".
std::string asked_schedule(const KernelFamily& family, const CompileOptions& options);

}  // namespace sinter::codegen
