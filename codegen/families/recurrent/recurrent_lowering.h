// SPDX-License-Identifier: Apache-2.0
// Regions of kind "recurrent": a layer's buffers and schedule.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sinter/dtype.h>

#include "codegen/emit/kernel_request.h"
#include "codegen/plan/cost.h"
#include "codegen/plan/expr_table.h"
#include "codegen/program/describe.h"
#include "codegen/targets/device_model.h"

namespace sinter::codegen {

enum class RecurrentCell { kLstm, kGru, kResetFirstGru, kRnn };

/// Operands, in the order of the kernel's parameters; see ir/ops/recurrent/recurrent.cpp.
enum class RecurrentRole {
  kX,
  kWeights,
  kBias,
  kInitialH,
  kInitialC,
  kLengths,
  kY,
  kLastH,
  kLastC
};
inline constexpr std::size_t kRecurrentRoles = 9;

/// What schedules depend on.
struct RecurrentLayer {
  std::int64_t units = 0;
  DType dtype = DType::kFloat16;

  /// Words of 16 bytes that eight weights fill.
  int words() const { return static_cast<int>(size_of(dtype)) / 2; }
};

struct RecurrentProgram {
  RecurrentCell cell = RecurrentCell::kLstm;
  DType dtype = DType::kFloat16;  // of x and the weights
  int directions = 1;
  bool backwards = false;  // applies to the first direction
  std::int64_t units = 0;
  Dim steps, batch;
  std::optional<std::uint32_t> buffers[kRecurrentRoles];  // of the plan, by role

  std::optional<std::uint32_t> buffer(RecurrentRole role) const {
    return buffers[static_cast<std::size_t>(role)];
  }
  RecurrentLayer layer() const { return {units, dtype}; }
  int gates() const;
};

/// `body` contains one Recurrent of its inputs. Throws Error(kUnsupported) for other bodies.
RecurrentProgram lower_recurrent(const Graph& body, Buffers inputs, Buffers outputs);
/// Everything except the buffers.
std::string print_recurrent(const RecurrentProgram& program);
/// Cost of the recurrent matmuls and the gates.
StepCost cost_of(const RecurrentProgram& program, const SizeOf& size);

/// Distribution of a layer over a device; see RecurrentShape in recurrent.cuh.
struct RecurrentSchedule {
  int blocks = 0;                     // of a cluster
  int warps = 0;                      // of a block
  int held = 0;                       // blocks of 32 weights of a row in registers
  int columns = 8;                    // sequences of a cluster
  std::vector<Condition> conditions;  // on the sizes

  int threads() const { return warps * 32; }
  /// "recurrent cluster=16 warps=8 held=16 columns=8".
  std::string to_string() const;
};
/// Dynamic shared memory, in bytes; the kernel asserts it.
std::uint32_t recurrent_shared_bytes(const RecurrentLayer& layer,
                                     const RecurrentSchedule& schedule);

/// All schedules with `columns` sequences a cluster for `layer` on `device`, best guess first;
/// empty if the weights do not fit on chip.
std::vector<RecurrentSchedule> recurrent_schedules(const RecurrentLayer& layer, int columns,
                                                   const DeviceModel& device);
/// The schedules to emit, in the order in which the runtime tests their conditions; the last has
/// none. `forced`, if not empty, is the only one, in to_string() form. Throws Error(kUnsupported)
/// if there is none, or `forced` is invalid.
std::vector<RecurrentSchedule> choose_recurrent(const RecurrentProgram& program, ExprTable& exprs,
                                                const DeviceModel& device,
                                                const std::string& forced);

EmittedKernel emit_recurrent(const RecurrentProgram& program, const KernelRequest& request,
                             const std::string& schedule, ExprTable& exprs);

}  // namespace sinter::codegen
