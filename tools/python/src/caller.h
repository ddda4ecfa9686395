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

/// The inputs and outputs of one call. Made and destroyed with the GIL.
struct Call {
  std::vector<Array> inputs;            // by index of the plan's inputs; empty: not given
  std::vector<Array> out;               // the caller's memory, by place in results(); empty: none
  std::vector<nb::object> out_objects;  // what the caller gave for these
  std::vector<NewArray> made;  // by place in results(), if the shapes were known before the run
  std::size_t inputs_set = 0;  // how many of `inputs` and of results() the session has seen
  std::size_t outputs_set = 0;
  Library library = Library::kNumpy;
  bool on_device = false;         // inputs are in device memory: so are outputs
  int device = 0;                 // theirs
  void* stream = nullptr;         // the library's current one there
  std::vector<std::int64_t> key;  // the shapes of the inputs
};

/// Where a session's inputs come from.
enum class Keep {
  kForRun,   // host arrays are read where they lie; they go with the call
  kForLater  // host arrays are copied: later runs read them again
};

/// What all calls of a plan share. Used with the GIL unless said otherwise.
class Caller {
 public:
  explicit Caller(Plan plan);

  const Plan& plan() const { return plan_; }
  bool is_cuda() const { return cuda_; }
  /// Indices of the inputs that must be given, in the order of positions, and of the outputs that
  /// calls return: those that are no states.
  const std::vector<std::size_t>& arguments() const { return arguments_; }
  const std::vector<std::size_t>& results() const { return results_; }

  /// Takes positional and named arguments and out=. Throws Error(kUsage): unknown, twice, missing
  /// (if `all` are needed), no array, wrong memory.
  Call read(nb::args positions, nb::kwargs names, bool all) const;
  /// Makes arrays for the results if their shapes are known from an earlier call.
  void make_results(Call& call) const;

  /// Sets inputs and outputs of the session and runs it; without the GIL. On a device the run is
  /// in the order of call.stream and need not have ended.
  void run(Session& session, Call& call, Keep keep) const;

  /// Throws Error(kUsage) if memory for outputs overlaps with `inputs`, by index of the plan's: the
  /// call's, or those of earlier calls that it leaves in place.
  void check_overlaps(const Call& call, const std::vector<Array>& inputs) const;

  /// What the call returns, while the session has its outputs still. Shapes of results are
  /// remembered for later calls with the same shapes.
  nb::object take_results(Session& session, Call& call);
  /// A new array with what an output on the host holds.
  static nb::object copy_output(Library library, const TensorView& view);

 private:
  std::size_t find_input(std::string_view name) const;
  void read_out(Call& call, nb::handle out) const;

  Plan plan_;
  bool cuda_;
  std::vector<std::size_t> arguments_, results_;
  std::unordered_map<std::string_view, std::size_t> input_names_;
  std::vector<std::string> labels_;  // of inputs, for errors: "input 'x'"
  nb::object result_names_;          // a tuple
  nb::object outputs_type_;          // pysinter.Outputs
  /// Shapes of results by shapes of inputs; bounded.
  std::map<std::vector<std::int64_t>, std::vector<std::vector<std::int64_t>>> shapes_;
};

}  // namespace sinter::python
