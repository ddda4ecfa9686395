// SPDX-License-Identifier: Apache-2.0
// A plan and facts about its compilation.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <sinter/error.h>

#include "ir/tensor.h"
#include "runtime/plan/plan_data.h"

namespace sinter::codegen {

/// A node of the compiled graph, or of the graph of entry point `entry`.
struct NodePlace {
  std::size_t entry = 0, node = 0;
};

/// A generated kernel that NVRTC rejects: a defect of Sinter.
struct RefusedKernel {
  std::string name, architecture;
  std::vector<std::string> origins;  // ONNX nodes
  std::vector<NodePlace> nodes;      // nodes that use it
  std::string log;                   // log of the compiler
  std::string reproducer;            // path of a standalone file, or why there is none
};

/// Error(kInternal) for all kernels that NVRTC rejects. The caller may separate their nodes
/// (fusion/separate.h) and retry.
class KernelsRefused : public Error {
 public:
  explicit KernelsRefused(std::vector<RefusedKernel> refused);
  std::vector<RefusedKernel> kernels;
};

/// A condition of a variant on a size.
struct SizeCondition {
  ir::Dim size;
  std::int64_t divisor = 1, max = INT64_MAX;
  bool holds(const ir::Bindings& symbols) const {
    const std::int64_t value = size.evaluate(symbols);
    return value % divisor == 0 && value <= max;
  }
};

/// A variant that the rules make of a kernel; the first whose conditions hold runs.
struct VariantInfo {
  std::vector<SizeCondition> conditions;
  std::vector<std::string> candidates;  // possible schedules, the rule's first
  std::string refused;                  // requested by CompileOptions::schedules, but no candidate
};

/// A generated kernel with a choice of schedules.
struct KernelInfo {
  std::string name;
  /// Text of everything that schedules depend on: program, types, ranges of sizes, options.
  std::string key;
  std::size_t entry = 0;  // of the first use: the entry point,
  std::size_t node = 0;   // and the node of its graph
  std::size_t uses = 0;
  /// How CompileOptions::gemm selects this kernel, without the step's other tactics. Empty: the
  /// step is only this kernel; "gemm": by its schedule.
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

/// A weight of the plan that is derived from constants of the model.
struct TracedWeight {
  std::uint64_t offset = 0;  // in its section
  std::shared_ptr<const ir::Tensor> tensor;
};

struct CompiledPlan {
  plan::PlanParts parts;
  std::vector<TracedWeight> traced;
  std::vector<std::shared_ptr<const ir::Tensor>> printed;  // constants, as in graph_text
  std::vector<StateInfo> states;
  CompileStats stats;
  std::vector<KernelInfo> kernels;
};

}  // namespace sinter::codegen
