// Kernels that steps share: what they are made of, and what is known of them.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "codegen/compile.h"
#include "codegen/emit/kernel_request.h"
#include "codegen/targets/cuda/nvrtc.h"

namespace sinter::codegen {

/// Emits the kernel of a step under a name, with the origins of all that share it and the element
/// types of its buffers.
using EmitKernel = std::function<EmittedKernel(
    const std::string& name, const std::vector<std::string>& origins, std::vector<DType> types)>;

/// Where a kernel is used: as the work of a step, or as a part of one of its alternatives.
struct Place {
  std::size_t step = 0;
  std::optional<std::pair<std::size_t, std::size_t>> part;  // alternative, part
};

/// Uses of kernels that have one source: they differ in buffers alone.
struct KernelGroup {
  std::string name;              // of its first use
  std::string signature;         // all that schedules depend on but ranges of sizes and options
  std::vector<NodePlace> nodes;  // whose steps use it, the first use's first
  std::vector<Place> places;
  std::vector<std::vector<std::uint32_t>> buffers;  // the plan's, for each of places
  std::vector<std::string> origins;
  /// Writes the kernel for the buffers of the first place.
  EmitKernel emit;
};

/// `step`, a kernel on the buffers of the group's first place, on those of place number `place`.
plan::fb::KernelStepT on_buffers_of(const KernelGroup& group, plan::fb::KernelStepT step,
                                    std::size_t place);

/// KernelInfo::key of a group: a hash.
std::string kernel_key(const KernelGroup& group, const ir::Ranges& ranges,
                       const CompileOptions& options);

/// What is known of a group's kernel, whose first use is in `step`, but its key; nothing if it has
/// no choice of schedules, or cannot be made without other ways to do the step.
std::optional<KernelInfo> kernel_info(const KernelGroup& group, const plan::fb::StepT& step,
                                      std::vector<VariantChoice>& choices, const ExprTable& exprs);

/// Puts text and code of the groups' kernels into the plan, ordered by group, then by architecture.
void add_modules(plan::PlanParts& parts, const std::vector<KernelGroup>& groups,
                 std::vector<std::string> sources,
                 std::vector<std::vector<CompiledKernel>> compiled,
                 const std::vector<std::string>& architectures);

}  // namespace sinter::codegen
