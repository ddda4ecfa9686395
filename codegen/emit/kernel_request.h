// What a kernel is written for, and what is written.
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

struct KernelRequest {
  const plan::fb::LoopProgramT* program = nullptr;
  std::string name;                  // C identifier made of the operators, unique in the plan
  std::vector<std::string> origins;  // ONNX nodes, for the comment
  std::vector<DType> buffer_types;   // element type of each of program->buffers
  /// The matrix product that the program reads, whose program `program` is; null if there is none
  /// (see set_gemm of families/gemm).
  const GemmProgram* product = nullptr;
  std::vector<std::string> operands = {};    // names of the last buffers; those before are numbered
  std::optional<std::uint32_t> hidden = {};  // a buffer that is read or written, but is no memory
  /// Launched before the step in front has ended; waits for it itself
  /// (KernelVariant.programmatic_launch).
  bool programmatic_launch = false;
  std::set<std::uint32_t> given = {};               // buffers of the plan that no step writes
  std::string schedule = {};                        // the one to use, for measuring; empty: choose
  const DeviceModel* device = &reference_device();  // whose schedules are chosen
  std::string block = "blockIdx.x";                 // the text of the block's number
  bool precise = false;               // no cheaper forms of functions: see approximations.h
  RequestedSchedules requested = {};  // what takes the place of the rule's schedules
};

/// One translation unit with one or more variants of a kernel.
struct EmittedKernel {
  std::string source;                       // CUDA text, without the device headers
  plan::fb::KernelStepT step;               // variants (module not yet set) and args
  std::vector<plan::fb::KernelStepT> more;  // what runs after it, of the same source
  std::vector<VariantChoice> choices;       // the rule's variants; empty: nothing can be chosen
  std::string custom_operator;              // whose code it is; empty: Sinter's own
  /// Code by architecture, in place of `source`, which then only says what it is.
  std::map<std::string, std::vector<std::byte>> cubins;
};

}  // namespace sinter::codegen
