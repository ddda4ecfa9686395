// SPDX-License-Identifier: Apache-2.0
// The user's options for an import.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "frontend/model/custom_operator.h"
#include "ir/constants/recipe.h"

namespace sinter::frontend {

/// Default maximum of a symbolic dimension. It covers the sequence lengths and batches that models
/// run with. It is small enough that sizes stay far from overflow and tables over the range (see
/// ShapeFolder::iota) fit into constants.
inline constexpr std::int64_t kDefaultMaxDim = 65536;

struct ImportOptions {
  /// The user's ranges of symbolic dimensions, by symbol. The default is 1..65536, or 0..65536 for
  /// dimensions named after the past, since a cache starts empty. A range of one number makes the
  /// dimension constant.
  std::map<std::string, ir::Range> ranges;
  /// Divisors of symbolic dimensions, by symbol. The symbol then counts multiples: with 32, a
  /// dimension 'h' in 32..960 becomes 32*h with h in 1..30. For models whose shapes fit only if a
  /// dimension is divisible by the model's strides.
  std::map<std::string, std::int64_t> multiples;
  /// Symbols that equal other symbols ("state_d1" is "batch") or expressions of them ("total" is
  /// "past + seq"). For models whose exporter named such dimensions differently, or not at all. The
  /// expressions' symbols must not be keys of this map.
  std::map<std::string, ir::Dim> same;
  /// Overrides for the ends of a symbol's default range.
  std::map<std::string, std::int64_t> least, most;
  /// Fixed or symbolic shapes that replace an input's own, by input name.
  std::map<std::string, ir::Shape> input_shapes;
  /// Ranks of inputs for which the model gives none, by input name; the dimensions become symbols
  /// "<input>_d<i>".
  std::map<std::string, std::size_t> input_ranks;
  /// Inputs that become constants of the compiled model, by name, and are no inputs any more. For
  /// inputs that determine shapes (a target shape, axes, a number of repeats).
  std::map<std::string, ir::Tensor> input_values;
  /// Assumed values of scalar bool inputs, by name. They stay inputs, but their value has no
  /// effect: see ImportedModel::Flag.
  std::map<std::string, bool> flags;
  /// Upper bounds of data-dependent sizes, by the name of the value that holds the size, or of the
  /// node that computes it.
  std::map<std::string, std::int64_t> bounds;
  /// Makes NonMaxSuppression return max_output_boxes_per_class rows for each class and batch: first
  /// ONNX's result in its order, then rows of -1. Otherwise it is refused, since its number of rows
  /// depends on data.
  bool pad_selections = false;
  /// Drops outputs that depend on unsupported nodes (strings, sequences), with a warning that names
  /// them, as long as one output remains. Also drops inputs that are no tensors of a supported
  /// type.
  bool drop_unsupported_outputs = false;
  /// What a model leaves open, or spells otherwise than its opset, is Error(kInvalidModel) instead
  /// of a warning that says what was assumed.
  bool strict = false;
  /// Operators that take precedence over the model's own functions; null: none.
  std::shared_ptr<const std::vector<CustomOperator>> custom_operators;
  /// Limit in bytes for tables that depend on sizes: the matrix of an antialias filter, for
  /// example.
  std::int64_t max_memory = INT64_MAX;
  /// Receives a log of decisions that depend on values of the main graph's initializers; null: no
  /// tracing.
  std::shared_ptr<ir::ReadLog> reads;
  /// Called before each node with the number of imported nodes and the total known so far. An
  /// exception from it aborts the import.
  std::function<void(std::size_t done, std::size_t total)> on_node;
};

}  // namespace sinter::frontend
