// The front door of frontend: ONNX bytes in, Graph out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <sinter/error.h>

#include "ir/graph.h"

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
  /// NonMaxSuppression gives max_output_boxes_per_class rows for each class of each batch: first
  /// those that ONNX's would give, in its order, then rows of -1. Otherwise it is refused, because
  /// the number of its rows depends on data.
  bool pad_selections = false;
  /// Outputs that depend on nodes that are not supported (strings, sequences) are left out, with a
  /// warning that names them, as long as one is left; so are inputs that are no tensors of a type
  /// that Sinter has.
  bool drop_unsupported_outputs = false;
  /// Bytes that tables may take which importing makes of sizes: an antialias filter is a matrix.
  std::int64_t max_memory = INT64_MAX;
  /// Called in front of each node with how many were imported, of how many that are known by then.
  /// What it throws ends the import.
  std::function<void(std::size_t done, std::size_t total)> on_node;
};

/// A node that is refused.
struct UnsupportedNode {
  Error::Node node;
  std::string why;
  std::string way_out;  // empty: none is known
};

/// The model has nodes that are not supported. Where that is because the value of an input must be
/// known to compile them, `inputs` names these inputs: see ImportOptions::input_values.
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

/// A node as the model has it; those of functions and branches have their caller's name in front.
struct ModelNode {
  std::string name;  // as origins have it: the node's own, or made of operator and position
  std::string op;
};

struct ImportedModel {
  ir::Graph graph;
  /// An input of one bool that chooses between bodies whose results have different shapes, as
  /// `use_cache_branch` of merged decoders does. `graph` then has the inputs and the outputs of
  /// both bodies only: `symbol` is the input's value, 0 or 1, in the shapes of outputs.
  struct Flag {
    std::string input, symbol;
    std::vector<ir::Graph> graphs;  // where the input is false, and where it is true
  };
  std::optional<Flag> flag;
  std::uint64_t hash = 0;      // XXH3 of the model's bytes and of its external data
  std::size_t node_count = 0;  // nodes of the ONNX graph
  std::int64_t opset = 0;
  std::string producer;
  std::vector<std::string> warnings;
  std::vector<std::string> files;  // of external data
  std::vector<ModelNode> nodes;    // all that were looked at, in order; a loop's once for each trip
};

/// Imports the model at `path`. Where its shapes fit only for some sizes of its inputs, the graph
/// takes for granted that they are of these and a warning says so (see assumptions.h). Throws
/// Error(kUsage) if the file cannot be read, kInvalidModel if it is malformed or contradicts
/// itself, UnsupportedModel listing every unsupported node at once.
ImportedModel import_model(const std::string& path, const ImportOptions& options = {});

/// Imports a model from memory. External data is looked for in `folder`; an empty one refuses it.
ImportedModel import_model_bytes(std::span<const std::byte> bytes, const std::string& folder,
                                 const ImportOptions& options = {});

/// A graph of the model's inputs alone, with the ranges of their symbols: what there is to give
/// shapes for, also of a model that can only be imported once they are given. Throws as
/// import_model.
ir::Graph import_inputs(const std::string& path, const ImportOptions& options = {});
ir::Graph import_inputs_bytes(std::span<const std::byte> bytes, const std::string& folder,
                              const ImportOptions& options = {});

/// An attribute, with the versions of its operator that have it.
struct SupportedAttribute {
  std::string name;
  std::int64_t first = 0, last = 0;
};

/// One operator that the importer knows.
struct SupportedOp {
  std::string domain, name;
  int since_version = 1;                       // of this meaning
  std::int64_t until = 0;                      // the last version that it is known to be right for
  std::string family;                          // what the operator is about: "reductions"
  std::string types;                           // "floats": of what it computes on
  std::vector<DType> dtypes;                   // these types, one by one
  std::vector<SupportedAttribute> attributes;  // any other is an error
  /// Names of its inputs by the version from which on it has them, separated by spaces.
  std::vector<std::pair<std::int64_t, std::string>> inputs;
};
std::vector<SupportedOp> supported_ops();
/// The first and the last version of ai.onnx that models may use.
std::pair<std::int64_t, std::int64_t> supported_opsets();

/// Reads one serialised TensorProto (ONNX test data, .pb). Throws Error(kInvalidModel).
ir::Tensor read_tensor_proto(const std::string& path);

}  // namespace sinter::frontend
