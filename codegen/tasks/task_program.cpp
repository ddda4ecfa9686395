// SPDX-License-Identifier: Apache-2.0
#include "codegen/tasks/task_program.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sinter/error.h>

#include "codegen/emit/kernel_text.h"
#include "codegen/emit/memory/clear_before.h"

namespace sinter::codegen {
namespace {

using plan::fb::ArgKind;
using plan::fb::KernelArg;
using plan::fb::KernelVariantT;

// What the hardware reserves of each block, and static shared memory of tasks.
constexpr int kReservedBytes = 1024, kStaticBytes = 8 * 1024;
constexpr int kResidentBlocks = 2;

/// Dynamic shared memory of a task: two blocks are resident.
int most_shared_bytes(const DeviceModel& device) {
  return std::min(device.shared_bytes / kResidentBlocks - kReservedBytes - kStaticBytes,
                  device.block_shared_bytes);
}

/// The kernel's text while its steps are added.
class TaskText {
 public:
  TaskText(const KernelRequest& request, ExprTable& exprs,
           const std::vector<std::uint32_t>& buffers)
      : request_(request), exprs_(exprs), buffers_(buffers) {}

  void add(const TaskStep& step) {
    const Kind& kind = kind_of(step);
    if (step.level != level_) begin_level(step.level);
    const std::vector<std::uint32_t> own = step.program->buffers();
    std::vector<std::string> arguments;
    for (const KernelArg& arg : kind.args)
      arguments.push_back(arg.kind() == ArgKind::Buffer
                              ? fmt::format("TaskBuffer{{p{}}}", place(own[kind.place(arg)]))
                              : size(arg));
    arguments.insert(arguments.end(), {"task", "ready"});
    const auto tasks = static_cast<std::uint64_t>(kind.tasks), blocks = grid();
    body_ += fmt::format(
        "  // {0}: {1} tasks, level {2}\n"
        "  if (u32 task = first_task({3}); task < {1}) {{\n"
        "    for (; task < {1}; task += gridDim.x) {{\n"
        "      {4}\n      ready.parts = 0;\n"
        "      __syncthreads();  // shared memory is used again\n    }}\n"
        "    end_part(ended + {2});\n  }}\n",
        comment_text(step.name), tasks, step.level, first_ % blocks,
        signature_text(kind.function, arguments) + ";");
    first_ += tasks;
    parts_ += std::min(tasks, blocks);
  }

  EmittedKernel finish(std::uint32_t counters, std::size_t steps) {
    std::vector<std::string> parameters;
    EmittedKernel kernel;
    for (std::size_t b = 0; b < buffers_.size(); ++b) {
      parameters.push_back(b + 1 == buffers_.size() ? "u32* ended" : fmt::format("void* p{}", b));
      kernel.step.args.emplace_back(ArgKind::Buffer, buffers_[b]);
    }
    for (std::size_t s = 0; s < sizes_.size(); ++s) {
      parameters.push_back(
          fmt::format("{} n{}", sizes_[s].kind() == ArgKind::Int64 ? "i64" : "i32", s));
      kernel.step.args.push_back(sizes_[s]);
    }
    kernel.source =
        kernel_heading(request_.name, request_.origins) + "#include \"tasks.cuh\"\n" + functions_ +
        fmt::format(
            "\nextern \"C\" __global__ void __launch_bounds__({}, {})\n{} {{\n"
            "  TaskWait ready = {{ended, 0}};\n{}}}\n",
            kTaskThreads, kResidentBlocks, signature_text(request_.name, parameters), body_);
    auto variant = std::make_unique<KernelVariantT>();
    variant->function = request_.name;
    variant->grid = {exprs_.intern(Dim(static_cast<std::int64_t>(grid()))), exprs_.intern(1),
                     exprs_.intern(1)};
    variant->block = {kTaskThreads, 1, 1};
    variant->shared_bytes = shared_bytes_;
    variant->cluster = 0;
    variant->schedule = fmt::format("tasks steps={} levels={} tasks={} functions={}", steps,
                                    level_ + 1, first_, kinds_.size());
    kernel.step.variants.push_back(std::move(variant));
    clear_before(kernel, request_.name, counters, Dim(std::int64_t{level_} / 2 + 1), exprs_);
    return kernel;
  }

 private:
  /// Steps whose kernels have one signature, on buffers of equal types, share a function.
  struct Kind {
    std::string function;
    std::vector<std::uint32_t> buffers;  // of its first step
    std::vector<KernelArg> args;
    std::int64_t tasks = 0;

    std::size_t place(const KernelArg& arg) const {
      return static_cast<std::size_t>(std::ranges::find(buffers, arg.index()) - buffers.begin());
    }
  };

  std::uint64_t grid() const {
    return static_cast<std::uint64_t>(request_.device->multiprocessors) * kResidentBlocks;
  }

  std::size_t place(std::uint32_t buffer) const {
    return static_cast<std::size_t>(std::ranges::find(buffers_, buffer) - buffers_.begin());
  }

  const Kind& kind_of(const TaskStep& step) {
    const std::vector<std::uint32_t> own = step.program->buffers();
    KernelRequest request = request_;
    request.name = fmt::format("{}_{}", request_.name, kinds_.size());
    request.buffer_types.clear();
    std::string key = step.program->signature(exprs_);
    for (const std::uint32_t buffer : own) {
      request.buffer_types.push_back(request_.buffer_types[place(buffer)]);
      key += fmt::format(" {}{}", to_string(request.buffer_types.back()),
                         request_.given.contains(buffer) ? " given" : "");
    }
    const auto [at, is_new] = kinds_.try_emplace(std::move(key));
    if (!is_new) return at->second;
    EmittedTask task = emit_task(*step.program, std::move(request), exprs_);
    if (!task.refusal.empty())
      throw Error(ErrorCode::kInternal,
                  fmt::format("step '{}' is no task: {}", step.name, task.refusal));
    const KernelVariantT& variant = *task.kernel.step.variants.back();
    functions_ += task.kernel.source;
    shared_bytes_ = std::max(shared_bytes_, variant.shared_bytes);
    at->second = {variant.function, own, std::move(task.kernel.step.args), task.tasks};
    return at->second;
  }

  void begin_level(std::uint32_t level) {
    body_ += fmt::format("  ready = {{ended + {}, {}}};\n", level_, parts_);
    parts_ = 0;
    level_ = level;
  }

  std::string size(const KernelArg& arg) {
    const auto at = std::ranges::find_if(sizes_, [&](const KernelArg& known) {
      return known.kind() == arg.kind() && known.index() == arg.index();
    });
    const auto number = at - sizes_.begin();
    if (at == sizes_.end()) sizes_.push_back(arg);
    return fmt::format("n{}", number);
  }

  const KernelRequest& request_;
  ExprTable& exprs_;
  const std::vector<std::uint32_t>& buffers_;
  std::map<std::string, Kind> kinds_;
  std::vector<KernelArg> sizes_;
  std::string functions_, body_;
  std::uint32_t level_ = 0, shared_bytes_ = 0;
  std::uint64_t first_ = 0;  // block of a step's first task, so that blocks have as many each
  std::uint64_t parts_ = 0;  // of the level
};

}  // namespace

EmittedTask emit_task(const KernelProgram& program, KernelRequest request, ExprTable& exprs) {
  EmittedTask task;
  if (!program.has_tasks()) {
    task.refusal = "its kernel has no tasks";
    return task;
  }
  request.block = "task";
  request.programmatic_launch = false;
  request.requested = {};
  request.task = TaskShape{kTaskThreads, most_shared_bytes(*request.device)};
  try {
    task.kernel = program.emit(std::move(request), exprs);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
    task.refusal = error.what();
    return task;
  }
  const KernelVariantT& variant = *task.kernel.step.variants.back();
  const Dim blocks = exprs.dim(variant.grid[0]);
  const std::vector<std::uint32_t> threads = {kTaskThreads, 1, 1};
  if (!task.kernel.more.empty() || variant.cluster > 1 || !variant.maps.empty() ||
      !variant.args.empty() || task.kernel.step.packed)
    task.refusal = "it is no single plain launch";
  else if (!variant.conditions.empty())
    task.refusal = "no schedule takes all sizes";
  else if (variant.block != threads)
    task.refusal = fmt::format("its blocks have {} threads", fmt::join(variant.block, "x"));
  else if (!blocks.is_constant() || exprs.dim(variant.grid[1]) != Dim(1))
    task.refusal = "its grid depends on sizes";
  else
    task.tasks = blocks.value();
  return task;
}

TaskProgram::TaskProgram(std::vector<TaskStep> steps, std::uint32_t counters)
    : steps_(std::move(steps)) {
  std::ranges::stable_sort(steps_, {}, &TaskStep::level);
  for (const TaskStep& step : steps_)
    for (const std::uint32_t buffer : step.program->buffers())
      if (std::ranges::find(buffers_, buffer) == buffers_.end()) buffers_.push_back(buffer);
  buffers_.push_back(counters);
}

std::int64_t TaskProgram::counter_words(const std::vector<TaskStep>& steps) {
  return std::ranges::max(steps, {}, &TaskStep::level).level / 2 + 1;
}

std::string TaskProgram::signature(const ExprTable& exprs) const {
  std::string text = "tasks";
  for (const TaskStep& step : steps_) {
    text += fmt::format("\nlevel {}: {} on", step.level, step.program->signature(exprs));
    for (const std::uint32_t buffer : step.program->buffers())
      text += fmt::format(" {}", std::ranges::find(buffers_, buffer) - buffers_.begin());
  }
  return text;
}

EmittedKernel TaskProgram::emit(KernelRequest request, ExprTable& exprs) const {
  TaskText text(request, exprs, buffers_);
  for (const TaskStep& step : steps_) text.add(step);
  return text.finish(buffers_.back(), steps_.size());
}

}  // namespace sinter::codegen
