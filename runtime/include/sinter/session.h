// SPDX-License-Identifier: Apache-2.0
// Runs a plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sinter/export.h>
#include <sinter/operators.h>
#include <sinter/plan.h>
#include <sinter/tensor.h>

namespace sinter {

class Allocator;

struct SessionOptions {
  int device = 0;   // CUDA device
  int threads = 0;  // CPU target: limit, within the pool's threads; 0: all (sinter/threads.h)
  bool cuda_graphs = true;       // false: launch each step on a stream
  std::size_t graph_cache = 16;  // maximum number of shapes with captured graphs
  Memory output_memory = Memory::kHost;
  std::string tuning_cache;  // folder for the libraries' chosen algorithms; empty: next to the plan
  /// Times more library algorithms at first use than the default does, and marks the results as
  /// such in the tuning cache: later sessions prefer them.
  bool thorough_tuning = false;
  std::shared_ptr<Allocator> allocator;  // null: the system's allocator and the driver's
  /// Maximum total iterations of all loops of the model in a run; beyond it, a run throws
  /// Error(kUsage).
  std::int64_t max_iterations = 10'000'000;
  /// Libraries with host operators, searched before those that the plan was loaded with
  /// (LoadOptions::operator_libraries).
  std::vector<OperatorLibrary> operator_libraries = {};
  /// Limit, in bytes, of GPU memory for weights; 0: no limit. Other weights stay in pinned host
  /// memory and are copied ahead of the steps that read them, into a ring buffer. The ring counts
  /// toward the budget and belongs to the session; sessions of a plan with equal budgets share the
  /// rest. CPU plans refuse a budget, since they read weights in place.
  std::uint64_t weight_budget = 0;
  /// Plans of several ranks: how long a rank waits for another that does not come to where they
  /// meet, beyond some times what itself has computed since; then the run throws Error(kDevice),
  /// and so do all later ones if that rank never ends.
  int rank_patience_ms = 1500;
};

/// Exact bytes of a session's tensors. `arena`: of the shape bound last. `workspace`: of all
/// prepared shapes. `io`: inputs, outputs and states. With a weight budget, `weights` stay in
/// device memory, `streamed_weights` in pinned host memory, and `weight_ring` is the device buffer
/// into which the latter are copied.
struct MemoryAccount {
  std::uint64_t weights = 0, arena = 0, arena_without_reuse = 0, workspace = 0, io = 0;
  std::uint64_t streamed_weights = 0, weight_ring = 0;
};

/// Executes a plan.
///
/// Threads. One thread at a time uses a session, which may move between threads. A call during
/// another thread's call throws Error(kUsage) and changes nothing. Sessions of one plan run
/// concurrently on any number of threads and share its weights. A moved-from session may only be
/// assigned to and destroyed; other calls throw Error(kUsage). Destruction waits for a run.
///
/// Bindings have a name and an index in Plan::inputs() or outputs(). Given an index, a view that
/// the caller keeps and a shape seen before, no call from set_input to output compares names. Nor
/// does Sinter allocate in these calls, though libraries that a step calls may.
///
/// States. An input and an output that form a state of the plan (a key/value cache) share memory
/// that the session keeps between runs. It holds zeros or the values of the last set_input, and
/// each run changes it. Such an input need not be set; it keeps its shape until reset_state().
class SINTER_API Session {
 public:
  /// Throws Error(kDevice) if the plan's target is missing (no GPU, or another architecture than
  /// the plan's), Error(kOutOfMemory) if the weights do not fit, Error(kUsage) naming host
  /// operators that no library has.
  explicit Session(Plan plan, SessionOptions options = {});
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  const Plan& plan() const;

  // ---- inputs. All throw Error(kUsage) for an unknown name or index; another type, rank or
  // dimension than the plan's; a wrong number of values; no data. They also throw for memory of
  // another kind or GPU than the view says, as far as the driver knows. After an error the input is
  // unchanged, but a state that did not fit is zeros, as after reset_state. An input stays set for
  // all later runs.

  /// Host memory: copied before this returns, after a wait for a run in flight. Device memory (CUDA
  /// plans): used in place, as by use_input. For a state, either is copied before this returns:
  /// values in device memory must be complete at the call.
  void set_input(std::size_t index, const TensorView& view);
  void set_input(std::string_view name, const TensorView& view);

  /// Values of a C++ type; their number is the element count of `shape`.
  template <ElementRange R>
  void set_input(std::size_t index, std::vector<std::int64_t> shape, const R& values) {
    set_values(index, std::move(shape), std::as_bytes(std::span(values)),
               dtype_of<std::remove_cv_t<std::ranges::range_value_t<R>>>());
  }
  template <ElementRange R>
  void set_input(std::string_view name, std::vector<std::int64_t> shape, const R& values) {
    set_values(plan().input_index(name), std::move(shape), std::as_bytes(std::span(values)),
               dtype_of<std::remove_cv_t<std::ranges::range_value_t<R>>>());
  }
  /// Raw bytes of elements of `dtype`.
  void set_input(std::size_t index, std::vector<std::int64_t> shape,
                 std::span<const std::byte> bytes, DType dtype);
  void set_input(std::string_view name, std::vector<std::int64_t> shape,
                 std::span<const std::byte> bytes, DType dtype);

  /// Memory that runs read in place, without a copy. CPU plans take host memory aligned to its
  /// element size, CUDA plans device memory aligned to 16 bytes. The caller keeps ownership. The
  /// memory must stay valid and unchanged from the start of each run to its end: on the CPU while
  /// run() or run_async() executes, on a GPU as run_async() says. Not for states.
  void use_input(std::size_t index, const TensorView& view);
  void use_input(std::string_view name, const TensorView& view);

  // ---- outputs.

  /// The caller's memory to which later runs write the output, instead of the session's; a view
  /// without data restores the session's. A run's start compares the shape. CPU plans take host
  /// memory aligned to its element size, and write it in run() or run_async(). CUDA plans take
  /// device memory aligned to 16 bytes, written in stream order, or host memory, which await()
  /// fills (only with SessionOptions::output_memory of kHost). The memory must stay valid during a
  /// run. It must not overlap an input. Not for states. Throws Error(kUsage).
  void set_output(std::size_t index, const MutableTensorView& view);
  void set_output(std::string_view name, const MutableTensorView& view);

  /// The output of the last run. The session owns the view; view and memory are valid until the
  /// next run, warm_up or the session's end. An output in host memory: waits for the run. One in
  /// device memory: does not wait; the run's stream orders its values. A state is copied to the
  /// host on request, if outputs are in host memory. Throws Error(kUsage) before the first run.
  const TensorView& output(std::size_t index) const;
  const TensorView& output(std::string_view name) const;

  // ---- runs.

  /// Runs and waits. Throws Error(kUsage) if an input is missing or shapes are inconsistent.
  void run();

  /// Starts a run; await() waits for it. On the CPU target this call executes the whole run. On a
  /// GPU, `stream` is a CUstream (or cudaStream_t) of the session's GPU; CU_STREAM_LEGACY and
  /// CU_STREAM_PER_THREAD are the default streams. Null is a stream of the session's own, which
  /// synchronizes with no other.
  ///
  /// The run starts after earlier work on `stream` and after the session's last run, on whichever
  /// stream that was. Later work on `stream` starts after the run and its copies to the host. So
  /// device inputs may be written by earlier work on `stream` and overwritten by later work. Device
  /// memory of inputs and outputs must not be freed or used by other streams until the run has
  /// ended. With null, device inputs must be complete at the call. Host inputs were copied when
  /// they were set. `stream` may be destroyed after the call. Throws Error(kUsage) if it is
  /// capturing.
  ///
  /// The first run of a shape, or with other device addresses, prepares it: the calling thread
  /// waits for the previous run, allocates and measures.
  void run_async(void* stream = nullptr);

  /// Waits until the last run has ended; returns at once without one. Throws Error(kDevice) for an
  /// error of the run.
  void await();

  /// Sets every state to zero and forgets its shape.
  void reset_state();

  /// The same, and gives the named states these shapes: for states whose length the plan leaves
  /// symbolic. Preparing a run, or warm_up, allocates their memory. Throws Error(kUsage).
  void reset_state(const std::map<std::string, std::vector<std::int64_t>>& shapes);

  /// Later runs use the weights of `plan`, which must equal the session's own plan in all else (as
  /// `sinter refit` and with_weights make it). The new weights overwrite the old ones: nothing is
  /// allocated, and captured graphs stay valid. All sessions that share the weights (of one plan;
  /// on one GPU, with one weight budget) change together, on whichever threads they run. Runs that
  /// have begun end first, with the old weights. States are unchanged. Sessions created later use
  /// the weights of the plan they are created from. Throws Error(kUsage) naming the other
  /// differences, and then changes nothing.
  void set_weights(const Plan& plan);

  /// Captures graphs and allocates memory for inputs of these shapes, so that run does not. Graphs
  /// contain addresses: set device inputs and outputs (use_input, set_output) first.
  void warm_up(const std::map<std::string, std::vector<std::int64_t>>& shapes);

  // ---- facts.

  /// Values for the shape bound last.
  MemoryAccount memory() const;
  std::string_view entry() const;     // its entry point; empty if the plan has none
  std::size_t launches() const;       // kernels and library calls of one run
  std::uint64_t bytes_moved() const;  // compulsory traffic of all steps of one run

 private:
  friend struct SessionAccess;
  struct Impl;
  void set_values(std::size_t index, std::vector<std::int64_t> shape,
                  std::span<const std::byte> bytes, DType dtype);
  explicit Session(std::shared_ptr<Impl> impl) noexcept;
  std::shared_ptr<Impl> impl_;
};

}  // namespace sinter
