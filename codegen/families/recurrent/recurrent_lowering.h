// Regions of kind "recurrent": one layer, its buffers and its schedule.
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

/// What is read and written, in the order of the kernel's parameters; see ir/ops/recurrent.cpp.
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

struct RecurrentProgram {
  RecurrentCell cell = RecurrentCell::kLstm;
  DType dtype = DType::kFloat16;  // of x and the weights
  int directions = 1;
  bool backwards = false;  // the first one
  std::int64_t units = 0;
  Dim steps, batch;
  std::optional<std::uint32_t> buffers[kRecurrentRoles];  // of the plan, by role

  std::optional<std::uint32_t> buffer(RecurrentRole role) const {
    return buffers[static_cast<std::size_t>(role)];
  }
  int gates() const;
};

/// `body` holds one Recurrent of its inputs. Throws Error(kUnsupported) for anything else.
RecurrentProgram lower_recurrent(const Graph& body, Buffers inputs, Buffers outputs);
/// Everything but the buffers.
std::string print_recurrent(const RecurrentProgram& program);
/// The recurrent product, and what the gates cost beside it.
StepCost cost_of(const RecurrentProgram& program, const SizeOf& size);

/// How a layer is spread over a device; see RecurrentShape in recurrent.cuh.
struct RecurrentSchedule {
  int blocks = 0;                     // of a cluster
  int warps = 0;                      // of a block
  int held = 0;                       // blocks of 32 weights of a row that are in registers
  int columns = 8;                    // sequences of a cluster
  std::vector<Condition> conditions;  // when it may be used

  int threads() const { return warps * 32; }
  /// "recurrent cluster=16 warps=8 held=16 columns=8".
  std::string to_string() const;
};
/// Dynamic shared memory, as the kernel asserts it.
std::uint32_t recurrent_shared_bytes(std::int64_t units, const RecurrentSchedule& schedule);

/// Every schedule of `columns` sequences a cluster for `units` units on `device`, the best guess
/// first; empty if the weights do not fit on chip.
std::vector<RecurrentSchedule> recurrent_schedules(std::int64_t units, int columns,
                                                   const DeviceModel& device);
/// The schedules to emit, in the order in which the runtime tries their conditions; the last has
/// none. `forced`, if not empty, is the only one, in the form of to_string(). Throws
/// Error(kUnsupported) if there are none, or it is none of them.
std::vector<RecurrentSchedule> choose_recurrent(const RecurrentProgram& program, ExprTable& exprs,
                                                const DeviceModel& device,
                                                const std::string& forced);

EmittedKernel emit_recurrent(const RecurrentProgram& program, const KernelRequest& request,
                             const std::string& schedule, ExprTable& exprs);

}  // namespace sinter::codegen
