// SPDX-License-Identifier: Apache-2.0
// Imports nodes of the model's graph, of graph attributes, and of functions.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "frontend/model/custom_operator.h"
#include "frontend/model/external_data.h"
#include "frontend/model/functions.h"
#include "frontend/model/imported_model.h"
#include "frontend/model/structure.h"
#include "frontend/ops/node_context.h"
#include "frontend/ops/table/row_checks.h"
#include "frontend/symbols/data_sizes.h"
#include "frontend/symbols/default_ranges.h"

namespace onnx {
class GraphProto;
class NodeProto;
class ValueInfoProto;
}  // namespace onnx

namespace sinter::frontend {

struct OpRow;

/// Limit of nodes that control flow and functions add to those in the file. Copies of loop bodies
/// and calls of functions count, so that a small file cannot become a huge graph.
inline constexpr std::int64_t kMaxAddedNodes = 200'000;

/// State that all scopes of an import share.
struct ImportState {
  ImportState(ir::GraphBuilder& graph_builder, const std::filesystem::path& folder,
              const onnx::ModelProto& model);

  void warn(const std::string& text);
  /// As NodeContext::assume.
  void assume(const std::string& text);
  /// Counts a node before its import; throws Error(kUnsupported) above the limit.
  void note_node(std::string label, const std::string& op);

  ir::GraphBuilder& builder;
  DefaultRanges default_ranges;
  ShapeFolder folder;
  DataSizes data_sizes;
  ExternalData external;
  ModelTexts texts;
  FunctionLibrary functions;
  RowChecks row_checks;
  std::vector<const onnx::FunctionProto*> active_functions;     // outermost first
  std::function<void(std::span<const std::byte>)> on_external;  // called with every external tensor
  std::vector<std::string> warnings;
  std::vector<ModelNode> nodes;
  bool strict = false, pad_selections = false;                          // see ImportOptions
  std::shared_ptr<const std::vector<CustomOperator>> custom_operators;  // may be null
  std::size_t references = 0;  // number of custom operators' references being imported
  std::shared_ptr<ir::ReadLog> reads;
  std::int64_t memory_left = INT64_MAX;
  std::vector<UnsupportedNode> unsupported;
  std::function<void(std::size_t done)> on_node;  // called with the number of nodes so far; may be
                                                  // empty

 private:
  std::unordered_set<std::string> warned_;
  std::int64_t nodes_left_ = 0;
};

/// The names of one body and their values.
class Scope final : public SubgraphImporter {
 public:
  struct Place {
    std::shared_ptr<const void> owner;  // keeps the body's protos alive
    Opsets opsets;
    std::string prefix;      // prefix of node names: "caller/"
    Scope* outer = nullptr;  // enclosing scope, where other names are looked up
  };
  Scope(ImportState& state, Place place) : state_(state), place_(std::move(place)) {}

  void define(const std::string& name, ir::ValueId value, TextPtr text = {}) {
    values_[name] = value;
    if (text) texts_[name] = std::move(text);
  }
  /// What the numbers of the value `name` stand for; null: they are numbers.
  TextPtr text_of(const std::string& name) const;
  /// Declares that the caller omits the input `name`.
  void leave_out(const std::string& name) { absent_.insert(name); }
  void read_initializers(const onnx::GraphProto& graph);
  const std::unordered_set<std::string>& initializer_names() const { return initializer_names_; }
  /// Initializers of supported types.
  const std::unordered_map<std::string, ir::Tensor>& initializers() const { return initializers_; }
  /// Records the shapes that the graph declares, for messages about nodes whose inputs could not be
  /// imported.
  void note_declared_types(const onnx::GraphProto& graph);

  /// Imports all nodes of `body`. Notes unsupported ones in the state; throws other errors.
  void import_nodes(const Body& body);

  /// The value `name` in this scope or an enclosing one; an invalid id if it depends on an
  /// unsupported node.
  ir::ValueId find_value(const std::string& name);
  /// The ONNX type of the value `name`, if Sinter lacks it: an initializer, or 4-bit integers that
  /// a node computes.
  std::optional<int> unreadable_type(const std::string& name) const;

  std::optional<std::vector<ir::ValueId>> import_subgraph(const onnx::GraphProto& graph,
                                                          std::span<const ir::ValueId> inputs,
                                                          const std::string& label, bool tentative,
                                                          Texts& texts) override;

 private:
  /// `tensor` with tracing of its readers, if it belongs to the main graph and tracing is on.
  ir::Tensor traced(const ir::Tensor& tensor, const std::string& name) const;
  void import_node(const onnx::NodeProto& node, const std::string& label,
                   const GraphStructure& structure);
  /// Runs `import_row`; repeats it with changed `inputs` if data-dependent sizes do not fit.
  void with_sizes_fitted(const std::string& label, std::vector<ir::ValueId>& inputs,
                         const std::function<void()>& import_row);
  /// For a node that depends on a refused node: notes which sizes it needs, so that one error names
  /// all inputs that the user must give.
  void need_sizes(const OpRow& row, std::int64_t version, std::span<const ir::ValueId> inputs);
  const CustomOperator* find_custom(const onnx::NodeProto& node) const;
  /// Imports a node by `row` or, if that is null, by `custom`.
  void import_row(const onnx::NodeProto& node, NodeContext& context, const OpRow* row,
                  const CustomOperator* custom, const std::string& label);
  std::optional<std::vector<ir::ValueId>> import_reference(const std::string& path,
                                                           std::span<const ir::ValueId> inputs,
                                                           const std::string& label);
  void call_function(const onnx::FunctionProto& function, const onnx::NodeProto& node,
                     const std::string& label, std::span<const ir::ValueId> inputs,
                     const GraphStructure& structure);
  void set_outputs(const onnx::NodeProto& node, NodeContext& context);
  void set_output(const std::string& name, ir::ValueId value);
  /// What the outputs of a node stand for whose operator only moves strings.
  TextPtr moved_text(const OpRow& row, const std::vector<TextPtr>& texts,
                     const onnx::NodeProto& node) const;
  bool is_absent(const std::string& name) const { return absent_.count(name) != 0; }
  std::int64_t version_of(const std::string& domain) const;
  std::string describe_input(const std::string& name) const;
  Error::Node describe_node(const onnx::NodeProto& node, const std::string& label) const;
  void note_unsupported(const onnx::NodeProto& node, const std::string& label,
                        const std::string& why, const std::string& hint = "");

  ImportState& state_;
  Place place_;
  std::unordered_set<std::string> initializer_names_;
  std::unordered_map<std::string, ir::Tensor> initializers_;
  std::unordered_map<std::string, int> unreadable_;  // names with their ONNX type
  std::unordered_map<std::string, ir::ValueId> values_;
  std::unordered_map<std::string, TextPtr> texts_;
  std::unordered_set<std::string> absent_;
  std::unordered_map<std::string, const onnx::ValueInfoProto*> declared_;
};

}  // namespace sinter::frontend
