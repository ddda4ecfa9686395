// A step of a plan with sizes and addresses bound: what a run launches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "graphs/module.h"
#include "runtime/cuda/cublaslt/matmul_cublaslt.h"
#include "runtime/cuda/cudnn/conv_cudnn.h"
#include "runtime/plan/plan_data.h"

namespace sinter::runtime {

struct KernelLaunch {
  const plan::fb::KernelVariantT* variant = nullptr;  // the plan's
  CUfunction function = nullptr;
  graphs::LaunchConfig config;
  std::vector<std::uint64_t> values;  // of the parameters
  std::vector<std::int64_t> buffers;  // whose address each is; -1: a number
  std::vector<CUtensorMap> maps;      // of those behind them
  std::vector<void*> arguments;       // into values and maps
};
struct CopyLaunch {
  CUdeviceptr target = 0, source = 0;
  std::uint64_t bytes = 0;
  std::uint32_t source_buffer = 0;
};
struct ZeroFill {
  CUdeviceptr target = 0;
  std::uint64_t bytes = 0;
};

using Launch = std::variant<KernelLaunch, MatmulLaunch, ConvLaunch, CopyLaunch, ZeroFill>;
/// `early`: a kernel may start before what is in front of it on the stream has ended.
void launch(const Launch& work, const graphs::Driver& driver, CUstream stream, bool early = true);
/// Kernels, library calls or copies.
std::size_t launches_of(const Launch& work);

/// A loop: the steps of its body, which are next, are launched for each iteration. The numbers of
/// all iterations lie in memory side by side, and what reads the number gets the address of its
/// own.
struct LoopLaunch {
  std::size_t steps = 0;
  std::int64_t trips = 0;
  CUdeviceptr numbers = 0;
  std::vector<CUdeviceptr*> readers;  // parameters of launches in the body that are its address
};

/// One step: what it launches, in order; nothing if it has nothing to write for this shape.
struct StepLaunches {
  std::size_t index = 0;  // in the plan
  std::vector<Launch> works;
  std::string tactic;  // the one that was taken, of a step that has several
  std::optional<LoopLaunch> loop = {};

  /// `early`: of its first work.
  void launch(const graphs::Driver& driver, CUstream stream, bool early = true) const;
  /// Kernels and library calls.
  std::size_t launches() const;
  /// Whether its first kernel starts before the step in front has ended.
  bool overlaps() const;
  /// The tactic and what libraries chose, for people; empty if nothing was chosen.
  std::string how() const;
};

/// All of them, one after the other, and the bodies of loops in each iteration. `early`: of the
/// first work.
void launch_steps(std::span<const StepLaunches> steps, const graphs::Driver& driver,
                  CUstream stream, bool early);
/// How often each of them is launched in a run.
std::vector<std::size_t> runs_of(std::span<const StepLaunches> steps);

/// The device address of every buffer of a plan for one bound shape; `is_foreign` marks those that
/// are the user's and may be written by runs alone.
struct BufferAddresses {
  std::vector<CUdeviceptr> address;
  std::vector<bool> is_foreign;
};

}  // namespace sinter::runtime
