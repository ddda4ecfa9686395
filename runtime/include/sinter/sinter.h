// Sinter's public API: load a plan, run it. See README.md for an example.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
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
  int threads = 0;               // CPU target: 0 means all cores
  bool cuda_graphs = true;       // false: launch every step on a stream
  std::size_t graph_cache = 16;  // most shapes to keep captured
  Memory output_memory = Memory::kHost;
  std::string tuning_cache;  // folder for chosen library algorithms; empty: next to the plan
};

/// An exact account of a session's memory, in bytes.
struct MemoryAccount {
  std::uint64_t weights = 0, arena = 0, arena_without_reuse = 0, workspace = 0, io = 0;
};

/// Time of one step, for profiles. Microseconds.
struct StepTime {
  std::string name;
  double microseconds = 0;
  std::uint64_t bytes = 0;
  std::uint64_t flops = 0;
  std::string how;  // the alternative that was taken, a library's algorithm; empty: no choice
};

/// Time to move the inputs to the device and the outputs back, in microseconds. Zero on the CPU.
struct TransferTimes {
  double host_to_device = 0, device_to_host = 0;
};

/// Executes a plan. One thread at a time; weights are shared by all sessions of a plan on a device.
class Session {
 public:
  /// Throws Error(kDevice) where the plan's target is missing (no GPU, or another architecture than
  /// the plan's), Error(kOutOfMemory) if the weights do not fit.
  explicit Session(Plan plan, SessionOptions options = {});
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  /// Copies host data (or remembers device data, which must stay valid until run returns). Throws
  /// Error(kUsage) for an unknown name, a wrong type, rank or dimension, naming both sides.
  void set_input(std::string_view name, const TensorView& view);
  template <typename T>
  void set_input(std::string_view name, std::vector<std::int64_t> shape, std::span<const T> values,
                 DType dtype) {
    set_input(name, TensorView{dtype, std::move(shape), values.data(), Memory::kHost});
  }
  /// Device memory that an output is written to instead of the session's own; null data resets.
  /// Its shape is checked at run.
  void set_output(std::string_view name, const TensorView& view);

  /// Runs and waits. Throws Error(kUsage) if an input is missing or shapes contradict each other.
  void run();
  /// Starts on `stream` (a CUstream; null: the session's own) and returns; await() waits. On the
  /// CPU target this runs to the end.
  void run_async(void* stream = nullptr);
  void await();

  /// Valid until the next run or the session's end. Throws Error(kUsage) before the first run.
  TensorView output(std::string_view name) const;

  /// Captures graphs and allocates for the shapes of the inputs in `shapes`, so that run does not.
  void warm_up(const std::map<std::string, std::vector<std::int64_t>>& shapes);

  /// For the shape that was bound last.
  MemoryAccount memory() const;
  std::size_t launches() const;       // kernels and library calls of one run
  std::uint64_t bytes_moved() const;  // compulsory traffic of all steps of one run
  /// Device time of one run of what the last run did, in microseconds: inputs and outputs stay on
  /// the device, L2 is overwritten before if `cold`. CPU target: wall time.
  double time_compute(bool cold);
  /// One measurement of the copies of the last run, alone.
  TransferTimes time_transfers();
  /// Runs step by step with a timer around each.
  std::vector<StepTime> profile();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The version of this library, "0.1.0".
std::string_view version();

}  // namespace sinter
