// SPDX-License-Identifier: Apache-2.0
// What a user says about a model that is imported.
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

struct ImportOptions {
  /// Ranges of symbolic dimensions by symbol name, where the user gave them; the others get
  /// 1..65536, or 0..65536 where they are called after what is past: a cache begins empty. A range
  /// of one number makes the dimension a constant.
  std::map<std::string, ir::Range> ranges;
  /// What symbolic dimensions are multiples of, by symbol name. Such a symbol then counts these
  /// multiples: with 32, a dimension 'h' in 32..960 becomes 32*h with h in 1..30. For models whose
  /// shapes only fit together if a dimension divides by the strides that it goes through.
  std::map<std::string, std::int64_t> multiples;
  /// Symbols that are other symbols under another name ("state_d1" is "batch"), or follow from
  /// them ("total" is "past + seq"): models whose exporter named such dimensions differently, or
  /// not at all. The others are not in this map themselves.
  std::map<std::string, ir::Dim> same;
  /// Where the default range of a symbol begins and ends, if that is later or earlier than usual.
  std::map<std::string, std::int64_t> least, most;
  /// Fixed or symbolic shapes that replace an input's own, by input name.
  std::map<std::string, ir::Shape> input_shapes;
  /// How many dimensions inputs have that the model gives none for, by input name; these are then
  /// symbols "<input>_d<i>".
  std::map<std::string, std::size_t> input_ranks;
  /// Inputs that are constants of the compiled model, by name: it no longer has them as inputs. For
  /// inputs that shapes depend on (a target shape, axes, a number of repeats).
  std::map<std::string, ir::Tensor> input_values;
  /// What inputs of one bool are taken to hold, by name. They stay inputs, whose value then says
  /// nothing new: see ImportedModel::Flag.
  std::map<std::string, bool> flags;
  /// The most that sizes may be which follow from data, by the name of the value that holds them or
  /// of the node that finds them.
  std::map<std::string, std::int64_t> bounds;
  /// NonMaxSuppression gives max_output_boxes_per_class rows for each class of each batch: first
  /// those that ONNX's would give, in its order, then rows of -1. Otherwise it is refused, because
  /// the number of its rows depends on data.
  bool pad_selections = false;
  /// Outputs that depend on nodes that are not supported (strings, sequences) are left out, with a
  /// warning that names them, as long as one is left; so are inputs that are no tensors of a type
  /// that Sinter has.
  bool drop_unsupported_outputs = false;
  /// Operators that go before those that a model defines itself; null: none.
  std::shared_ptr<const std::vector<CustomOperator>> custom_operators;
  /// Bytes that tables may take which importing makes of sizes: an antialias filter is a matrix.
  std::int64_t max_memory = INT64_MAX;
  /// Gets notes of whose values decide something, of the initializers of the model's own graph;
  /// null: they are not traced.
  std::shared_ptr<ir::ReadLog> reads;
  /// Called in front of each node with how many were imported, of how many that are known by then.
  /// What it throws ends the import.
  std::function<void(std::size_t done, std::size_t total)> on_node;
};

}  // namespace sinter::frontend
