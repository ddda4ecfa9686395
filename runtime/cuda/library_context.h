// SPDX-License-Identifier: Apache-2.0
// What steps that call libraries share in a session.
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

/// By problem: the number of the tactic that is taken.
using TakenTactics = std::map<std::string, std::size_t>;

/// A step's tactics, timed one by one.
struct TimedChoice {
  std::string problem;
  std::vector<double> microseconds;  // of each; infinite: it cannot be done here
  std::vector<std::string> how;      // of each, for people
  std::size_t taken = 0;
  std::vector<bool> overlaps;  // of each: it starts before the step in front has ended
};

struct LibraryContext {
  graphs::ContextPtr context;
  std::shared_ptr<const CublasLtHandle> cublaslt;  // null: no step of the plan needs it
  std::shared_ptr<const CudnnHandle> cudnn;        // null: not needed, or missing
  CUdeviceptr workspace = 0;                       // one for all: steps run one after the other
  std::uint64_t workspace_bytes = 0;
  std::shared_ptr<TuningCache> tuning;  // null without a library
  CUstream stream = nullptr;            // for timing candidates
  FlushBuffer* flush = nullptr;
  OperandSamples* samples = nullptr;          // of what is timed; null: whatever is there
  const HostOperators* operators = nullptr;   // null: the plan has none
  graphs::DeviceAllocatorPtr allocator;       // of their workspaces; null: the driver
  const TakenTactics* taken = nullptr;        // to take, whatever is stored; others are chosen
  std::vector<TimedChoice>* timed = nullptr;  // gets the choices that were timed, not found
  bool thorough = false;                      // SessionOptions::thorough_tuning
  bool conditional_nodes = false;             // loops may be such
};

/// Names GPU, driver and the versions of the libraries that the plan uses: algorithms and
/// tactics are used only where they were chosen. Null: a library that is not there.
std::string tuning_environment(const graphs::Context& context, const CublasLtHandle* cublaslt,
                               const CudnnHandle* cudnn);

}  // namespace sinter::runtime
