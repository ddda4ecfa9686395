// SPDX-License-Identifier: Apache-2.0
// Kernels of the runtime's own operators, which OperatorSteps run on the CPU.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "runtime/plan/operators/operator_def.h"
#include "runtime/plan/plan_data.h"
#include "runtime/ranks/rank_group.h"
#include "runtime/threads/thread_pool.h"

namespace sinter::runtime::cpu {

class PackedWeights;

/// A step whose sizes are bound and, as its operator's definition demands it, checked.
struct OperatorCall {
  const plan::fb::PlanT& plan;
  const plan::fb::OperatorStepT& step;  // of `plan`, which outlives what is made of this
  const plan::OperatorSizes& sizes;
  PackedWeights& weights;
  int threads;
  const RankPlace& ranks;

  DType type_of_input(std::size_t input) const {
    return static_cast<DType>(plan.buffers[step.inputs[input]->buffer]->dtype);
  }
  /// The value of a float attribute.
  double real(std::string_view name) const {
    for (const auto& attribute : step.attributes)
      if (attribute->name == name) return attribute->real;
    return 0;
  }
};

/// Where the operands of a run lie.
struct Operands {
  const plan::fb::OperatorStepT& step;
  std::span<std::byte* const> buffers;  // of the plan

  template <typename T>
  const T* input(std::size_t index) const {
    return reinterpret_cast<const T*>(buffers[step.inputs[index]->buffer]);
  }
  template <typename T>
  T* output(std::size_t index) const {
    return reinterpret_cast<T*>(buffers[step.outputs[index]->buffer]);
  }
};

/// A kernel for the sizes of one step.
class PreparedOperator {
 public:
  virtual ~PreparedOperator() = default;
  /// Bytes that each thread needs, 64-byte aligned.
  virtual std::size_t workspace_bytes() const { return 0; }
  /// Allocates nothing. `workspaces`: one for each thread.
  virtual void run(const Operands& operands, std::span<std::byte* const> workspaces) const = 0;
  /// How a run went, for profiles (StepTime::how); empty: there is nothing to say.
  virtual std::string note(const Operands&) const { return {}; }
};

struct OperatorKernel {
  std::string_view name;  // OperatorDef::name
  /// Throws Error(kInvalidPlan) for constants that the kernel cannot read.
  std::unique_ptr<PreparedOperator> (*prepare)(const OperatorCall& call);
};
/// OperatorKernel::prepare of a class that is made of a call.
template <typename Prepared>
std::unique_ptr<PreparedOperator> prepare(const OperatorCall& call) {
  return std::make_unique<Prepared>(call);
}

/// All kernels: CMake makes the list of the files runtime/operators/*/*_kernel.cpp, each of which
/// defines the function that it is named after.
std::span<const OperatorKernel* const> operator_kernels();

/// Rounds up to whole cache lines.
constexpr std::size_t whole_lines(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

/// Calls `take(row, workspace)` for each row; a thread takes whole rows. `nanoseconds`: about what
/// a row takes.
template <typename Take>
void each_row(std::int64_t rows, double nanoseconds, int most_threads,
              std::span<std::byte* const> workspaces, const Take& take) {
  if (rows == 0) return;
  const std::int64_t most = std::min<std::int64_t>({rows, most_threads, std::ssize(workspaces)});
  const int team =
      threads::team_for(static_cast<double>(rows) * nanoseconds, static_cast<int>(most));
  threads::run_parts(rows, team, [&](threads::Member& member) {
    std::byte* const workspace = workspaces[static_cast<std::size_t>(member.me())];
    while (const auto row = member.next()) take(*row, workspace);
  });
}

}  // namespace sinter::runtime::cpu
