// SPDX-License-Identifier: Apache-2.0
// Groups GEMMs and convolutions with the kernel that reads their result, and small-M GEMMs with the
// norm that computes their rows. The tactic (one kernel, or the library's GEMM with other kernels)
// is chosen for each shape when a plan is bound.
#include <algorithm>
#include <optional>
#include <set>

#include "fusion/passes/passes.h"
#include "fusion/regions/operand.h"
#include "fusion/regions/rebuild.h"
#include "fusion/regions/result_reader.h"
#include "ir/mixture/expert_rows.h"
#include "ir/scale_format.h"

namespace sinter::fusion {
namespace {

/// A matmul or convolution, which a kernel of ours may fuse with its reader.
bool is_product(const Node& node) {
  return is_kind(node, "matmul") || is_kind(node, "grouped_matmul") || is_kind(node, "conv");
}

/// Whether a kernel's body can follow a GEMM, its input `product`, elementwise or by rows. With
/// `may_be_halves`, results may have half the width and combine corresponding elements of both
/// halves: a gated unit.
Verdict follows_product(const Graph& body, ValueId product, const Dim& columns,
                        bool may_be_halves) {
  Shape space = body.type(product).shape;
  std::optional<Dim> half;
  if (may_be_halves && columns.is_constant() && columns.value() % 2 == 0 &&
      space.back() == columns &&
      ir::element_count(body.type(body.outputs()[0]).shape) * ir::Dim(2) ==
          ir::element_count(space)) {
    half = ir::Dim(columns.value() / 2);
    space.back() = *half;
  }
  Ints axes;
  for (const Node& node : body.nodes())
    if (node.op->kind == OpKind::kReduce) axes = node.attrs.get_ints("axes");
  if (!axes.empty()) {
    if (half) return {false, "it reduces halves of the product's rows"};
    if (axes != Ints{static_cast<std::int64_t>(space.size()) - 1} || space.back() != columns)
      return {false, "it reduces other elements than the rows of the product"};
    if (!columns.is_constant())
      return {false, "it reduces rows whose length is not known: they may not fit a kernel"};
  }
  return follows(body, product, space, axes, half);
}

/// `body` of a kernel that reads its input `read`, the result of type `product`, through reshapes,
/// from the result on. Sets `read` to that.
Graph from_product(const Graph& body, ValueId& read, const TensorType& product) {
  GraphBuilder builder("body");
  for (const auto& [symbol, range] : body.ranges()) builder.range(symbol, range);
  std::vector<ValueId> inputs;
  ValueId whole;
  for (const ValueId input : body.inputs()) {
    const TensorType& type = body.type(input);
    inputs.push_back(builder.input(body.value(input).name, input == read ? product : type));
    if (input != read) continue;
    whole = inputs.back();
    inputs.back() = builder.add("Reshape", {whole}, {{"shape", type.shape}});
  }
  const std::vector<ValueId> outputs = ir::inline_graph(builder, body, inputs);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    builder.output(body.output_names()[i], outputs[i]);
  read = whole;
  return builder.finish();
}

/// A region that computes the rows of a GEMM's left operand, maybe through reshapes.
struct Rows {
  NodeId node;
  std::vector<NodeId> reshapes;  // the last one first
};

/// Whether the blocks of a GEMM with `columns` can compute `body` themselves: few rows, each
/// reduced as a whole.
Verdict can_be_rows(const Graph& body, const Dim& columns, const Ranges& ranges,
                    const ir::PrologueLimits& most) {
  if (body.outputs().size() != 1) return {false, "it has several results"};
  const Shape& shape = body.type(body.outputs()[0]).shape;
  if (shape.empty() || !shape.back().is_constant()) return {false, "its rows' length is not known"};
  const auto last = static_cast<std::int64_t>(shape.size()) - 1;
  for (const Node& node : body.nodes())
    if (node.op->kind == OpKind::kReduce &&
        (node.attrs.get_ints("axes") != Ints{last} || body.type(node.inputs[0]).shape != shape))
      return {false, "it reduces other elements than its rows"};
  const auto elements = ir::upper_bound(ir::element_count(shape), ranges);
  if (!elements || *elements > std::min(most.elements, most.rows * shape.back().value()))
    return {false, "its rows are too many for each block of the product to compute them itself"};
  if (!columns.is_constant() || columns.value() > most.columns)
    return {false,
            "the GEMM's blocks run in several waves, each of which would compute "
            "its rows again"};
  return {true, ""};
}

class GemmFuser {
 public:
  GemmFuser(const Graph& graph, Context& context) : graph_(graph), context_(context) {}

  Graph run() {
    std::vector<const Node*> products;
    for (const Node& node : graph_.nodes())
      if (is_product(node) && has_gemm_kernel(context_.target, node)) products.push_back(&node);
    std::vector<std::optional<Rows>> rows;
    for (const Node* product : products) rows.push_back(choose_rows(*product));
    std::vector<Piece> pieces;
    for (std::size_t i = 0; i < products.size(); ++i)
      pieces.push_back(piece(*products[i], rows[i]));
    return rebuild(graph_, pieces);
  }

 private:
  Piece piece(const Node& matmul, const std::optional<Rows>& rows) {
    const ValueId result = matmul.outputs[0];
    BodyBuilder body(graph_, BodyBuilder::Literals::kNone);
    if (rows) {
      body.copy(graph_.node(rows->node));
      for (std::size_t i = rows->reshapes.size(); i-- > 0;)
        body.copy(graph_.node(rows->reshapes[i]));
    }
    body.copy(matmul);
    std::vector<ValueId> writes;
    const std::optional<ResultReader> reader = choose_reader(matmul);
    if (!reader || is_read_beside(graph_, result, *reader)) writes.push_back(result);
    if (reader) {
      taken_.insert(reader->node);
      for (NodeId reshape : reader->reshapes) body.copy(graph_.node(reshape));
      const Node& rest = graph_.node(reader->node);
      body.copy(rest);
      writes.insert(writes.end(), rest.outputs.begin(), rest.outputs.end());
    }
    std::vector<ValueId> stored;
    for (ValueId value : writes) stored.push_back(body.import(value));
    return body_piece("gemm", body, stored, writes);
  }

  /// The region that computes the left operand's rows, if this GEMM is its only reader.
  std::optional<Rows> choose_rows(const Node& matmul) {
    if (is_kind(matmul, "grouped_matmul")) return choose_gather(matmul);
    if (!is_kind(matmul, "matmul")) return std::nullopt;
    const std::optional<ValueId> left = left_operand(matmul);
    if (!left) return std::nullopt;
    Rows rows;
    ValueId value = *left;
    const Node* node = graph_.producer(value);
    for (; node && node->op->name == "Reshape"; node = graph_.producer(value)) {
      rows.reshapes.push_back(graph_.value(value).producer);
      if (graph_.users(value).size() != 1 || graph_.is_output(value)) return std::nullopt;
      value = node->inputs[0];
    }
    if (!node || !is_kind(*node, "reduction")) return std::nullopt;
    rows.node = graph_.value(value).producer;
    Verdict verdict = can_be_rows(*node->body, graph_.type(matmul.outputs[0]).shape.back(),
                                  graph_.ranges(), context_.target.gemm_prologue);
    if (verdict.ok && (graph_.users(value).size() != 1 || graph_.is_output(value)))
      verdict = {false, "something else reads its rows too"};
    decide(context_, *node, matmul, verdict.ok,
           verdict.ok ? "its rows are few: each block of the product computes them itself, "
                        "where that is faster"
                      : verdict.reason);
    if (!verdict.ok) return std::nullopt;
    taken_.insert(rows.node);
    return rows;
  }

  /// The Gather of a grouped matmul's rows, if nothing else reads them: a kernel of few rows reads
  /// them where they lie.
  std::optional<Rows> choose_gather(const Node& matmul) {
    const Graph& body = *matmul.body;
    const auto at = body.input_number(body.nodes()[0].inputs[0]);
    if (!at) return std::nullopt;
    const ValueId rows = matmul.inputs[*at];
    const Node* node = graph_.producer(rows);
    if (node == nullptr || !is_kind(*node, "pointwise") || node->body->nodes().size() != 1)
      return std::nullopt;
    const Node& gather = node->body->nodes()[0];
    if (gather.op->name != "Gather" || gather.attrs.get_int("axis") != 0 ||
        node->body->type(gather.inputs[1]).shape.size() != 1)
      return std::nullopt;
    const bool ok = graph_.users(rows).size() == 1 && !graph_.is_output(rows);
    decide(context_, *node, matmul, ok,
           ok ? "the product of few rows reads them where they lie"
              : "something else reads its rows too");
    if (!ok) return std::nullopt;
    taken_.insert(graph_.value(rows).producer);
    return Rows{graph_.value(rows).producer, {}};
  }

  /// The value that is the whole left operand, and used nowhere else in the node; none if the GEMM
  /// reads it through views other than reshapes.
  static std::optional<ValueId> left_operand(const Node& matmul) {
    const Graph& body = *matmul.body;
    for (const Node& node : body.nodes()) {
      if (node.op->name != "MatMul" || ir::has_scaled_operands(node)) continue;
      ValueId left = node.inputs[0];
      for (const Node* view = body.producer(left); view; view = body.producer(left)) {
        if (view->op->name != "Reshape") return std::nullopt;
        left = view->inputs[0];
      }
      for (std::size_t i = 0; i < matmul.inputs.size(); ++i)
        if (body.inputs()[i] == left && std::ranges::count(matmul.inputs, matmul.inputs[i]) == 1)
          return matmul.inputs[i];
    }
    return std::nullopt;
  }

  std::optional<ResultReader> choose_reader(const Node& matmul) {
    for (const ResultReader& reader : result_readers(graph_, matmul.outputs[0])) {
      const Node& node = graph_.node(reader.node);
      const Verdict verdict = may_follow(matmul, reader);
      decide(context_, matmul, node, verdict.ok,
             verdict.ok ? "one step, in one kernel where that is faster" : verdict.reason);
      if (verdict.ok) return reader;
    }
    return std::nullopt;
  }

  Verdict may_follow(const Node& matmul, const ResultReader& reader) const {
    const Node& node = graph_.node(reader.node);
    if (taken_.count(reader.node) != 0)
      return {false, "'" + describe(node) + "' already belongs to another product"};
    for (const Node& part : matmul.body->nodes())
      if (part.op->name == "Transpose" && matmul.body->producer(matmul.body->outputs()[0]) == &part)
        return {false, "the product is stored through a transpose"};
    if (Verdict v = is_next(graph_, matmul, matmul.outputs[0], reader); !v.ok) return v;
    const auto at = std::ranges::find(node.inputs, reader.read);
    ValueId inner = node.body->inputs()[static_cast<std::size_t>(at - node.inputs.begin())];
    const TensorType& product = graph_.type(matmul.outputs[0]);
    const auto may_be = [&](const Graph& body) {
      return follows_product(body, inner, product.shape.back(), !is_kind(matmul, "conv"));
    };
    if (combines(matmul, node, inner)) return {true, ""};
    const Verdict verdict = may_be(*node.body);
    if (verdict.ok || node.body->type(inner).shape == product.shape) return verdict;
    // Halves may be a dimension that a reshape made.
    const Graph whole = from_product(*node.body, inner, product);
    return may_be(whole).ok ? Verdict{true, ""} : verdict;
  }

  /// Whether `reader` adds up the rows of each token. A kernel of few tokens that does so finds a
  /// token's rows before it waits for the kernel in front: one kernel must have sorted both.
  bool combines(const Node& matmul, const Node& reader, ValueId rows) const {
    if (!is_kind(matmul, "grouped_matmul")) return false;
    const Graph &product = *matmul.body, &body = *reader.body;
    const Node* last = product.producer(product.outputs()[0]);
    const auto found = ir::find_combined_rows(body, rows);
    if (last == nullptr || last->op->name != "GroupedMatMul" || !found) return false;
    const auto maker = [&](const Node& node, ValueId inner) -> const Node* {
      const auto at = node.body->input_number(inner);
      if (!at) return nullptr;
      ValueId value = node.inputs[*at];
      const Node* made = graph_.producer(value);
      for (; made != nullptr && made->op->name == "Reshape"; made = graph_.producer(value))
        value = made->inputs[0];
      return made;
    };
    const Node* sorted = maker(reader, found->rows_of);
    return sorted != nullptr && sorted == maker(matmul, last->inputs.back()) &&
           body.input_number(found->shares);
  }

  const Graph& graph_;
  Context& context_;
  std::set<NodeId> taken_;
};

}  // namespace

Graph fuse_gemm(const Graph& graph, Context& context) {
  if (!context.target.gemm_kernels) return graph;
  return GemmFuser(graph, context).run();
}

}  // namespace sinter::fusion
