// SPDX-License-Identifier: Apache-2.0
// The result of an import: the graph and facts about the model, or the unsupported nodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sinter/error.h>

#include "ir/constants/recipe.h"
#include "ir/graph.h"

namespace sinter::frontend {

/// An unsupported node.
struct UnsupportedNode {
  Error::Node node;
  std::string why;
  std::string hint;  // a remedy; empty: unknown
};

/// The model has unsupported nodes. If the value of an input must be known to compile them,
/// `inputs` names these inputs: see ImportOptions::input_values.
class UnsupportedModel : public Error {
 public:
  UnsupportedModel(std::string message, std::vector<UnsupportedNode> nodes,
                   std::vector<std::string> inputs)
      : Error(ErrorCode::kUnsupported, std::move(message)),
        nodes_(std::move(nodes)),
        inputs_(std::move(inputs)) {}
  const std::vector<UnsupportedNode>& nodes() const noexcept { return nodes_; }
  const std::vector<std::string>& inputs() const noexcept { return inputs_; }

 private:
  std::vector<UnsupportedNode> nodes_;
  std::vector<std::string> inputs_;
};

/// A node of the model; names of nodes in functions and branches are prefixed with their caller's.
struct ModelNode {
  std::string name;  // as in origins: the node's name, or made of operator and position
  std::string op;
};

/// What the numbers of an input or output stand for, as sinter::BindingInfo says.
struct BindingText {
  enum class Code : std::uint8_t { kLabels = 1, kMurmur3 = 2, kColumns = 3 };
  Code code = Code::kLabels;
  std::vector<std::string> labels = {};
  std::uint32_t hash_seed = 0;
};

struct ImportedModel {
  ir::Graph graph;
  /// A scalar bool input that chooses between bodies with results of different shapes, as
  /// `use_cache_branch` of merged decoders does. `graph` then has only the inputs and outputs of
  /// both bodies; `symbol` is the input's value, 0 or 1, in the shapes of outputs.
  struct Flag {
    std::string input, symbol;
    std::vector<ir::Graph> graphs;  // for the input false and true
  };
  std::optional<Flag> flag;
  std::uint64_t hash = 0;              // XXH3 of the model's bytes and its external data
  std::uint64_t structure = 0;         // XXH3 of the graph without the values of its initializers
  std::shared_ptr<ir::ReadLog> reads;  // ImportOptions::reads
  std::size_t node_count = 0;          // nodes of the ONNX graph
  std::int64_t opset = 0;
  std::string producer;
  std::vector<std::string> warnings;
  std::vector<std::string> files;                                // files of external data
  std::map<std::string, BindingText> input_texts, output_texts;  // by name; others are numbers
  std::vector<ModelNode> nodes;  // all nodes visited, in order; those of a loop once per iteration
};

}  // namespace sinter::frontend
