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

/// A region, which is a Fused node, and the error of the worst of its results.
struct RegionResult {
  std::size_t node = 0;  // its place in the graph
  std::string name;      // as its step is called in a plan
  std::string kind;
  std::vector<std::string> origins;  // ONNX nodes
  double error = 0, bound = 0;       // ||a - b|| / ||b||; infinite for one that could not be run
  std::string failure;               // why it could not
  bool ok() const { return error <= bound; }
};

enum class RegionInputs {
  kReference,  // every region reads what the reference evaluation stores: its own error alone
  kPropagated  // the regions read each other's results
};

struct RegionCheck {
  std::vector<RegionResult> regions;  // in topological order
  bool specialised = false;           // symbols had to be replaced by numbers
  bool ok() const;
  /// The first that is not ok, or null.
  const RegionResult* first_failure() const;
};

/// How regions are compiled and judged.
struct RegionOptions {
  codegen::CompileOptions compile;
  double bound = 0;        // of every region; 0: region_bound of each
  double least_bound = 0;  // a bound is never less
};

/// Most relative error of a region on the same inputs, by the narrowest float type in it: four
/// times what rounding to 16 bits brings, 2e-5 of float32 sums in another order. Integers are
/// exact unless floats decide about them.
double region_bound(const ir::Node& region, bool tf32);

/// Compiles `fused` (a graph behind the passes) so that the result of every region is an output,
/// runs it once, and compares each with the unrounded reference, so that an overflow shows. Where
/// that ends in an error, the regions are run one by one on what the reference stores, to find
/// those that it comes from; throws it if none does.
RegionCheck check_regions(const ir::Graph& fused, std::span<const ir::Tensor> inputs,
                          RegionInputs mode, const RegionOptions& options,
                          const SessionOptions& session);

/// `graph` with other sizes: inputs of these types, every dimension in an attribute and every
/// constant as the functions give them. Throws Error(kInvalidModel) where types no longer fit.
struct OtherSizes {
  std::function<ir::Dim(const ir::Dim&)> dim;
  std::function<ir::Tensor(const ir::Tensor&)> constant;  // empty: as they are
  bool ranges = true;                                     // keep those of symbols
};
ir::Graph with_sizes(const ir::Graph& graph, const std::vector<ir::TensorType>& inputs,
                     const OtherSizes& sizes);
ir::Attrs with_sizes(const ir::Attrs& attrs, const OtherSizes& sizes);

/// `graph` with every symbol replaced by its number.
ir::Graph specialised(const ir::Graph& graph, const ir::Bindings& numbers);

}  // namespace sinter::tools
