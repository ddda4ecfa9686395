// SPDX-License-Identifier: Apache-2.0
// Resources of a session that steps with library calls share.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "graphs/device.h"
#include "graphs/memory.h"
#include "runtime/cuda/tactics/flush_buffer.h"
#include "runtime/cuda/tactics/operand_samples.h"
#include "runtime/libraries/tuning_cache.h"

namespace sinter::runtime {

class CublasLtHandle;
class CudnnHandle;
class HostOperators;

/// Chosen tactic's number, by problem.
using TakenTactics = std::map<std::string, std::size_t>;

/// A step's tactics, each timed alone.
struct TimedChoice {
  std::string problem;
  std::vector<double> microseconds;  // by tactic; infinite: unsupported here
  std::vector<std::string> how;      // by tactic, human-readable
  std::size_t taken = 0;
  std::vector<bool> overlaps;  // by tactic: whether it starts before the previous step has ended
};

struct LibraryContext {
  graphs::ContextPtr context;
  std::shared_ptr<const CublasLtHandle> cublaslt;  // null: the plan needs no cuBLASLt
  std::shared_ptr<const CudnnHandle> cudnn;        // null: not needed, or missing
  CUdeviceptr workspace = 0;                       // shared: steps run one after another
  std::uint64_t workspace_bytes = 0;
  std::shared_ptr<TuningCache> tuning;  // null without a library
  CUstream stream = nullptr;            // stream for timing candidates
  FlushBuffer* flush = nullptr;
  OperandSamples* samples = nullptr;         // sample operands for timing; null: memory as it is
  const HostOperators* operators = nullptr;  // null: the plan has no host steps
  graphs::DeviceAllocatorPtr allocator;      // for host operators' workspaces; null: the driver's
  const TakenTactics* taken = nullptr;  // forced tactics, instead of stored ones; others are chosen
  std::vector<TimedChoice>* timed = nullptr;  // receives the choices that were timed, not those
                                              // found in the cache
  bool thorough = false;                      // SessionOptions::thorough_tuning
  bool conditional_nodes = false;             // loops may be conditional graph nodes
};

/// Names the GPU, the driver and the versions of the libraries that the plan uses: a stored choice
/// is valid only in the same environment. Null: the library is missing.
std::string tuning_environment(const graphs::Context& context, const CublasLtHandle* cublaslt,
                               const CudnnHandle* cudnn);

}  // namespace sinter::runtime
