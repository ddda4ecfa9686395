// SPDX-License-Identifier: Apache-2.0
// Where a session's time goes.
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

/// How a generated kernel uses a GPU's multiprocessors, as the driver counts it.
struct KernelUse {
  std::uint64_t blocks = 0;           // of the launch
  std::uint32_t threads = 0;          // of a block
  std::uint32_t registers = 0;        // of a thread
  std::uint32_t spilled_bytes = 0;    // of a thread: registers and arrays that lie in memory
  std::uint32_t shared_bytes = 0;     // of a block, static and dynamic
  std::uint32_t resident_blocks = 0;  // on a multiprocessor at once, if there are enough
  double occupancy = 0;               // their threads over those that a multiprocessor can hold
  std::string schedule;
};

/// One kernel or library call of a step.
struct PartTime {
  std::string name;  // the kernel's function, "cuBLASLt", "cuDNN", "copy", "loops", "oneDNN", ...
  double microseconds = 0;
  std::size_t launches = 0;
  std::optional<KernelUse> kernel;  // of generated GPU kernels: libraries do not tell
};

/// Time of one step, for profiles. Microseconds.
struct StepTime {
  std::string name;
  double microseconds = 0;  // sum over the parts
  std::uint64_t bytes = 0;  // compulsory traffic, read and written
  std::uint64_t flops = 0;
  std::string how;         // the tactic that was taken, a library's algorithm; empty: no choice
  std::string arithmetic;  // what most of the flops are: see MachineRates
  std::vector<std::string> origins;  // ONNX nodes
  std::vector<PartTime> parts;       // empty: nothing to do for this shape
  /// Steps that do not need each other may run side by side: which of the run's streams it is on,
  /// where it follows the step before on that, and the steps of other streams that it waits for.
  std::size_t stream = 0;
  std::vector<std::string> waits;
};

/// What the machine of a session can do: what a profile is compared with.
struct MachineRates {
  std::string machine;                 // "NVIDIA H200", "2 threads"
  double copy_bytes_per_second = 0;    // measured: read plus written by a copy from cold caches
  std::uint64_t copy_bytes = 0;        // that it read plus wrote
  double empty_step_microseconds = 0;  // measured: a step that does nothing, timed as profile does
  /// Most operations a second by StepTime::arithmetic: "Scalar" counts single operations, "Single",
  /// "Tf32", "Half", "Double", "Int8" and "Float8" those of products (an addition and a
  /// multiplication are two) with such operands. Absent: not known; 0: it has none.
  std::map<std::string, double> operations_per_second;
  std::string operations_from;  // where these rates are from, for people
  std::string timing;           // how profile_steps takes its times, for people
};

/// Time to move the inputs to the device and the outputs back, in microseconds. Zero on the CPU.
struct TransferTimes {
  double host_to_device = 0, device_to_host = 0;
};

// All are calls of the session's: by one thread at a time, and Error(kUsage) before its first run
// (but for measure_rates).

/// Device time of one run of what the last run did, in microseconds: inputs and outputs stay on the
/// device, and caches hold nothing of it if `cold`. CPU target: wall time. Like profile_steps this
/// changes states as runs do.
SINTER_API double time_compute(Session& session, bool cold);
/// One measurement of the copies of the last run, alone.
SINTER_API TransferTimes time_transfers(Session& session);
/// Runs what the last run did step by step with a timer around each part; caches are cold before
/// the first.
SINTER_API std::vector<StepTime> profile_steps(Session& session);
/// Measures (some tenths of a second) and states what the machine can do; needs memory for two
/// large buffers, Error(kOutOfMemory).
SINTER_API MachineRates measure_rates(Session& session);

}  // namespace sinter
