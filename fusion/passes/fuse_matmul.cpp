// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "fusion/passes/passes.h"
#include "fusion/regions/epilogue.h"
#include "fusion/regions/operand.h"
#include "fusion/regions/rebuild.h"
#include "ir/affine.h"

namespace sinter::fusion {
namespace {

class MatmulFuser {
 public:
  MatmulFuser(const Graph& graph, Context& context) : graph_(graph), context_(context) {}

  Graph run() {
    // All operands first: what another matmul reads through its own views must be stored as it
    // is.
    for (const Node& node : graph_.nodes()) {
      if (!is_matrix_product(node)) continue;
      std::vector<Operand> operands;
      for (std::size_t i = 0; i < viewed_operands(node); ++i)
        operands.push_back(i == 0 ? left_operand(node) : fold_operand(graph_, node, i));
      for (const Operand& operand : operands) {
        if (!operand.nodes.empty()) stored_.insert(operand.source);
        for (NodeId view : operand.nodes)
          decide(context_, graph_.node(view), node, true, "an access of the product's operand");
      }
      operands_.push_back(std::move(operands));
    }
    std::vector<Piece> pieces;
    std::size_t next = 0;
    for (const Node& node : graph_.nodes()) {
      if (is_matrix_product(node)) {
        pieces.push_back(matmul(node, operands_[next++]));
      } else if (node.op->name == "Conv") {
        pieces.push_back(conv(node));
      } else if (node.op->name == "GroupedMatMul") {
        BodyBuilder body(graph_, BodyBuilder::Literals::kNone);
        body.copy(node);
        const ValueId stored[] = {body.import(node.outputs[0])};
        pieces.push_back(body_piece("grouped_matmul", body, stored, {node.outputs[0]}));
      }
    }
    return rebuild(graph_, pieces);
  }

 private:
  /// Our GEMMs read rows: a generated kernel that computes the operand only for this GEMM stores it
  /// that way, including its views.
  Operand left_operand(const Node& node) const {
    // No library can replace our kernels if columns are contiguous.
    if (multiplies_narrow(context_.target, graph_, node))
      return fold_operand(graph_, node, 0, true);
    const Operand whole = fold_operand(graph_, node, 0);
    if (is_slow_unaligned(node, whole)) return fold_operand(graph_, node, 0, true);
    const DType type = graph_.type(node.inputs[0]).dtype;
    const Node* producer = graph_.producer(whole.source);
    if (!context_.target.gemm_kernels || (type != DType::kFloat16 && type != DType::kBFloat16) ||
        whole.nodes.empty() || producer == nullptr ||
        (producer->op->kind != OpKind::kReduce && producer->op->kind != OpKind::kPointwise))
      return whole;
    ValueId value = whole.source;
    for (const NodeId view : whole.nodes) {
      if (graph_.users(value).size() != 1 || std::ranges::count(graph_.outputs(), value) != 0)
        return whole;
      value = graph_.node(view).outputs[0];
    }
    return fold_operand(graph_, node, 0, true);
  }

  /// Whether `left` has contiguous columns that do not start at multiples of 16 bytes, rows would,
  /// and the matmul is large enough to repay a copy.
  bool is_slow_unaligned(const Node& node, const Operand& left) const {
    const TensorType& type = graph_.type(node.inputs[0]);
    const double least = context_.target.unaligned_flops;
    const bool by_tensor_cores =
        size_of(type.dtype) == 2 ||
        (type.dtype == DType::kFloat32 && context_.precision == Precision::kTf32);
    if (least == 0 || !by_tensor_cores || left.nodes.empty()) return false;
    const Graph views = views_only(graph_, graph_.type(left.source), left.nodes);
    const auto access = ir::strided_access(views, views.outputs()[0]);
    if (!access || access->strides.back() == Dim(1)) return false;
    const std::int64_t line = 16 / size_of(type.dtype);
    const auto starts = [&](const Dim& pitch) {
      return pitch.is_constant() && pitch.value() % line == 0;
    };
    const Dim flops =
        Dim(2) * ir::element_count(graph_.type(node.outputs[0]).shape) * type.shape.back();
    return !starts(access->strides.back()) && starts(type.shape.back()) && flops.is_constant() &&
           static_cast<double>(flops.value()) >= least;
  }

  EpilogueOptions options() {
    EpilogueOptions options;
    options.target = context_.target;
    options.is_stored = [this](ValueId value) { return stored_.count(value) != 0; };
    options.decide = [this](const Node& producer, const Node& consumer, bool fused,
                            std::string_view reason) {
      decide(context_, producer, consumer, fused, reason);
    };
    return options;
  }

  Piece matmul(const Node& node, std::span<const Operand> operands) {
    double alpha = 1;
    for (const Operand& operand : operands) alpha *= operand.alpha;
    const Epilogue epilogue = match_epilogue(graph_, node, alpha, options());
    if (epilogue.residual.valid()) stored_.insert(epilogue.residual);
    BodyBuilder body(graph_, BodyBuilder::Literals::kNone);
    std::vector<ValueId> inputs;
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      inputs.push_back(i < operands.size()
                           ? build_operand(body, graph_, operands[i], node.inputs[i])
                           : body.import(node.inputs[i]));
    ValueId result;
    {
      GraphBuilder::OriginScope scope(body.builder(), node.origins);
      result = body.builder().add(node.op->name, inputs, node.attrs);
    }
    body.origins().insert(body.origins().end(), node.origins.begin(), node.origins.end());
    return finish(body, result, epilogue, "matmul");
  }

  Piece conv(const Node& node) {
    const Epilogue epilogue = match_epilogue(graph_, node, 1.0, options());
    if (epilogue.residual.valid()) stored_.insert(epilogue.residual);
    BodyBuilder body(graph_, BodyBuilder::Literals::kNone);
    body.copy(node);
    return finish(body, body.import(node.outputs[0]), epilogue, "conv");
  }

  /// Puts the epilogue into the body; reshapes that an activation was moved across follow outside.
  Piece finish(BodyBuilder& body, ValueId result, const Epilogue& epilogue, std::string kind) {
    result = build_epilogue(body, graph_, result, epilogue);
    std::vector<ValueId> stored{result};
    Piece piece = body_piece(std::move(kind), body, stored, {epilogue.result});
    if (epilogue.outer_views.empty()) return piece;
    piece.emit = [inner = std::move(piece.emit), &graph = graph_, views = epilogue.outer_views](
                     GraphBuilder& builder, std::span<const ValueId> reads) {
      std::vector<ValueId> values = inner(builder, reads);
      for (NodeId view : views) {
        const Node& node = graph.node(view);
        GraphBuilder::OriginScope scope(builder, node.origins);
        values = builder.add_multi(node.op->name, values, node.attrs);
      }
      return values;
    };
    return piece;
  }

  const Graph& graph_;
  Context& context_;
  std::vector<std::vector<Operand>> operands_;  // by matmul
  std::set<ValueId> stored_;                    // memory operands and residuals of matmuls
};

}  // namespace

Graph fuse_matmul(const Graph& graph, Context& context) {
  return MatmulFuser(graph, context).run();
}

}  // namespace sinter::fusion
