// A plan with what is known of how it was made.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <sinter/error.h>

#include "ir/tensor.h"
#include "runtime/plan/plan_data.h"

namespace sinter::codegen {

/// A node of the graph that is compiled, or of the one of entry point number `entry`.
struct NodePlace {
  std::size_t entry = 0, node = 0;
};

/// A generated kernel that NVRTC does not take: a defect of Sinter.
struct RefusedKernel {
  std::string name, architecture;
  std::vector<std::string> origins;  // ONNX nodes
  std::vector<NodePlace> nodes;      // that it is a kernel of
  std::string log;                   // the compiler's
  std::string reproducer;            // path of a standalone file, or why there is none
};

/// Error(kInternal) of all kernels that NVRTC does not take: the caller may separate their nodes
/// (fusion/separate.h) and try again.
class KernelsRefused : public Error {
 public:
  explicit KernelsRefused(std::vector<RefusedKernel> refused);
  std::vector<RefusedKernel> kernels;
};

/// A size that a variant of a kernel needs.
struct SizeCondition {
  ir::Dim size;
  std::int64_t divisor = 1, max = INT64_MAX;
  bool holds(const ir::Bindings& symbols) const {
    const std::int64_t value = size.evaluate(symbols);
    return value % divisor == 0 && value <= max;
  }
};

/// One of the variants that the rules make of a kernel; the first whose conditions hold is run.
struct VariantInfo {
  std::vector<SizeCondition> conditions;
  std::vector<std::string> candidates;  // schedules that it can have, the rule's own first
  std::string refused;                  // CompileOptions::schedules has it, but it is no candidate
};

/// A generated kernel that has a choice of schedules.
struct KernelInfo {
  std::string name;
  /// Says everything that schedules depend on: program, types, ranges of sizes, options.
  std::string key;
  std::size_t entry = 0;  // the first that uses it: the entry point,
  std::size_t node = 0;   // and the node of its graph
  std::size_t uses = 0;
  /// How CompileOptions::gemm makes this kernel, and no other tactic for the step, from that
  /// node: empty: the step is this kernel alone; "gemm": by a schedule.
  std::string tactic;
  ir::Dim bytes, flops;  // of the first step that uses it
  std::vector<VariantInfo> variants;
};

struct CompileStats {
  std::size_t kernels = 0, cache_hits = 0;
  double nvrtc_seconds = 0;
};

/// How a state gets its new value.
struct StateInfo {
  std::string input, output;
  bool in_place = false;  // else it is copied after all steps
  std::string reason;     // why it is copied
};

/// A weight of the plan that is made of the model's constants.
struct TracedWeight {
  std::uint64_t offset = 0;  // in its section
  std::shared_ptr<const ir::Tensor> tensor;
};

struct CompiledPlan {
  plan::PlanParts parts;
  std::vector<TracedWeight> traced;
  std::vector<std::shared_ptr<const ir::Tensor>> printed;  // constants, as graph_text has them
  std::vector<StateInfo> states;
  CompileStats stats;
  std::vector<KernelInfo> kernels;
};

}  // namespace sinter::codegen
