// SPDX-License-Identifier: Apache-2.0
// What an operator's importer sees: one ONNX node, its inputs as values, its attributes checked.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sinter/error.h>

#include "frontend/symbols/data_sizes.h"
#include "frontend/symbols/default_ranges.h"
#include "frontend/symbols/shape_folding.h"
#include "ir/graph.h"

namespace onnx {
class AttributeProto;
class GraphProto;
class NodeProto;
}  // namespace onnx

namespace sinter::frontend {

/// Dimensions, shapes and types in messages.
struct IrFormatter : fmt::formatter<std::string> {
  auto format(const auto& value, auto& context) const {
    if constexpr (requires { value.to_string(); })
      return formatter<std::string>::format(value.to_string(), context);
    else
      return formatter<std::string>::format(ir::to_string(value), context);
  }
};

}  // namespace sinter::frontend

template <>
struct fmt::formatter<sinter::ir::Dim> : sinter::frontend::IrFormatter {};
template <>
struct fmt::formatter<sinter::ir::Shape> : sinter::frontend::IrFormatter {};
template <>
struct fmt::formatter<sinter::ir::TensorType> : sinter::frontend::IrFormatter {};

namespace sinter::frontend {

using Ints = std::vector<std::int64_t>;

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

class ExternalData;

/// Imports the graphs that nodes have as attributes.
class SubgraphImporter {
 public:
  /// Imports `graph` with its inputs defined as `inputs`, and names of the graphs around it as they
  /// are there; the values of its outputs. `label` tells this copy of the nodes from others.
  /// Nothing if some of its nodes are not supported: they have been listed, unless it is
  /// `tentative`.
  virtual std::optional<std::vector<ir::ValueId>> import_subgraph(
      const onnx::GraphProto& graph, std::span<const ir::ValueId> inputs, const std::string& label,
      bool tentative) = 0;

 protected:
  ~SubgraphImporter() = default;
};

/// Error(kUnsupported): which of two bodies is right follows from an input of one bool alone, and
/// their results differ in shape, so that computing both and selecting would not do.
class FlagNeeded : public Error {
 public:
  FlagNeeded(ValueId input, std::string message)
      : Error(ErrorCode::kUnsupported, std::move(message)), input_(input) {}
  ValueId input() const noexcept { return input_; }

 private:
  ValueId input_;
};

class NodeContext {
 public:
  struct Environment {
    ir::GraphBuilder& builder;
    ShapeFolder& folder;
    ExternalData& external;
    SubgraphImporter& subgraphs;
    std::shared_ptr<const void> owner;  // keeps the node's tensors alive
    std::int64_t opset = 0;             // of ai.onnx
    std::string label;                  // the node's name in messages
    DefaultRanges& default_ranges;
    std::vector<std::string>& warnings;
    bool pad_selections = false;       // see ImportOptions
    std::vector<bool> four_bits = {};  // inputs that the model holds in 4 bits each
    DataSizes* data_sizes = nullptr;
    std::int64_t* memory_left = nullptr;  // see ImportOptions::max_memory; null: any amount
  };
  /// `inputs` has an invalid id where the node leaves an optional input out; `output_is_used` is
  /// false for outputs without a name or without a reader.
  NodeContext(const onnx::NodeProto& node, Environment environment, std::vector<ValueId> inputs,
              std::vector<bool> output_is_used);

  const std::string& op_type() const;
  std::int64_t opset() const { return env_.opset; }
  ir::GraphBuilder& builder() { return env_.builder; }
  ShapeFolder& folder() { return env_.folder; }
  /// See ImportOptions::pad_selections.
  bool pads_selections() const { return env_.pad_selections; }

  std::size_t input_count() const { return inputs_.size(); }
  std::size_t output_count() const { return output_is_used_.size(); }
  bool has_input(std::size_t i) const { return i < inputs_.size() && inputs_[i].valid(); }
  /// True if input `i` is a constant of 4-bit integers, which is held as one of 8 bits.
  bool is_four_bit(std::size_t i) const { return i < env_.four_bits.size() && env_.four_bits[i]; }
  /// Says that output 0 is one of 4-bit integers, held so.
  void give_four_bits() { gives_four_bits_ = true; }
  bool gives_four_bits() const { return gives_four_bits_; }
  bool output_is_used(std::size_t i) const {
    return i < output_is_used_.size() && output_is_used_[i];
  }
  /// Input `i`, which `what` names in the error if it is left out.
  ValueId input(std::size_t i, std::string_view what) const;
  ValueId x() const { return input(0, "input"); }
  /// Every input; throws Error(kInvalidModel) if there is none or one is left out.
  std::vector<ValueId> all_inputs() const;

  /// By value: the builder's own move when nodes are added.
  ir::TensorType type(ValueId value) const { return env_.builder.type(value); }
  Shape shape(ValueId value) const { return env_.builder.type(value).shape; }
  DType dtype(ValueId value) const { return env_.builder.type(value).dtype; }
  std::int64_t rank(ValueId value) const { return std::ssize(env_.builder.type(value).shape); }

  /// What input `i` holds, as sizes. Throws Error(kUnsupported) if that depends on the data of the
  /// model's inputs, kInvalidModel if it is not a vector (or, for `scalar`, one element).
  std::vector<Dim> sizes(std::size_t i, std::string_view what) const;
  Dim size(std::size_t i, std::string_view what) const;
  /// Likewise a size that may follow from data, if it is then at most `most`.
  Dim size_up_to(std::size_t i, const Dim& most, std::string_view what);
  /// The size that `count`, one integer that nodes compute, holds. Without `most` the user must
  /// have given a bound. `suffix` tells the sizes of a node apart.
  Dim size_from_data(ValueId count, const std::optional<Dim>& most, const std::string& suffix = {});
  /// Likewise, where symbolic sizes will not do.
  Ints ints(std::size_t i, std::string_view what) const;
  /// The one element of input `i`, which must be constant.
  double scalar(std::size_t i, std::string_view what) const;

  /// Attributes. Throw Error(kInvalidModel) if the attribute has another type, or (without a
  /// default) is missing.
  bool has_attr(std::string_view name) const;
  /// A size, count, axis or flag: throws Error(kInvalidModel) beyond 32 bits, so that arithmetic
  /// with several of them cannot overflow.
  std::int64_t attr_int(std::string_view name, std::optional<std::int64_t> fallback = {}) const;
  /// An element of a tensor: any int64.
  std::int64_t attr_value(std::string_view name, std::optional<std::int64_t> fallback = {}) const;
  double attr_float(std::string_view name, std::optional<double> fallback = {}) const;
  std::string attr_string(std::string_view name, std::optional<std::string> fallback = {}) const;
  std::optional<Ints> attr_ints(std::string_view name) const;
  std::optional<std::vector<double>> attr_floats(std::string_view name) const;
  std::optional<std::vector<std::string>> attr_strings(std::string_view name) const;
  std::optional<ir::Tensor> attr_tensor(std::string_view name) const;
  /// Likewise of 4-bit integers, held as 8; nothing if its elements are others.
  std::optional<ir::Tensor> attr_four_bit_tensor(std::string_view name) const;
  /// The dense form of a sparse tensor.
  std::optional<ir::Tensor> attr_sparse_tensor(std::string_view name) const;

  /// Number of inputs and outputs of the graph that attribute `name` is.
  std::size_t subgraph_input_count(std::string_view name) const;
  std::size_t subgraph_output_count(std::string_view name) const;
  /// Imports that graph once; see SubgraphImporter. After nothing, return without setting outputs.
  /// Throws Error(kInvalidModel) if it has another number of inputs.
  std::optional<std::vector<ir::ValueId>> subgraph(std::string_view name,
                                                   std::span<const ir::ValueId> inputs,
                                                   const std::string& suffix = {});
  /// Likewise, for a caller that has another way if it is not supported, or not valid with inputs
  /// of which nothing but the type is known.
  std::optional<std::vector<ir::ValueId>> try_subgraph(std::string_view name,
                                                       std::span<const ir::ValueId> inputs);
  /// How a value grows from call to call.
  struct Growth {
    std::int64_t axis;
    bool behind;  // or in front
  };
  /// If output `output` of that graph is its input `input` with something behind or in front, and
  /// nothing else reads either.
  std::optional<Growth> growth_in_subgraph(std::string_view name, std::size_t input,
                                           std::size_t output) const;
  /// True once `subgraph` has met unsupported nodes: the outputs need no message of their own.
  bool is_refused() const { return refused_; }

  /// `axis` counted from the front; throws Error(kInvalidModel) if it is not in [-rank, rank).
  std::int64_t normalise_axis(std::int64_t axis, std::int64_t rank) const;
  /// Likewise for several; throws Error(kInvalidModel) for a repeated one. Sorted.
  Ints normalise_axes(Ints axes, std::int64_t rank) const;

  /// Throws Error(kInvalidModel) if `indices` are constants of which one is in no dimension of
  /// `extent` elements, for any values of the symbols. Looks at every `parts`th from `part` on.
  void check_indices(ValueId indices, const Dim& extent, std::size_t part = 0,
                     std::size_t parts = 1) const;

  /// Says that the model works for `dim` <= `max` only, as where it takes the first `dim` rows of a
  /// table of `max` rows. If `dim` is a symbol whose range the user did not give, that range is
  /// narrowed (with a warning); anything else is left as it is.
  void limit(const Dim& dim, std::int64_t max) { env_.default_ranges.limit(dim, max); }

  /// Likewise for `dim` >= `least`, as where windows of a size have to fit: the symbol's range
  /// begins later, if `dim` grows with one symbol alone.
  void at_least(const Dim& dim, std::int64_t least) { env_.default_ranges.at_least(dim, least); }

  /// Adds a node of one output.
  ValueId add(std::string_view op, std::vector<ValueId> inputs, ir::Attrs attrs = {}) {
    return env_.builder.add(op, std::move(inputs), std::move(attrs));
  }
  ValueId constant(DType dtype, double value) { return env_.builder.scalar(dtype, value); }
  /// `value` under another shape, or itself if it has that shape.
  ValueId reshape(ValueId value, const Shape& shape);
  /// `value` broadcast to `shape`, or itself.
  ValueId expand(ValueId value, const Shape& shape);
  ValueId transpose(ValueId value, Ints perm);
  /// `values` behind each other along `axis`; thousands of them in several steps.
  ValueId concat(std::vector<ValueId> values, std::int64_t axis);
  /// `saturate`: of floats of 8 bits; what they cannot hold becomes infinity or NaN otherwise.
  ValueId cast(ValueId value, DType dtype, bool saturate = true);
  /// `value` in the type that it is computed in: squares are soon beyond float16, and so are sums.
  ValueId widened(ValueId value) { return cast(value, compute_type(dtype(value))); }
  /// The attribute 'saturate' of operators that make floats of 8 bits.
  bool saturates() const { return attr_int("saturate", 1) != 0; }

  /// Reserves `bytes` for `what`; throws Error(kOutOfMemory) if ImportOptions::max_memory leaves
  /// less.
  void take_memory(std::int64_t bytes, const std::string& what);

  /// Tells the user of an assumption, or of what the model leaves open.
  void warn(const std::string& what);
  template <typename First, typename... Rest>
  void warn(fmt::format_string<First, Rest...> format, First&& first, Rest&&... rest) {
    warn(fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...));
  }

  void output(std::size_t i, ValueId value);
  void output(ValueId value) { output(0, value); }
  const std::vector<ValueId>& outputs() const { return outputs_; }

  /// Errors about this node.
  [[noreturn]] void invalid(const std::string& why) const;
  [[noreturn]] void unsupported(const std::string& why) const;
  template <typename First, typename... Rest>
  [[noreturn]] void invalid(fmt::format_string<First, Rest...> format, First&& first,
                            Rest&&... rest) const {
    invalid(fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...));
  }
  template <typename First, typename... Rest>
  [[noreturn]] void unsupported(fmt::format_string<First, Rest...> format, First&& first,
                                Rest&&... rest) const {
    unsupported(fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...));
  }

 private:
  const onnx::AttributeProto* find_attr(std::string_view name, int type) const;
  const onnx::GraphProto& attr_graph(std::string_view name) const;
  /// The same; throws Error(kInvalidModel) unless it has `inputs` inputs.
  const onnx::GraphProto& attr_graph(std::string_view name, std::size_t inputs) const;

  const onnx::NodeProto& node_;
  Environment env_;
  std::vector<ValueId> inputs_;
  std::vector<bool> output_is_used_;
  std::vector<ValueId> outputs_;
  bool refused_ = false, gives_four_bits_ = false;
};

}  // namespace sinter::frontend
