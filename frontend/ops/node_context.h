// SPDX-License-Identifier: Apache-2.0
// The interface of an operator's importer: one ONNX node, its inputs as values, checked attributes.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sinter/error.h>

#include "frontend/model/texts.h"
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

/// Formats dimensions, shapes and types in messages.
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

/// Imports graph attributes of nodes.
class SubgraphImporter {
 public:
  /// What the numbers of a body's inputs and outputs stand for; null: they are numbers.
  struct Texts {
    std::vector<TextPtr> inputs, outputs;
  };
  /// Imports `graph` with its inputs bound to `inputs`; names of enclosing graphs are visible.
  /// Returns the values of its outputs. `label` distinguishes this copy of the nodes. Nullopt for
  /// unsupported nodes, which are listed unless `tentative`.
  virtual std::optional<std::vector<ir::ValueId>> import_subgraph(
      const onnx::GraphProto& graph, std::span<const ir::ValueId> inputs, const std::string& label,
      bool tentative, Texts& texts) = 0;

 protected:
  ~SubgraphImporter() = default;
};

/// Error(kUnsupported): a scalar bool input chooses between two bodies with results of different
/// shapes, so computing both and selecting is impossible.
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
    std::vector<bool> four_bits = {};  // inputs that are 4-bit in the model
    DataSizes* data_sizes = nullptr;
    std::int64_t* memory_left = nullptr;  // see ImportOptions::max_memory; null: unlimited
    bool strict = false;                  // see ImportOptions
    std::vector<TextPtr> texts = {};      // by input: what its integers stand for; null: numbers
    ModelTexts* model_texts = nullptr;
    /// Attributes of the node that are not known and are ignored, by the known name that is most
    /// similar: a default in its place is told.
    std::map<std::string, std::string, std::less<>> ignored_attributes = {};
  };
  /// `inputs` has an invalid id for each omitted optional input; `output_is_used` is false for
  /// outputs without a name or a reader.
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
  /// True if input `i` is a constant of 4-bit integers, stored as 8-bit ones.
  bool is_four_bit(std::size_t i) const { return i < env_.four_bits.size() && env_.four_bits[i]; }
  /// Declares that output 0 is a constant of 4-bit integers, stored as 8-bit ones.
  void give_four_bits() { gives_four_bits_ = true; }
  bool gives_four_bits() const { return gives_four_bits_; }
  /// What the integers of input `i` stand for; null: it holds numbers.
  TextPtr text(std::size_t i) const { return i < env_.texts.size() ? env_.texts[i] : nullptr; }
  /// Declares what the numbers of output `i` stand for.
  void give_text(std::size_t i, TextPtr text) { given_texts_[i] = std::move(text); }
  const std::map<std::size_t, TextPtr>& given_texts() const { return given_texts_; }
  /// The strings of the model.
  ModelTexts& model_texts() const { return *env_.model_texts; }
  bool output_is_used(std::size_t i) const {
    return i < output_is_used_.size() && output_is_used_[i];
  }
  /// Input `i`; throws an error naming `what` if it is missing.
  ValueId input(std::size_t i, std::string_view what) const;
  ValueId x() const { return input(0, "input"); }
  /// All inputs; throws Error(kInvalidModel) if there are none or one is missing.
  std::vector<ValueId> all_inputs() const;

  /// By value, because the builder's types move when nodes are added.
  ir::TensorType type(ValueId value) const { return env_.builder.type(value); }
  Shape shape(ValueId value) const { return env_.builder.type(value).shape; }
  DType dtype(ValueId value) const { return env_.builder.type(value).dtype; }
  std::int64_t rank(ValueId value) const { return std::ssize(env_.builder.type(value).shape); }

  /// The contents of input `i` as sizes. Throws Error(kUnsupported) if they depend on data of the
  /// model's inputs, kInvalidModel unless it is a vector (for `size`, one element).
  std::vector<Dim> sizes(std::size_t i, std::string_view what) const;
  Dim size(std::size_t i, std::string_view what) const;
  /// A size that may depend on data, provided that it is at most `most`.
  Dim size_up_to(std::size_t i, const Dim& most, std::string_view what);
  /// The size in `count`, a computed scalar integer. Without `most` the user must have given a
  /// bound. `suffix` distinguishes several sizes of a node.
  Dim size_from_data(ValueId count, const std::optional<Dim>& most, const std::string& suffix = {});
  /// Runs in which `value`, an i64 scalar, is not 0 fail, with this node's label and `suffix`.
  void require_zero(ValueId value, const std::string& suffix);
  /// What the user calls the size that size_from_data gets with `suffix`, and the bound that they
  /// gave of it.
  std::string size_name(const std::string& suffix) const { return env_.label + suffix; }
  std::optional<std::int64_t> given_bound(const std::string& suffix) const;
  /// The contents of input `i` as constant integers.
  Ints ints(std::size_t i, std::string_view what) const;
  /// The single element of input `i`, which must be constant.
  double scalar(std::size_t i, std::string_view what) const;

  /// Attributes. These throw Error(kInvalidModel) if the attribute has another type or, without a
  /// default, is missing.
  bool has_attr(std::string_view name) const;
  /// A size, count, axis or flag. Throws Error(kInvalidModel) beyond 32 bits, so that arithmetic
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
  /// Like attr_tensor, for 4-bit integers stored as 8-bit ones; nullopt for other element types.
  std::optional<ir::Tensor> attr_four_bit_tensor(std::string_view name) const;
  /// Codes (see ModelTexts) of an attribute that is a tensor of strings; nullopt for others.
  std::optional<ir::Tensor> attr_text_tensor(std::string_view name) const;
  /// The dense form of a sparse tensor.
  std::optional<ir::Tensor> attr_sparse_tensor(std::string_view name) const;

  /// Numbers of inputs and outputs of the graph attribute `name`.
  std::size_t subgraph_input_count(std::string_view name) const;
  std::size_t subgraph_output_count(std::string_view name) const;
  /// Imports that graph once; see SubgraphImporter. If it returns nullopt, return without setting
  /// outputs. Throws Error(kInvalidModel) if the number of inputs differs.
  std::optional<std::vector<ir::ValueId>> subgraph(std::string_view name,
                                                   std::span<const ir::ValueId> inputs,
                                                   const std::string& suffix = {});
  /// Declares that output i of the node is what output `first` + i of its bodies is: strings or
  /// numbers; `carries`: of a loop, whose input 2 + i is so, too. Throws
  /// Error(kUnsupported) if these differ.
  void keep_body_texts(std::size_t first, bool carries);
  /// The same for callers with a fallback. Also returns nullopt if the graph is not valid for
  /// inputs of which only the type is known.
  std::optional<std::vector<ir::ValueId>> try_subgraph(std::string_view name,
                                                       std::span<const ir::ValueId> inputs);
  /// How a loop-carried value grows in each call.
  struct Growth {
    std::int64_t axis;
    bool behind;  // appended; false: prepended
  };
  /// The growth, if output `output` of that graph is its input `input` with something appended or
  /// prepended, and nothing else reads either.
  std::optional<Growth> growth_in_subgraph(std::string_view name, std::size_t input,
                                           std::size_t output) const;
  /// True once `subgraph` has met unsupported nodes: outputs then need no further message.
  bool is_refused() const { return refused_; }

  /// `axis` as a non-negative number; throws Error(kInvalidModel) outside [-rank, rank).
  std::int64_t normalise_axis(std::int64_t axis, std::int64_t rank) const;
  /// The same for several axes, sorted; throws Error(kInvalidModel) for duplicates.
  Ints normalise_axes(Ints axes, std::int64_t rank) const;

  /// Throws Error(kInvalidModel) if `indices` are constant and one is out of range for a dimension
  /// of `extent` elements, for all values of the symbols. Checks every `parts`th index from `part`
  /// on.
  void check_indices(ValueId indices, const Dim& extent, std::size_t part = 0,
                     std::size_t parts = 1) const;

  /// Declares that the model is valid only for `dim` <= `max`, for example if it takes the first
  /// `dim` rows of a table of `max` rows. Narrows the default range of a symbol, with a warning; a
  /// range that the user gave, and other dimensions, stay unchanged.
  void limit(const Dim& dim, std::int64_t max) { env_.default_ranges.limit(dim, max); }

  /// The same for `dim` >= `least`, for example if windows must fit. It raises the minimum of a
  /// symbol's range if `dim` increases with that symbol only.
  void at_least(const Dim& dim, std::int64_t least) { env_.default_ranges.at_least(dim, least); }

  /// Adds a node with one output.
  ValueId add(std::string_view op, std::vector<ValueId> inputs, ir::Attrs attrs = {}) {
    return env_.builder.add(op, std::move(inputs), std::move(attrs));
  }
  ValueId constant(DType dtype, double value) { return env_.builder.scalar(dtype, value); }
  /// `value` reshaped to `shape`; unchanged if it has that shape.
  ValueId reshape(ValueId value, const Shape& shape);
  /// `value` broadcast to `shape`; unchanged if it has that shape.
  ValueId expand(ValueId value, const Shape& shape);
  ValueId transpose(ValueId value, Ints perm);
  /// Concatenates `values` along `axis`; thousands of them in several steps.
  ValueId concat(std::vector<ValueId> values, std::int64_t axis);
  /// `saturate`: for 8-bit floats; otherwise overflow gives infinity or NaN.
  ValueId cast(ValueId value, DType dtype, bool saturate = true);
  /// `value` in its compute type: squares and sums overflow float16 easily.
  ValueId widened(ValueId value) { return cast(value, compute_type(dtype(value))); }
  /// The attribute 'saturate' of operators that produce 8-bit floats.
  bool saturates() const { return attr_int("saturate", 1) != 0; }

  /// Reserves `bytes` for `what`; throws Error(kOutOfMemory) if less of ImportOptions::max_memory
  /// is left.
  void take_memory(std::int64_t bytes, const std::string& what);

  /// Warns the user of an assumption, or of something that the model leaves open.
  void warn(const std::string& what);
  template <typename First, typename... Rest>
  void warn(fmt::format_string<First, Rest...> format, First&& first, Rest&&... rest) {
    warn(fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...));
  }

  /// Says what is assumed of a model that is not as its opset wants it: a warning, or
  /// Error(kInvalidModel) with ImportOptions::strict.
  void assume(const std::string& what) const;
  template <typename First, typename... Rest>
  void assume(fmt::format_string<First, Rest...> format, First&& first, Rest&&... rest) const {
    assume(fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...));
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
  /// `fallback` of attribute `name`; throws Error(kInvalidModel) if there is none.
  template <typename Value>
  Value default_of(std::string_view name, std::optional<Value> fallback) const;
  const onnx::GraphProto& attr_graph(std::string_view name) const;
  /// The graph attribute `name`; throws Error(kInvalidModel) unless it has `inputs` inputs.
  const onnx::GraphProto& attr_graph(std::string_view name, std::size_t inputs) const;

  const onnx::NodeProto& node_;
  Environment env_;
  std::vector<ValueId> inputs_;
  std::vector<bool> output_is_used_;
  std::vector<ValueId> outputs_;
  bool refused_ = false, gives_four_bits_ = false;
  std::vector<std::vector<TextPtr>> body_texts_;  // of outputs of the bodies imported so far
  std::map<std::size_t, TextPtr> given_texts_;
};

}  // namespace sinter::frontend
