// Sinter's public API: load a plan, run it. See README.md for an example.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sinter/dtype.h>
#include <sinter/error.h>

namespace sinter {

namespace plan {
struct PlanData;
}

/// One dimension of a binding: fixed, or named with a range.
struct DimInfo {
  std::string text;  // "384", "batch", "batch*seq"
  std::int64_t min = 0, max = 0;
};
struct BindingInfo {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<DimInfo> shape;
};

/// A way to run a plan: steps of its own for shapes within these limits, over the weights and
/// states that all share. Session::run takes the first entry point that fits the inputs' shapes.
struct EntryInfo {
  std::string name;
  std::vector<DimInfo> limits;  // of symbolic dimensions, by name; of others there are none
};

/// A compiled model: immutable, shared by threads. Copies share the mapped file.
class Plan {
 public:
  /// Maps and checks `path`. Throws Error(kInvalidPlan) or Error(kUsage).
  static Plan load(const std::string& path);
  /// Checks a copy of `bytes`.
  static Plan from_memory(std::span<const std::byte> bytes);

  /// "cpu" or "cuda".
  std::string_view target() const;
  std::vector<BindingInfo> inputs() const;
  std::vector<BindingInfo> outputs() const;
  /// Empty if one list of steps serves all shapes.
  std::vector<EntryInfo> entries() const;
  std::size_t step_count() const;
  std::uint64_t weight_bytes() const;

  const std::shared_ptr<const plan::PlanData>& data() const { return data_; }

 private:
  explicit Plan(std::shared_ptr<const plan::PlanData> data) : data_(std::move(data)) {}
  std::shared_ptr<const plan::PlanData> data_;
};

enum class Memory { kHost, kDevice };

/// A view of dense row-major elements that somebody else owns.
struct TensorView {
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;
  const void* data = nullptr;
  Memory memory = Memory::kHost;

  std::int64_t element_count() const;
  std::size_t byte_count() const;
  template <typename T>
  std::span<const T> as() const {
    return {static_cast<const T*>(data), static_cast<std::size_t>(element_count())};
  }
};

struct SessionOptions {
  int device = 0;                // CUDA device
  int threads = 0;               // CPU target: at most, of the pool's; 0: all (sinter/threads.h)
  bool cuda_graphs = true;       // false: launch every step on a stream
  std::size_t graph_cache = 16;  // most shapes to keep captured
  Memory output_memory = Memory::kHost;
  std::string tuning_cache;  // folder for chosen library algorithms; empty: next to the plan
  /// Times more of the libraries' algorithms than a session usually does at first use, and keeps
  /// what it finds as such: later sessions prefer it.
  bool thorough_tuning = false;
};

/// An exact account of a session's memory, in bytes.
/// `io`: inputs, outputs and states.
struct MemoryAccount {
  std::uint64_t weights = 0, arena = 0, arena_without_reuse = 0, workspace = 0, io = 0;
};

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
  std::string how;  // the alternative that was taken, a library's algorithm; empty: no choice
  std::string arithmetic;            // what most of the flops are: see MachineRates
  std::vector<std::string> origins;  // ONNX nodes
  std::vector<PartTime> parts;       // empty: nothing to do for this shape
};

/// What the machine of a session can do: what a profile is compared with.
struct MachineRates {
  std::string machine;                 // "NVIDIA H200", "2 threads"
  double copy_bytes_per_second = 0;    // measured: read plus written by a copy from cold caches
  std::uint64_t copy_bytes = 0;        // that it read plus wrote
  double empty_step_microseconds = 0;  // measured: a step that does nothing, timed as profile does
  /// Most operations a second by StepTime::arithmetic: "Scalar" counts single operations, "Single",
  /// "Tf32", "Half", "Double" and "Int8" those of products (an addition and a multiplication are
  /// two) with such operands. Absent: not known.
  std::map<std::string, double> operations_per_second;
  std::string operations_from;  // where these rates are from, for people
  std::string timing;           // how profile takes its times, for people
};

/// Time to move the inputs to the device and the outputs back, in microseconds. Zero on the CPU.
struct TransferTimes {
  double host_to_device = 0, device_to_host = 0;
};

/// Executes a plan. One thread at a time; weights are shared by all sessions of a plan on a device.
///
/// An input and an output that are a state of the plan (a key/value cache) are memory that the
/// session keeps from run to run: zeros, or what set_input last wrote, changed by each run. Such an
/// input need not be set; it keeps its shape until reset_state().
class Session {
 public:
  /// Throws Error(kDevice) where the plan's target is missing (no GPU, or another architecture than
  /// the plan's), Error(kOutOfMemory) if the weights do not fit.
  explicit Session(Plan plan, SessionOptions options = {});
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  /// Copies host data (or remembers device data, which must stay valid until run returns; into a
  /// state it is copied). Throws Error(kUsage) for an unknown name, a wrong type, rank or
  /// dimension, naming both sides.
  void set_input(std::string_view name, const TensorView& view);
  template <typename T>
  void set_input(std::string_view name, std::vector<std::int64_t> shape, std::span<const T> values,
                 DType dtype) {
    set_input(name, TensorView{dtype, std::move(shape), values.data(), Memory::kHost});
  }
  /// Device memory that an output is written to instead of the session's own; null data resets.
  /// Its shape is checked at run.
  void set_output(std::string_view name, const TensorView& view);

  /// Every state is zero again and may take another shape.
  void reset_state();

  /// Runs and waits. Throws Error(kUsage) if an input is missing or shapes contradict each other.
  void run();
  /// Starts on `stream` (a CUstream; null: the session's own) and returns; await() waits. On the
  /// CPU target this runs to the end.
  void run_async(void* stream = nullptr);
  void await();

  /// Valid until the next run or the session's end. Throws Error(kUsage) before the first run. A
  /// state is copied to the host when it is asked for, if outputs are wanted there.
  TensorView output(std::string_view name) const;

  /// Captures graphs and allocates for the shapes of the inputs in `shapes`, so that run does not.
  void warm_up(const std::map<std::string, std::vector<std::int64_t>>& shapes);

  /// For the shape that was bound last.
  MemoryAccount memory() const;
  std::string_view entry() const;     // its entry point; empty if the plan has none
  std::size_t launches() const;       // kernels and library calls of one run
  std::uint64_t bytes_moved() const;  // compulsory traffic of all steps of one run
  /// Device time of one run of what the last run did, in microseconds: inputs and outputs stay on
  /// the device, and caches hold nothing of it if `cold`. CPU target: wall time. Like profile()
  /// this changes states as runs do.
  double time_compute(bool cold);
  /// One measurement of the copies of the last run, alone.
  TransferTimes time_transfers();
  /// Runs what the last run did step by step with a timer around each part; caches are cold before
  /// the first.
  std::vector<StepTime> profile();
  /// Measures (some tenths of a second) and states what the machine can do; needs memory for two
  /// large buffers, Error(kOutOfMemory).
  MachineRates measure_rates();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The version of this library, "0.1.0".
std::string_view version();

}  // namespace sinter
