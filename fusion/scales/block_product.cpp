// SPDX-License-Identifier: Apache-2.0
#include "fusion/scales/block_product.h"

#include <utility>

#include <fmt/format.h>

#include "ir/reference/evaluate.h"
#include "ir/scale_format.h"

namespace sinter::fusion {
namespace {

/// Whether `shape` is `of` [.., k] with k split: [.., k / kScaleBlock, last].
bool splits_into_blocks(const Shape& shape, const Shape& of, std::int64_t last) {
  if (shape.size() != of.size() + 1 || !of.back().is_constant() ||
      of.back().value() % kScaleBlock != 0)
    return false;
  for (std::size_t d = 0; d + 1 < of.size(); ++d)
    if (shape[d] != of[d]) return false;
  return shape[of.size() - 1] == Dim(of.back().value() / kScaleBlock) && shape.back() == Dim(last);
}

/// The codes of `w`, weights [k, n], as [n, k].
ValueId rows_of_weights(GraphBuilder& b, const Graph& graph, const QuantizedOperand& w,
                        ValueId codes) {
  const Tensor* constant = b.constant_of(codes);
  const bool keeps_order =
      std::ranges::all_of(w.views, [&](NodeId id) { return graph.node(id).op->name == "Reshape"; });
  if (constant != nullptr && keeps_order) {
    Ints shape = constant->shape();
    if (!w.views.empty()) {
      shape.clear();
      for (const Dim& dim : graph.type(graph.node(w.views.back()).outputs[0]).shape)
        shape.push_back(dim.value());
    }
    // Computed when it is read.
    return b.constant(transposed(constant->reshaped(shape)), graph.value(w.values).name);
  }
  const ValueId weights = place_values(b, graph, w, codes);
  const Node* view = b.producer(weights);
  if (view != nullptr && view->op->name == "Transpose") return view->inputs[0];
  return b.add("Transpose", {weights}, {{"perm", Ints{1, 0}}});
}

}  // namespace

/// Scales that DequantizeLinear spreads over their blocks, reshape(expand(s)), or scales of an x
/// whose k is split into blocks and joined again by a reshape.
std::optional<ValueId> BlockProducts::scales_of_rows(const QuantizedOperand& x) const {
  const auto producer = [&](ValueId value, std::string_view op) {
    const Node* node = graph_.producer(value);
    return node != nullptr && node->op->name == op ? node : nullptr;
  };
  ValueId value = x.scale->value;
  const auto skip_casts = [&] {
    while (const Node* cast = producer(value, "Cast")) {
      if (!is_arithmetic_float(graph_.type(cast->inputs[0]).dtype)) return;
      value = cast->inputs[0];
    }
  };
  skip_casts();
  if (x.scale->views == 1) {
    const Node& view = graph_.node(x.views.back());
    const Shape& rows = graph_.type(view.outputs[0]).shape;
    return view.op->name == "Reshape" &&
                   splits_into_blocks(graph_.type(view.inputs[0]).shape, rows, kScaleBlock) &&
                   splits_into_blocks(graph_.type(value).shape, rows, 1)
               ? std::optional(value)
               : std::nullopt;
  }
  if (x.scale->views != 0) return std::nullopt;
  const Node* merged = producer(value, "Reshape");
  if (merged == nullptr) return std::nullopt;
  const Shape& rows = graph_.type(value).shape;
  value = merged->inputs[0];
  skip_casts();
  const Node* spread = producer(value, "Expand");
  if (spread == nullptr || !splits_into_blocks(graph_.type(value).shape, rows, kScaleBlock))
    return std::nullopt;
  value = spread->inputs[0];
  skip_casts();
  return splits_into_blocks(graph_.type(value).shape, rows, 1) ? std::optional(value)
                                                               : std::nullopt;
}

/// The scales of weights `w`, for each block of k and each column: [k / kScaleBlock, n]. Nothing if
/// they vary within blocks of k.
std::optional<Tensor> BlockProducts::scales_of_columns(const QuantizedOperand& w) const {
  const std::size_t first = w.views.size() - w.scale->views;
  const Shape& applied_to = first < w.views.size()
                                ? graph_.type(graph_.node(w.views[first]).inputs[0]).shape
                                : graph_.type(graph_.node(w.nodes.front()).outputs[0]).shape;
  Tensor scales = values_.tensor(w.scale->value);
  if (first + 1 == w.views.size()) {
    const Node& view = graph_.node(w.views[first]);
    const Shape& matrix = graph_.type(view.outputs[0]).shape;
    // The form of our own weights, without a copy for each element.
    if (view.op->name == "Reshape" && applied_to.size() == 3 && matrix.size() == 2 &&
        applied_to[1] == Dim(kScaleBlock) && applied_to[2] == matrix[1] &&
        scales.shape() == Ints{matrix[0].value() / kScaleBlock, 1, matrix[1].value()})
      return scales.reshaped({scales.shape()[0], scales.shape()[2]});
  }
  scales = ir::evaluate_op(ir::get_op("Expand"), {{"shape", applied_to}}, std::span(&scales, 1))[0];
  for (std::size_t i = first; i < w.views.size(); ++i) {
    const Node& view = graph_.node(w.views[i]);
    scales = ir::evaluate_op(*view.op, view.attrs, std::span(&scales, 1))[0];
  }
  const std::int64_t k = scales.shape()[0], n = scales.shape()[1], blocks = k / kScaleBlock;
  const std::vector<double> all = scales.to_doubles();
  std::vector<double> result(static_cast<std::size_t>(blocks * n));
  for (std::int64_t i = 0; i < k; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      const double own = all[static_cast<std::size_t>(i * n + j)];
      double& of_block = result[static_cast<std::size_t>(i / kScaleBlock * n + j)];
      if (i % kScaleBlock == 0) of_block = own;
      if (of_block != own) return std::nullopt;
    }
  return Tensor::from_doubles(DType::kFloat32, {blocks, n}, result);
}

/// Block scales of weights [k, n]: [columns / kScaleBlock, k / kScaleBlock].
std::optional<Tensor> BlockProducts::scales_of_weights(const QuantizedOperand& w,
                                                       std::string& refusal) const {
  if (!values_.knows(w.scale->value)) {
    refusal = "the scales of the weights are no constants";
    return std::nullopt;
  }
  const std::string varies =
      fmt::format("the scales of the weights vary within blocks of {0} by {0}", kScaleBlock);
  const std::optional<Tensor> columns = scales_of_columns(w);
  if (!columns) {
    refusal = varies;
    return std::nullopt;
  }
  const std::int64_t blocks = columns->shape()[0], n = columns->shape()[1],
                     groups = (n + kScaleBlock - 1) / kScaleBlock;
  const std::vector<double> all = columns->to_doubles();
  std::vector<double> result(static_cast<std::size_t>(groups * blocks));
  for (std::int64_t i = 0; i < blocks; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      const double own = all[static_cast<std::size_t>(i * n + j)];
      double& of_block = result[static_cast<std::size_t>(j / kScaleBlock * blocks + i)];
      if (j % kScaleBlock == 0) of_block = own;
      if (of_block == own) continue;
      refusal = varies;
      return std::nullopt;
    }
  return Tensor::from_doubles(DType::kFloat32, {groups, blocks}, result);
}

std::optional<BlockProduct> BlockProducts::find(const Node& node, std::string& refusal) const {
  refusal.clear();
  if (!ir::is_plain_matmul(node) || !target_.gemm_kernels) return std::nullopt;
  const TensorType &type = graph_.type(node.outputs[0]), &right = graph_.type(node.inputs[1]);
  if (!is_arithmetic_float(type.dtype) || type.dtype == DType::kFloat64 ||
      right.shape.size() != 2 || !right.shape[0].is_constant() || !right.shape[1].is_constant() ||
      right.shape[0].value() % kScaleBlock != 0)
    return std::nullopt;
  auto x = find_quantized_operand(graph_, node.inputs[0]);
  auto w = find_quantized_operand(graph_, node.inputs[1]);
  if (!x || !w || !x->scale || !w->scale || x->zero || w->zero ||
      !is_float8(graph_.type(x->values).dtype) || !is_float8(graph_.type(w->values).dtype))
    return std::nullopt;
  const std::optional<ValueId> x_scales = scales_of_rows(*x);
  if (!x_scales) return std::nullopt;
  if (target_.sums("MatMul", graph_.type(x->values).dtype, graph_.type(w->values).dtype) ==
      nullptr) {
    refusal = "this target has no product of 8-bit floats";
    return std::nullopt;
  }
  std::optional<Tensor> w_scales = scales_of_weights(*w, refusal);
  if (!w_scales) return std::nullopt;
  return BlockProduct{&node, std::move(*x), std::move(*w), *x_scales, std::move(*w_scales)};
}

Piece BlockProducts::piece(BlockProduct product) const {
  const Node& node = *product.node;
  Piece piece;
  piece.writes = node.outputs;
  piece.reads = {product.x.values, product.w.values, product.x_scales};
  std::vector<std::string> origins = node.origins;
  for (const QuantizedOperand* operand : {&product.x, &product.w})
    for (const NodeId id : operand->nodes) {
      const auto& own = graph_.node(id).origins;
      origins.insert(origins.end(), own.begin(), own.end());
    }
  ir::sort_unique(origins);
  piece.emit = [&graph = graph_, product = std::move(product), origins](
                   GraphBuilder& b, std::span<const ValueId> reads) {
    GraphBuilder::OriginScope scope(b, origins);
    const ValueId x = place_values(b, graph, product.x, reads[0]),
                  w = rows_of_weights(b, graph, product.w, reads[1]);
    Shape of_rows = b.type(x).shape;
    of_rows.back() = Dim(of_rows.back().value() / kScaleBlock);
    ValueId scales = reads[2];
    if (b.type(scales).dtype != DType::kFloat32)
      scales = add_folded(b, "Cast", {scales}, {{"to", DType::kFloat32}});
    scales = add_folded(b, "Reshape", {scales}, {{"shape", of_rows}});
    const auto format = [&](ValueId codes, std::int64_t rows) {
      return ir::ScaleFormat{&ir::codes_stored_as(b.type(codes).dtype), DType::kFloat32,
                             std::nullopt, kScaleBlock, rows}
          .to_string();
    };
    const ValueId result = b.add("MatMul", {x, w, scales, b.constant(product.w_scales)},
                                 {{"x", format(x, 1)}, {"w", format(w, kScaleBlock)}});
    const DType type = graph.type(product.node->outputs[0]).dtype;
    return std::vector{type == DType::kFloat32 ? result : b.add("Cast", {result}, {{"to", type}})};
  };
  return piece;
}

}  // namespace sinter::fusion
