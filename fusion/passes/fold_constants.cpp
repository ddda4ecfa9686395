// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <sinter/error.h>

#include "fusion/passes/passes.h"
#include "fusion/regions/rebuild.h"
#include "fusion/scales/sunk_product.h"
#include "ir/reference/evaluate.h"
#include "ir/scale_format.h"

namespace sinter::fusion {
namespace {

std::int64_t byte_count(const TensorType& type) {
  return ir::element_count(type.shape).value() * static_cast<std::int64_t>(size_of(type.dtype));
}

bool is_concrete(const Attrs& attrs) {
  for (const auto& [name, attr] : attrs.values())
    if (const auto* dims = std::get_if<std::vector<Dim>>(&attr))
      for (const Dim& dim : *dims)
        if (!dim.is_constant()) return false;
  return true;
}

/// True if it depends only on its index, and sizes are known.
bool is_generated(const GraphBuilder& builder, ValueId value) {
  const Node* node = builder.producer(value);
  return node != nullptr && node->op->generate() != nullptr && is_concrete(node->attrs);
}

/// Index arithmetic on generated indices: kernels compute it and analyse it. Stored numbers would
/// have to be read.
bool is_index_arithmetic(const GraphBuilder& builder, const Graph& old, const Node& node,
                         std::span<const ValueId> inputs) {
  const auto generated = [&](ValueId input) { return is_generated(builder, input); };
  if (std::ranges::none_of(inputs, generated)) return false;
  return node.op->kind == OpKind::kView ||
         (node.op->kind == OpKind::kPointwise && is_integer(old.type(node.outputs[0]).dtype) &&
          std::ranges::all_of(
              inputs, [&](ValueId input) { return is_integer(builder.type(input).dtype); }));
}

/// True if the node is fully known: inputs are constants or generated, sizes have no symbols.
bool is_known(const GraphBuilder& builder, const Graph& old, const Node& node,
              std::span<const ValueId> inputs) {
  if (node.body || inputs.empty()) return false;
  for (ValueId input : inputs)
    if (builder.constant_of(input) == nullptr && !is_generated(builder, input)) return false;
  for (ValueId output : node.outputs)
    for (const Dim& dim : old.type(output).shape)
      if (!dim.is_constant()) return false;
  return is_concrete(node.attrs);
}

std::int64_t bytes_of_outputs(const Graph& old, const Node& node) {
  std::int64_t bytes = 0;
  for (ValueId output : node.outputs) bytes += byte_count(old.type(output));
  return bytes;
}

/// A folded result is stored in the plan: it must not be larger than its operands, unless it is
/// small. Results of constants may be a vector with one number for each channel: a scale must be
/// known to be folded into weights.
bool keeps_size(const GraphBuilder& builder, const Graph& old, const Node& node,
                std::span<const ValueId> inputs) {
  constexpr std::int64_t kSmallGenerated = 1024, kSmallConstant = 8 * 1024;
  // Generated values are not stored; kernels generate long rows as fast as they read them.
  constexpr std::int64_t kMostGenerated = std::int64_t{64} << 20;
  std::int64_t before = 0;
  bool generated = false;
  for (const ValueId input : std::set<ValueId>(inputs.begin(), inputs.end())) {
    before += byte_count(builder.type(input));
    generated = generated || builder.constant_of(input) == nullptr;
  }
  const std::int64_t after = bytes_of_outputs(old, node);
  if (generated && after > kMostGenerated) return false;
  return after <= std::max(before, generated ? kSmallGenerated : kSmallConstant);
}

/// Values that become weights of a matmul or convolution and depend on no input. They are
/// needed whole, in the library's layout: computed in each run, they would also be packed in
/// each run.
std::vector<bool> find_weights(const Graph& graph) {
  std::vector<bool> constant(graph.values().size(), false), weight(graph.values().size(), false);
  const auto at = [](ValueId value) { return value.position(); };
  for (std::size_t i = 0; i < graph.values().size(); ++i)
    constant[i] = graph.values()[i].constant != nullptr;
  for (const Node& node : graph.nodes()) {
    const bool known =
        std::ranges::all_of(node.inputs, [&](ValueId input) { return constant[at(input)]; });
    for (ValueId output : node.outputs) constant[at(output)] = known;
    if (!ir::is_plain_matmul(node) && node.op->name != "Conv") continue;
    for (ValueId input : node.inputs) weight[at(input)] = constant[at(input)];
  }
  for (auto node = graph.nodes().rbegin(); node != graph.nodes().rend(); ++node)
    for (ValueId output : node->outputs)
      if (weight[at(output)])
        for (ValueId input : node->inputs) weight[at(input)] = true;
  return weight;
}

/// GEMMs read a transposed weight in its stored layout: a copy would only use memory.
bool is_view_for_product(const Graph& old, const Node& node) {
  constexpr std::int64_t kLargeBytes = 64 * 1024;
  if (node.op->name != "Transpose" || byte_count(old.type(node.outputs[0])) < kLargeBytes)
    return false;
  const auto& users = old.users(node.outputs[0]);
  return !users.empty() && std::ranges::all_of(users, [&](NodeId user) {
    return ir::is_plain_matmul(old.node(user));
  });
}

/// True for a tensor shape without elements, whatever its symbols are.
bool is_empty(const Shape& shape) { return std::ranges::find(shape, ir::Dim(0)) != shape.end(); }

/// A tensor of this type without elements: a constant if its shape is constant.
ValueId empty_value(GraphBuilder& builder, const TensorType& type) {
  Ints shape;
  for (const Dim& dim : type.shape)
    if (dim.is_constant()) shape.push_back(dim.value());
  if (shape.size() == type.shape.size())
    return builder.constant(Tensor::from_ints(type.dtype, std::move(shape), {}));
  const ValueId zero = builder.constant(Tensor::scalar(type.dtype, 0));
  return builder.add("Expand", {zero}, {{"shape", type.shape}});
}

/// Empty values for the outputs of `node`, if none has elements: no kernel is needed.
std::optional<std::vector<ValueId>> empty_outputs(GraphBuilder& builder, const Graph& old,
                                                  const Node& node) {
  std::vector<ValueId> results;
  for (ValueId output : node.outputs)
    if (!is_empty(old.type(output).shape)) return std::nullopt;
  for (ValueId output : node.outputs) results.push_back(empty_value(builder, old.type(output)));
  return results;
}

/// A loop with captured constants moved into its body, where passes can use them. Nothing if it
/// captures none.
std::optional<std::vector<ValueId>> with_constants_inside(GraphBuilder& builder, const Node& node,
                                                          std::span<const ValueId> inputs) {
  const Graph& body = *node.body;
  const std::size_t first = 1 + node.outputs.size();
  std::vector<ValueId> outside, inside;
  GraphBuilder inner(body.name());
  for (const auto& [symbol, range] : body.ranges()) inner.range(symbol, range);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto constant = i < first ? nullptr : builder.shared_constant(inputs[i]);
    const Value& value = body.value(body.inputs()[i]);
    if (!constant) outside.push_back(inputs[i]);
    inside.push_back(constant ? inner.constant(constant, value.name)
                              : inner.input(value.name, value.type));
  }
  if (outside.size() == inputs.size()) return std::nullopt;
  const std::vector<ValueId> outputs = ir::inline_graph(inner, body, inside);
  for (std::size_t i = 0; i < outputs.size(); ++i) inner.output(body.output_names()[i], outputs[i]);
  return builder.add_multi(node.op->name, outside, node.attrs,
                           std::make_shared<const Graph>(inner.finish()));
}

}  // namespace

Graph fold_constants(const Graph& graph, Context& context) {
  const std::vector<bool> weights = find_weights(graph);
  // The integers stay: sink_scales multiplies them.
  const std::vector<bool> is_left = made_of_codes(graph, context);
  // Unpacked weights may be larger, up to a limit: a few constants that are concatenated again and
  // again are computed in each run instead.
  constexpr std::int64_t kMostGrowth = 16, kMostGrown = std::int64_t{768} << 20;
  std::int64_t own = 0, made = 0;
  for (const Value& value : graph.values())
    if (value.constant) own += static_cast<std::int64_t>(value.constant->byte_count());
  const std::int64_t most = std::max(kMostGrown, kMostGrowth * own);
  return ir::rewrite(
      graph,
      [&](GraphBuilder& builder, const Graph& old, const Node& node,
          std::span<const ValueId> inputs) -> std::optional<std::vector<ValueId>> {
        if (auto empty = empty_outputs(builder, old, node)) return empty;
        if (node.op->kind == OpKind::kWhile) return with_constants_inside(builder, node, inputs);
        // Other nodes refer to the Extent by its symbol.
        if (node.op->kind == OpKind::kExtent) return std::nullopt;
        if (is_left[static_cast<std::size_t>(&node - old.nodes().data())] ||
            !is_known(builder, old, node, inputs) || is_view_for_product(old, node) ||
            is_index_arithmetic(builder, old, node, inputs))
          return std::nullopt;
        const bool is_weight = weights[node.outputs[0].position()];
        const std::int64_t bytes = bytes_of_outputs(old, node);
        if (!keeps_size(builder, old, node, inputs) && !(is_weight && made + bytes <= most))
          return std::nullopt;
        if (node.op->name == "Reshape") {
          Ints shape;
          for (const Dim& dim : old.type(node.outputs[0]).shape) shape.push_back(dim.value());
          return std::vector{
              builder.constant(builder.constant_of(inputs[0])->reshaped(std::move(shape)))};
        }
        if (bytes > context.max_memory - made)
          throw Error(
              ErrorCode::kOutOfMemory,
              fmt::format("{}: its result {} is a constant, and all that are computed while "
                          "compiling take more than {} bytes: allow more "
                          "(--max-compile-memory), or leave them to each run "
                          "(--disable-pass fold_constants)",
                          describe(node), ir::to_string(old.type(node.outputs[0])),
                          context.max_memory));
        made += bytes;
        std::vector<Tensor> values;
        for (ValueId input : inputs) {
          const Tensor* constant = builder.constant_of(input);
          const Node* source = builder.producer(input);
          values.push_back(constant ? *constant
                                    : ir::evaluate_op(*source->op, source->attrs, {}).at(0));
        }
        std::vector<ValueId> results;
        for (Tensor& result : ir::evaluate_op(*node.op, node.attrs, values))
          results.push_back(builder.constant(std::move(result)));
        return results;
      });
}

}  // namespace sinter::fusion
