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
  int device = 0;                // CUDA device
  int threads = 0;               // CPU target: at most, of the pool's; 0: all (sinter/threads.h)
  bool cuda_graphs = true;       // false: launch every step on a stream
  std::size_t graph_cache = 16;  // most shapes to keep captured
  Memory output_memory = Memory::kHost;
  std::string tuning_cache;  // folder for chosen library algorithms; empty: next to the plan
  /// Times more of the libraries' algorithms than a session usually does at first use, and keeps
  /// what it finds as such: later sessions prefer it.
  bool thorough_tuning = false;
  std::shared_ptr<Allocator> allocator;  // null: the system's memory and the driver's
  /// Iterations of all loops of the model in a run; where there are more, it throws Error(kUsage).
  std::int64_t max_iterations = 10'000'000;
  /// Where the plan's host operators are, in front of the libraries that the plan was loaded with
  /// (LoadOptions::operator_libraries).
  std::vector<OperatorLibrary> operator_libraries = {};
  /// Most bytes of a GPU's memory for weights; 0: no limit. Weights beyond it stay in pinned host
  /// memory and are copied ahead of the steps that read them, into a ring that is a part of the
  /// budget and the session's own; sessions of a plan with one budget share the rest. Plans for the
  /// CPU refuse it: they read weights where they lie.
  std::uint64_t weight_budget = 0;
};

/// An exact account of a session's memory for tensors, in bytes. `arena`: of the shape bound last.
/// `workspace`: of all shapes that are prepared. `io`: inputs, outputs and states. With a weight
/// budget, `weights` are those that stay in device memory, `streamed_weights` the others, in pinned
/// host memory, and `weight_ring` is what they are copied to.
struct MemoryAccount {
  std::uint64_t weights = 0, arena = 0, arena_without_reuse = 0, workspace = 0, io = 0;
  std::uint64_t streamed_weights = 0, weight_ring = 0;
};

/// Executes a plan.
///
/// Threads. A session is used by one thread at a time and may move between threads; a call while
/// another thread is in one throws Error(kUsage) and changes nothing. Sessions of one plan run side
/// by side on any number of threads and share its weights. A session that was moved from may be
/// assigned to and destroyed; anything else throws Error(kUsage). Destruction waits for a run.
///
/// Bindings are named, or given by their index in Plan::inputs() or outputs(). With an index, a
/// view that the caller keeps, and a shape that was seen before, no call from set_input to output
/// compares names, and none of ours allocates (libraries that a step calls may).
///
/// States. An input and an output that are a state of the plan (a key/value cache) are memory that
/// the session keeps from run to run: zeros, or what set_input last wrote, changed by each run.
/// Such an input need not be set; it keeps its shape until reset_state().
class SINTER_API Session {
 public:
  /// Throws Error(kDevice) where the plan's target is missing (no GPU, or another architecture than
  /// the plan's), Error(kOutOfMemory) if the weights do not fit, Error(kUsage) naming host
  /// operators that no library has.
  explicit Session(Plan plan, SessionOptions options = {});
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  const Plan& plan() const;

  // ---- inputs. All throw Error(kUsage) for an unknown name or index, another type, rank or
  // dimension than the plan takes, too few or too many values, no data, and memory of another kind
  // or GPU than the view says, where the driver can tell. After an error the input is as before,
  // but for a state that did not fit, which is zeros as after reset_state. An input stays set for
  // all later runs.

  /// Host memory: copied before this returns, for which it waits for a run in flight. Device memory
  /// (CUDA plans): used where it lies, as use_input says. Into a state either is copied before this
  /// returns: values in device memory must be complete at the call.
  void set_input(std::size_t index, const TensorView& view);
  void set_input(std::string_view name, const TensorView& view);

  /// Values of a C++ type, of which there are as many as `shape` says.
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
  /// Bytes of elements of `dtype`.
  void set_input(std::size_t index, std::vector<std::int64_t> shape,
                 std::span<const std::byte> bytes, DType dtype);
  void set_input(std::string_view name, std::vector<std::int64_t> shape,
                 std::span<const std::byte> bytes, DType dtype);

  /// Memory that runs read where it lies, without a copy: host memory, aligned to its element, of a
  /// plan for the CPU; device memory, aligned to 16 bytes, of one for CUDA. It stays the caller's.
  /// From the start of each run to its end it must be there and unchanged: on the CPU while run()
  /// or run_async() executes, on a GPU as run_async() says. Not for states.
  void use_input(std::size_t index, const TensorView& view);
  void use_input(std::string_view name, const TensorView& view);

  // ---- outputs.

  /// Memory of the caller's that runs write the output to from now on, instead of the session's; a
  /// view without data goes back to that. Its shape is compared when a run starts. CPU plans take
  /// host memory, aligned to its element, and write it in run() or run_async(). CUDA plans take
  /// device memory, aligned to 16 bytes, written in the order of the stream, and host memory, which
  /// await() fills (only with SessionOptions::output_memory of kHost). It must be there from the
  /// start of a run to its end. Not for states, and it must not overlap with an input. Throws
  /// Error(kUsage).
  void set_output(std::size_t index, const MutableTensorView& view);
  void set_output(std::string_view name, const MutableTensorView& view);

  /// The output of the last run. The view is the session's, it and its memory are valid until the
  /// next run, warm_up or the session's end. Host memory: waits for the run. Device memory does
  /// not: it is complete in the order of the run's stream. A state is copied to the host when it is
  /// asked for, if outputs are wanted there. Throws Error(kUsage) before the first run.
  const TensorView& output(std::size_t index) const;
  const TensorView& output(std::string_view name) const;

  // ---- runs.

  /// Runs and waits. Throws Error(kUsage) if an input is missing or shapes contradict each other.
  void run();

  /// Starts a run; await() waits for it. On the CPU target this runs to the end. On a GPU `stream`
  /// is a CUstream (or cudaStream_t) of the session's GPU, CU_STREAM_LEGACY or CU_STREAM_PER_THREAD
  /// for the default streams; null is a stream of the session's own, which waits for no other.
  ///
  /// The run starts behind what was put on `stream` before this call and behind the session's last
  /// run, whichever stream that was on. What is put on `stream` after this call starts behind the
  /// run, its copies to the host included. So device inputs may be written by work in front of the
  /// run on `stream` and overwritten by work behind it; device memory of inputs and outputs must
  /// not be freed or used by other streams until the run has ended. With null, device inputs must
  /// be complete at the call. Host inputs were copied when they were set. `stream` may be destroyed
  /// after the call. Throws Error(kUsage) if it is capturing.
  ///
  /// The first run of a shape, or with other device addresses, prepares it: that waits for the run
  /// before, allocates and measures on the calling thread.
  void run_async(void* stream = nullptr);

  /// Returns when the last run has ended; at once if there is none. Throws Error(kDevice) for an
  /// error of the run.
  void await();

  /// Every state is zero again and may take another shape.
  void reset_state();

  /// The same, and those that are named take these shapes: for states whose length the plan leaves
  /// open. Memory for them is made when a run, or warm_up, is prepared. Throws Error(kUsage).
  void reset_state(const std::map<std::string, std::vector<std::int64_t>>& shapes);

  /// Later runs compute with the weights of `plan`, which must differ from the session's own plan
  /// in nothing else (what `sinter refit` and with_weights make of it). They take the place of the
  /// old ones: nothing is allocated, and captured graphs stay. Weights are shared, so all sessions
  /// that share this one's (of one plan; on one GPU, with one weight budget) change together,
  /// whatever thread they are used by: runs that have begun end first with the old weights. States
  /// stay as they are. Sessions that are made later have the weights of the plan that they are made
  /// of. Throws Error(kUsage) naming what else differs, changing nothing.
  void set_weights(const Plan& plan);

  /// Captures graphs and allocates for the shapes of the inputs in `shapes`, so that run does not.
  /// Graphs know addresses: give device inputs and outputs (use_input, set_output) first.
  void warm_up(const std::map<std::string, std::vector<std::int64_t>>& shapes);

  // ---- facts.

  /// For the shape that was bound last.
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
