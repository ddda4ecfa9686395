// SPDX-License-Identifier: Apache-2.0
// The input and the output of an emitter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <sinter/dtype.h>

#include "codegen/plan/schedule_choice.h"
#include "codegen/targets/device_model.h"
#include "runtime/plan/plan_data.h"

namespace sinter::codegen {

struct GemmProgram;

/// A kernel as a task of a persistent one: a device function instead, with the parameters `u32
/// task`, the block's number, and `TaskWait ready` (device/tasks.cuh) behind its own. It calls
/// ready() before it reads what steps write, and may copy weights before that. All have blocks of
/// `threads` threads, and dynamic shared memory within a bound; none has clusters.
struct TaskShape {
  int threads = 0, most_shared_bytes = 0;
};

/// Each rank has a summand in buffer `buffer` of the program, which reads their sum
/// (families/collective/summands.cuh).
struct RankSummands {
  std::uint32_t buffer = 0, peers = 0;  // peers: of the plan
  std::int64_t ranks = 0;
};

struct KernelRequest {
  const plan::fb::LoopProgramT* program = nullptr;
  std::string name;                  // C identifier made of the operators, unique in the plan
  std::vector<std::string> origins;  // ONNX nodes, for the comment
  std::vector<DType> buffer_types;   // element type of each of program->buffers
  /// The GEMM whose result the program reads, as its epilogue; null if there is none (see set_gemm
  /// in families/gemm).
  const GemmProgram* product = nullptr;
  std::vector<std::string> operands = {};    // names of the last buffers; those before are numbered
  std::optional<std::uint32_t> hidden = {};  // a buffer read or written that has no memory
  /// Launched before the preceding step ends; waits for it in its own code
  /// (KernelVariant.programmatic_launch).
  bool programmatic_launch = false;
  std::set<std::uint32_t> given = {};               // buffers of the plan that no step writes
  std::optional<std::uint32_t> scan_tiles = {};     // memory through which tiles of rows meet
  std::optional<RankSummands> summands = {};        // a buffer that is a summand
  std::string schedule = {};                        // the schedule to use, for measurements; empty:
                                                    // choose
  const DeviceModel* device = &reference_device();  // whose schedules are chosen
  std::string block = "blockIdx.x";                 // the text of the block's number
  bool precise = false;                // no cheaper forms of functions: see approximations.h
  RequestedSchedules requested = {};   // schedules that replace the rule's
  std::optional<TaskShape> task = {};  // a task's function is written, not a kernel
};

/// One translation unit with one or more variants of a kernel.
struct EmittedKernel {
  std::string source;                       // CUDA text, without the device headers
  plan::fb::KernelStepT step;               // variants (module not yet set) and args
  std::vector<plan::fb::KernelStepT> more;  // later launches from the same source
  std::vector<VariantChoice> choices;       // the rule's variants; empty if nothing can be chosen
  std::string custom_operator;              // the operator that supplied the code; empty: Sinter's
                                            // own
  /// Code by architecture, if given; `source` then only describes it.
  std::map<std::string, std::vector<std::byte>> cubins;
};

}  // namespace sinter::codegen
