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

enum class RecurrentCell { kLstm, kGru, kRnn };

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
  int blocks = 0;  // of a cluster
  int warps = 0;   // of a block
  int held = 0;    // blocks of 32 weights of a row that are in registers

  int threads() const { return warps * 32; }
  /// "recurrent cluster=16 warps=8 held=16".
  std::string to_string() const;
};
/// Dynamic shared memory, as the kernel asserts it.
std::uint32_t recurrent_shared_bytes(std::int64_t units, const RecurrentSchedule& schedule);

/// Every schedule for `units` units on `device`, the best guess first; empty if the weights do not
/// fit on chip.
std::vector<RecurrentSchedule> recurrent_schedules(std::int64_t units, const DeviceModel& device);
/// The schedule that `text` prints. Throws Error(kUnsupported) if it is none of them.
RecurrentSchedule parse_recurrent(const std::string& text, std::int64_t units,
                                  const DeviceModel& device);

EmittedKernel emit_recurrent(const RecurrentProgram& program, const KernelRequest& request,
                             const std::string& schedule, ExprTable& exprs);

}  // namespace sinter::codegen
