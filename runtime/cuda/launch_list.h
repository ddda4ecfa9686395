// A step of a plan with sizes and addresses bound: what a run launches.
#pragma once

#include <cstddef>
#include <cstdint>
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
  std::vector<CUtensorMap> maps;      // of those behind them
  std::vector<void*> arguments;       // into values and maps
};
struct CopyLaunch {
  CUdeviceptr target = 0, source = 0;
  std::uint64_t bytes = 0;
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

/// One step: what it launches, in order; nothing if it has nothing to write for this shape.
struct StepLaunches {
  std::size_t index = 0;  // in the plan
  std::vector<Launch> works;
  std::string tactic;  // the one that was taken, of a step that has several

  /// `early`: of its first work.
  void launch(const graphs::Driver& driver, CUstream stream, bool early = true) const;
  /// Kernels and library calls.
  std::size_t launches() const;
  /// Whether its first kernel starts before the step in front has ended.
  bool overlaps() const;
  /// The tactic and what libraries chose, for people; empty if nothing was chosen.
  std::string how() const;
};

/// The device address of every buffer of a plan for one bound shape; `is_foreign` marks those that
/// are the user's and may be written by runs alone.
struct BufferAddresses {
  std::vector<CUdeviceptr> address;
  std::vector<bool> is_foreign;
};

}  // namespace sinter::runtime
