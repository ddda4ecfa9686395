// SPDX-License-Identifier: Apache-2.0
// Measures where a session spends its time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <sinter/export.h>

namespace sinter {

class Session;

/// A generated kernel's use of the GPU's multiprocessors, from the driver's occupancy calculator.
struct KernelUse {
  std::uint64_t blocks = 0;           // grid size of the launch
  std::uint32_t threads = 0;          // threads per block
  std::uint32_t registers = 0;        // registers per thread
  std::uint32_t spilled_bytes = 0;    // local memory per thread: spilled registers and local arrays
  std::uint32_t shared_bytes = 0;     // shared memory per block, static and dynamic
  std::uint32_t resident_blocks = 0;  // resident blocks per multiprocessor, if the launch has
                                      // enough
  double occupancy = 0;               // resident threads over the multiprocessor's maximum
  std::string schedule;
};

/// One kernel or library call of a step.
struct PartTime {
  std::string name;  // the kernel's function, "cuBLASLt", "cuDNN", "copy", "loops", "oneDNN", ...
  double microseconds = 0;
  std::size_t launches = 0;
  std::optional<KernelUse> kernel;  // generated GPU kernels only: libraries do not report it
};

/// Time of one step, for profiles. Microseconds.
struct StepTime {
  std::string name;
  double microseconds = 0;  // sum over the parts
  std::uint64_t bytes = 0;  // compulsory traffic, read and written
  std::uint64_t flops = 0;
  std::string how;         // chosen tactic, or a library's algorithm; empty: there was no choice
  std::string arithmetic;  // the arithmetic of most flops: see MachineRates
  std::vector<std::string> origins;  // ONNX nodes
  std::vector<PartTime> parts;       // empty: no work for this shape
  /// Independent steps may run concurrently. `stream` is the step's stream, on which it follows the
  /// previous step; `waits` names the steps of other streams that it waits for.
  std::size_t stream = 0;
  std::vector<std::string> waits;
};

/// Peak rates of a session's machine, to which a profile is compared.
struct MachineRates {
  std::string machine;               // "NVIDIA H200", "2 threads"
  double copy_bytes_per_second = 0;  // measured: bytes read plus bytes written by a copy with cold
                                     // caches
  std::uint64_t copy_bytes = 0;      // bytes that the copy read plus bytes it wrote
  double empty_step_microseconds = 0;  // measured: an empty step, timed as by profile_steps
  /// Peak operations per second by StepTime::arithmetic. "Scalar" counts single operations.
  /// "Single", "Tf32", "Half", "Double", "Int8" and "Float8" count multiplications and additions of
  /// matrix products with such operands. Absent: unknown; 0: unsupported.
  std::map<std::string, double> operations_per_second;
  std::string operations_from;  // source of these rates, human-readable
  std::string timing;           // method of profile_steps, human-readable
};

/// Time to copy the inputs to the device and the outputs back, in microseconds. 0 on the CPU.
struct TransferTimes {
  double host_to_device = 0, device_to_host = 0;
};

// All functions use the session: one thread at a time. All except measure_rates throw Error(kUsage)
// before the session's first run.

/// Device time of one repetition of the last run, in microseconds; inputs and outputs stay on the
/// device. `cold` flushes the caches first. CPU target: wall time. Like profile_steps this changes
/// states, as a run does.
SINTER_API double time_compute(Session& session, bool cold);
/// Measures the copies of the last run once, without the run.
SINTER_API TransferTimes time_transfers(Session& session);
/// Repeats the last run step by step with a timer around each part; caches are cold before the
/// first step.
SINTER_API std::vector<StepTime> profile_steps(Session& session);
/// Measures, in some tenths of a second, and returns the machine's rates. Needs memory for two
/// large buffers, else throws Error(kOutOfMemory).
SINTER_API MachineRates measure_rates(Session& session);

}  // namespace sinter
