// Products and convolutions with the kernel that reads their result, and products of few rows with
// the norm that makes these. Which of the ways to do such a step is taken (one kernel of our own,
// or the library's product and the other kernels) is decided for each shape when a plan is bound;
// here only what belongs together is brought together.
#include <algorithm>
#include <optional>
#include <set>

#include "fusion/passes/passes.h"
#include "fusion/regions/operand.h"
#include "fusion/regions/rebuild.h"
#include "fusion/regions/region.h"

namespace sinter::fusion {
namespace {

/// A product or a convolution: what a kernel of our own may do together with its reader.
bool is_product(const Node& node) { return is_kind(node, "matmul") || is_kind(node, "conv"); }

/// A kernel that reads a product, perhaps through reshapes.
struct ResultReader {
  NodeId node;
  std::vector<NodeId> reshapes;
  ValueId read;  // what it reads: the product, or the last reshape of it
};

/// True if a step that is at `step` needs that element of a product, or those that have its place
/// in both halves of the product's `2 * half` columns.
bool are_own(const std::vector<Index>& needed, const Index& step, const std::optional<Dim>& half) {
  if (!half) return needed.size() == 1 && needed[0] == step;
  Index second = step;
  second.back() = second.back() + *half;
  return needed.size() == 2 &&
         ((needed[0] == step && needed[1] == second) || (needed[1] == step && needed[0] == second));
}

/// Whether the body of a kernel can follow a product element by element: it needs, for each step
/// over the elements of input `product`, that one element of it alone. Or its results are half as
/// wide, and it needs what is at their places in both halves: a gate and what that opens
/// (`may_be_halves`).
Verdict follows(const Graph& body, ValueId product, const Dim& columns, bool may_be_halves) {
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
  const std::vector<bool> stored(body.values().size(), false);
  Region region(body, space, axes, stored);
  for (ValueId output : body.outputs()) {
    const Node* node = body.producer(output);
    // The result is stored through what follows it.
    while (node && (node->op->name == "Transpose" || node->op->name == "Reshape")) {
      output = node->inputs[0];
      node = body.producer(output);
    }
    if (!node) return {false, "it stores what it reads"};
    if (Verdict v = region.add_result(body.value(output).producer); !v.ok) return v;
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (ValueId leaf : region.leaves()) {
      const NodeId producer = body.value(leaf).producer;
      if (!producer.valid() || region.demands().find(leaf)->whole) continue;
      if (Verdict v = region.add_producer(producer, false); !v.ok) return v;
      changed = true;
      break;
    }
  }
  const Region::Demand* demand = region.demands().find(product);
  const auto step = region.step_index(space);
  if (demand == nullptr || !step) return {false, "it does not read the product"};
  if (demand->whole || demand->guarded || !are_own(demand->indices, *step, half))
    return {false, "it reads other elements of the product than the one at hand"};
  return {true, ""};
}

/// A region that computes the rows of a product's left operand, perhaps through reshapes.
struct Rows {
  NodeId node;
  std::vector<NodeId> reshapes;  // the last one first
};

// Each block of a product computes its left operand's rows for itself: as long as these are few
// elements that takes less time than a launch, while the block's weights are on their way.
constexpr std::int64_t kMostRows = 8, kMostRowElements = 16384;
// Blocks of more columns than these come in turns, and each turn would wait for the rows again.
constexpr std::int64_t kMostColumns = 32768;

/// Whether the blocks of a product with `columns` can compute what `body` does for themselves: few
/// rows, each reduced as a whole.
Verdict can_be_rows(const Graph& body, const Dim& columns, const Ranges& ranges) {
  if (body.outputs().size() != 1) return {false, "it has several results"};
  const Shape& shape = body.type(body.outputs()[0]).shape;
  if (shape.empty() || !shape.back().is_constant()) return {false, "its rows' length is not known"};
  const auto last = static_cast<std::int64_t>(shape.size()) - 1;
  for (const Node& node : body.nodes())
    if (node.op->kind == OpKind::kReduce &&
        (node.attrs.get_ints("axes") != Ints{last} || body.type(node.inputs[0]).shape != shape))
      return {false, "it reduces other elements than its rows"};
  const auto elements = ir::upper_bound(ir::element_count(shape), ranges);
  if (!elements || *elements > std::min(kMostRowElements, kMostRows * shape.back().value()))
    return {false, "its rows are too many for each block of the product to compute them itself"};
  if (!columns.is_constant() || columns.value() > kMostColumns)
    return {false,
            "the product's blocks are so many that they come in turns, each of which would compute "
            "its rows again"};
  return {true, ""};
}

class GemmFuser {
 public:
  GemmFuser(const Graph& graph, Context& context) : graph_(graph), context_(context) {}

  Graph run() {
    std::vector<const Node*> products;
    for (const Node& node : graph_.nodes())
      if (is_product(node) && is_ours(node)) products.push_back(&node);
    std::vector<std::optional<Rows>> rows;
    for (const Node* product : products) rows.push_back(choose_rows(*product));
    std::vector<Piece> pieces;
    for (std::size_t i = 0; i < products.size(); ++i)
      pieces.push_back(piece(*products[i], rows[i]));
    return rebuild(graph_, pieces);
  }

 private:
  /// Tensor cores multiply 16-bit floats, and what the target says of 8 bits; everything else is
  /// the library's.
  bool is_ours(const Node& node) const {
    return std::ranges::all_of(node.body->nodes(), [&](const Node& part) {
      if (part.op->name != "MatMul" && part.op->name != "Conv") return true;
      if (multiplies_narrow(context_.target, *node.body, part)) return true;
      const DType type = node.body->type(part.outputs[0]).dtype;
      return (type == DType::kFloat16 || type == DType::kBFloat16) &&
             node.body->type(part.inputs[0]).dtype == type;
    });
  }

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
    if (!reader || escapes(result, *reader)) writes.push_back(result);
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

  /// The region that makes the left operand's rows, if it does so for this product alone.
  std::optional<Rows> choose_rows(const Node& matmul) {
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
    Verdict verdict =
        can_be_rows(*node->body, graph_.type(matmul.outputs[0]).shape.back(), graph_.ranges());
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

  /// The value that is the left operand as a whole and nothing else of the node; none if the
  /// product reads it through other views than reshapes.
  static std::optional<ValueId> left_operand(const Node& matmul) {
    const Graph& body = *matmul.body;
    for (const Node& node : body.nodes()) {
      if (node.op->name != "MatMul" && node.op->name != "QuantMatMul") continue;
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
    for (const ResultReader& reader : readers(matmul.outputs[0], {})) {
      const Node& node = graph_.node(reader.node);
      const Verdict verdict = may_follow(matmul, reader);
      decide(context_, matmul, node, verdict.ok,
             verdict.ok ? "one step, in one kernel where that is faster" : verdict.reason);
      if (verdict.ok) return reader;
    }
    return std::nullopt;
  }

  std::vector<ResultReader> readers(ValueId value, const std::vector<NodeId>& reshapes) const {
    std::vector<ResultReader> result;
    for (NodeId user : graph_.users(value)) {
      const Node& node = graph_.node(user);
      if (node.op->name == "Reshape") {
        std::vector<NodeId> longer = reshapes;
        longer.push_back(user);
        for (ResultReader& reader : readers(node.outputs[0], longer))
          result.push_back(std::move(reader));
      } else if (is_kind(node, "pointwise") || is_kind(node, "reduction")) {
        result.push_back({user, reshapes, value});
      }
    }
    return result;
  }

  Verdict may_follow(const Node& matmul, const ResultReader& reader) const {
    const Node& node = graph_.node(reader.node);
    if (taken_.count(reader.node) != 0)
      return {false, "'" + describe(node) + "' already belongs to another product"};
    for (const Node& part : matmul.body->nodes())
      if (part.op->name == "Transpose" && matmul.body->producer(matmul.body->outputs()[0]) == &part)
        return {false, "the product is stored through a transpose"};
    const auto read = std::ranges::count(node.inputs, reader.read);
    if (read != 1 || !reads_nothing_else(matmul.outputs[0], reader))
      return {false, "'" + describe(node) + "' reads the product in two ways"};
    if (has_detour(matmul.outputs[0], reader))
      return {false, "a kernel between the two would have to run in the middle"};
    const auto at = std::ranges::find(node.inputs, reader.read);
    const ValueId inner = node.body->inputs()[static_cast<std::size_t>(at - node.inputs.begin())];
    return follows(*node.body, inner, graph_.type(matmul.outputs[0]).shape.back(),
                   is_kind(matmul, "matmul"));
  }

  /// True unless the reader reads another reshape of the product as well.
  bool reads_nothing_else(ValueId result, const ResultReader& reader) const {
    std::size_t ways = 0;
    for (const ResultReader& other : readers(result, {})) ways += other.node == reader.node;
    return ways == 1;
  }

  /// True if the reader also waits for something else that waits for the product. Nodes are in
  /// topological order: none behind the reader is on the way to it.
  bool has_detour(ValueId result, const ResultReader& reader) const {
    std::set<NodeId> seen;
    std::vector<NodeId> open;
    const auto push_users = [&](ValueId value) {
      for (NodeId user : graph_.users(value))
        if (user < reader.node) open.push_back(user);
    };
    push_users(result);
    while (!open.empty()) {
      const NodeId id = open.back();
      open.pop_back();
      if (!seen.insert(id).second) continue;
      const bool on_the_way = std::ranges::find(reader.reshapes, id) != reader.reshapes.end();
      for (ValueId out : graph_.node(id).outputs) {
        const auto& users = graph_.users(out);
        if (!on_the_way && std::ranges::find(users, reader.node) != users.end()) return true;
        push_users(out);
      }
    }
    return false;
  }

  /// True if something else than the reader needs the product.
  bool escapes(ValueId value, const ResultReader& reader) const {
    if (graph_.is_output(value)) return true;
    return std::ranges::any_of(graph_.users(value), [&](NodeId user) {
      if (user == reader.node) return false;
      const auto& way = reader.reshapes;
      if (std::ranges::find(way, user) == way.end()) return true;
      return escapes(graph_.node(user).outputs[0], reader);
    });
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
