// SPDX-License-Identifier: Apache-2.0
// A persistent kernel: the kernels of a run of steps as tasks of one launch, which counters in
// memory connect instead of boundaries of kernels.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "codegen/families/family.h"

namespace sinter::codegen {

/// A step of the run: the kernel that makes its tasks, one for each of its blocks.
struct TaskStep {
  std::string name;
  std::shared_ptr<const KernelProgram> program;
  std::uint32_t level = 0;  // it waits for all steps of the level in front
};

/// Threads of the blocks of a persistent kernel.
inline constexpr int kTaskThreads = 256;

/// The emitted task of a step's kernel alone, or the reason why it has none: another number of
/// threads, clusters, a grid that is not known.
struct EmittedTask {
  EmittedKernel kernel;
  std::int64_t tasks = 0;  // its blocks
  std::string refusal;
};
EmittedTask emit_task(const KernelProgram& program, KernelRequest request, ExprTable& exprs);

/// The steps in order of their levels; each block of the grid runs its tasks in that order, and all
/// blocks are resident, so that a task waits only for what runs or has run. `counters`: a buffer of
/// u64 that has a u32 for each level and is cleared by a launch in front, the step's first part.
class TaskProgram final : public KernelProgram {
 public:
  TaskProgram(std::vector<TaskStep> steps, std::uint32_t counters);

  std::string signature(const ExprTable& exprs) const override;
  std::vector<std::uint32_t> buffers() const override { return buffers_; }
  EmittedKernel emit(KernelRequest request, ExprTable& exprs) const override;

  /// Words of the buffer of counters.
  static std::int64_t counter_words(const std::vector<TaskStep>& steps);

 private:
  std::vector<TaskStep> steps_;
  std::vector<std::uint32_t> buffers_;  // of all steps, each once; then the counters
};

}  // namespace sinter::codegen
