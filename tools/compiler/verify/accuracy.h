// The error of a compiled model against the reference evaluation.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/compiler/build.h"
#include "tools/compiler/options/inputs.h"

namespace sinter::tools {

/// Most relative error of a result of type `type`, if nothing else is asked for: float32 sums in
/// another order, 10-bit and 7-bit mantissas.
double default_bound(DType type, const BuildOptions& build, bool cuda);

/// Runs on inputs from files or on seeded ones.
struct AccuracyOptions {
  InputOptions inputs;
  SessionOptions session;
  double bound = 0;  // most ||a - b|| / ||b|| of an output; 0: its default_bound
  int runs = 1;      // all of which must give the same bits
  // Folder for outputs.npz, reference.npz and rounded.npz, the reference with each operator's
  // result rounded to its type; empty: none.
  std::string save;
};

struct OutputAccuracy {
  std::string name;
  double relative_error = 0, largest_difference = 0, bound = 0;
  bool ok() const { return relative_error <= bound; }
};

struct Accuracy {
  std::vector<OutputAccuracy> outputs;
  std::string shapes;     // of the inputs, "x [2, 8]"
  std::string source;     // of the inputs: "seed 0", or the files
  bool same_bits = true;  // in all runs
  bool ok() const;
};

/// Runs the plan and compares every output with the reference evaluation of the model as it
/// was imported, in float64. Throws Error(kDevice) where the plan's target is missing.
Accuracy measure_accuracy(const BuildResult& built, const BuildOptions& build,
                          const AccuracyOptions& options, const Console& console);

/// `graph` evaluated in float64 with a progress bar. With `keep_wide` only outputs are rounded to
/// their types, else the result of every operator.
std::vector<ir::Tensor> evaluate_reference(const ir::Graph& graph,
                                           const std::vector<ir::Tensor>& inputs, bool keep_wide,
                                           const Console& console);

/// A row for each output; `option` is what raises the bound.
std::string format_accuracy(const Accuracy& accuracy, const std::string& option);
/// An object for each output. JSON has no infinity: an infinite error is null.
nlohmann::ordered_json to_json(const Accuracy& accuracy);

}  // namespace sinter::tools
