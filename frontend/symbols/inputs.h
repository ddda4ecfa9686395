// SPDX-License-Identifier: Apache-2.0
// The model's inputs: element types, shapes, and the names and ranges of symbolic dimensions.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "frontend/model/import_options.h"
#include "frontend/model/texts.h"

namespace onnx {
class GraphProto;
}

namespace sinter::frontend {

/// `name` as a valid symbol in graph text; other characters become '_'.
std::string symbol_name(std::string name);

struct GraphInput {
  std::string name;
  ir::TensorType type;
  TextPtr text = {};  // strings, for which integers stand
};

struct GraphInputs {
  std::vector<GraphInput> inputs;                // in the model's order, without initializers
  ir::Ranges ranges;                             // of all symbols in the inputs
  std::set<std::string, std::less<>> defaulted;  // symbols with a default range
};

/// Reads the inputs of `graph` that are not in `initializers` and applies `options`.
///
/// A named dimension (dim_param) becomes the symbol of that name, with invalid characters replaced
/// by '_'; a name that is an expression of other inputs' names ("past + seq") becomes that
/// expression. A dimension without name becomes "<input>_d<i>". A symbol that an input's shape in
/// `options` replaces is replaced in all inputs; a range of one number makes it a constant.
///
/// Throws Error(kUsage) for options that name no input or symbol, or contradict the model or each
/// other; kUnsupported for inputs that are not tensors or have no rank; kInvalidModel otherwise.
GraphInputs read_inputs(const onnx::GraphProto& graph,
                        const std::unordered_set<std::string>& initializers,
                        const ImportOptions& options, std::vector<std::string>& warnings,
                        ModelTexts& texts);

/// Names of inputs whose rank neither `graph` nor `options` tell; initializers are none.
std::vector<std::string> inputs_without_rank(const onnx::GraphProto& graph,
                                             const ImportOptions& options);

}  // namespace sinter::frontend
