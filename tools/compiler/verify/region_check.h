// SPDX-License-Identifier: Apache-2.0
// Fused regions against the reference, one by one.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "codegen/compile.h"
#include "ir/graph.h"
#include "ir/tensor.h"

namespace sinter {
struct SessionOptions;
}

namespace sinter::tools {

/// A region (a Fused node) and the error of its worst result.
struct RegionResult {
  std::size_t node = 0;  // index in the graph
  std::string name;      // name of its step in a plan
  std::string kind;
  std::vector<std::string> origins;  // ONNX nodes
  double error = 0, bound = 0;       // |a - b|| / ||b||; infinite if it could not run
  std::string failure;               // why it could not run
  bool ok() const { return error <= bound; }
};

enum class RegionInputs {
  kReference,  // every region reads the reference's results: shows its own error
  kPropagated  // regions read each other's results
};

struct RegionCheck {
  std::vector<RegionResult> regions;  // in topological order
  bool specialised = false;           // symbols had to be replaced by numbers
  bool ok() const;
  /// The first region above its bound, or null.
  const RegionResult* first_failure() const;
};

/// How regions are compiled and judged.
struct RegionOptions {
  codegen::CompileOptions compile;
  double bound = 0;        // for every region; 0: region_bound of each
  double least_bound = 0;  // lower limit of all bounds
};

/// Bound of a region's relative error on equal inputs, by its narrowest float type: four times the
/// rounding error of 16 bits, 2e-5 for float32 sums in another order. Integers must be exact unless
/// they depend on floats.
double region_bound(const ir::Node& region, bool tf32);

/// Compiles `fused` (a graph after the passes) with the result of every region as an output, runs
/// it once, and compares with the unrounded reference, so that overflows show. If that throws, runs
/// the regions one by one on the reference's results to find the failing ones; rethrows if none
/// fails.
RegionCheck check_regions(const ir::Graph& fused, std::span<const ir::Tensor> inputs,
                          RegionInputs mode, const RegionOptions& options,
                          const SessionOptions& session);

/// Rebuilds `graph` with other sizes: the types of its inputs, the dimensions in attributes, and
/// constants are mapped. Throws Error(kInvalidModel) if types become inconsistent.
struct OtherSizes {
  std::function<ir::Dim(const ir::Dim&)> dim;
  std::function<ir::Tensor(const ir::Tensor&)> constant;  // empty: unchanged
  bool ranges = true;                                     // keep the ranges of symbols
};
ir::Graph with_sizes(const ir::Graph& graph, const std::vector<ir::TensorType>& inputs,
                     const OtherSizes& sizes);
ir::Attrs with_sizes(const ir::Attrs& attrs, const OtherSizes& sizes);

/// `graph` with all symbols replaced by numbers.
ir::Graph specialised(const ir::Graph& graph, const ir::Bindings& numbers);

}  // namespace sinter::tools
