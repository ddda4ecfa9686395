// SPDX-License-Identifier: Apache-2.0
// One call of a plan: arguments in, arrays out. Shared by plans, whose sessions come from a pool,
// and by sessions that a program holds itself.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include <nanobind/nanobind.h>
#include <sinter/sinter.h>

#include "tools/python/src/arrays.h"

namespace sinter::python {

/// The inputs and outputs of one call. Created and destroyed with the GIL held.
struct Call {
  std::vector<Array> inputs;            // by index of the plan's inputs; empty: not given
  std::vector<Array> out;               // the caller's memory, by index in results(); empty: none
  std::vector<nb::object> out_objects;  // the caller's objects for these
  std::vector<NewArray> made;  // by index in results(), if the shapes were known before the run
  std::size_t inputs_set = 0;  // how many of `inputs` and results() were passed to the session
  std::size_t outputs_set = 0;
  Library library = Library::kNumpy;
  bool on_device = false;         // inputs are in device memory, so outputs are, too
  int device = 0;                 // the inputs' device
  void* stream = nullptr;         // the library's current stream there
  std::vector<std::int64_t> key;  // shapes of the inputs
};

/// Lifetime of a session's inputs.
enum class Keep {
  kForRun,   // reads host arrays in place during the call
  kForLater  // copies host arrays for later runs
};

/// Data that all calls of a plan share. Requires the GIL except where noted.
class Caller {
 public:
  explicit Caller(Plan plan);

  const Plan& plan() const { return plan_; }
  bool is_cuda() const { return cuda_; }
  /// Indices of the required inputs, in positional order, and of the returned outputs: all that are
  /// no states.
  const std::vector<std::size_t>& arguments() const { return arguments_; }
  const std::vector<std::size_t>& results() const { return results_; }

  /// Reads positional and named arguments and out=. Throws Error(kUsage) for unknown, duplicate or
  /// missing ones (if `all` are required), non-arrays and the wrong memory.
  Call read(nb::args positions, nb::kwargs names, bool all) const;
  /// Creates result arrays if an earlier call has shown their shapes.
  void make_results(Call& call) const;

  /// Sets the session's inputs and outputs and runs it, without the GIL. On a device the run is
  /// asynchronous, in the order of call.stream.
  void run(Session& session, Call& call, Keep keep) const;

  /// Throws Error(kUsage) if memory for outputs overlaps `inputs` (by index in the plan): this
  /// call's, or those that earlier calls left set.
  void check_overlaps(const Call& call, const std::vector<Array>& inputs) const;

  /// Builds the return value while the session still has its outputs. Remembers result shapes for
  /// later calls with equal input shapes.
  nb::object take_results(Session& session, Call& call);
  /// Copies an output in host memory to a new array.
  static nb::object copy_output(Library library, const TensorView& view);

 private:
  std::size_t find_input(std::string_view name) const;
  void read_out(Call& call, nb::handle out) const;

  Plan plan_;
  bool cuda_;
  std::vector<std::size_t> arguments_, results_;
  std::unordered_map<std::string_view, std::size_t> input_names_;
  std::vector<std::string> labels_;  // names of inputs for errors: "input 'x'"
  nb::object result_names_;          // a tuple
  nb::object outputs_type_;          // pysinter.Outputs
  /// Result shapes by input shapes; bounded.
  std::map<std::vector<std::int64_t>, std::vector<std::vector<std::int64_t>>> shapes_;
};

}  // namespace sinter::python
