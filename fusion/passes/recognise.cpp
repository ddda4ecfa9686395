// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>
#include <string_view>

#include "fusion/passes/passes.h"
#include "fusion/patterns/matcher.h"
#include "fusion/patterns/pattern.h"
#include "fusion/patterns/producer.h"
#include "fusion/regions/rebuild.h"
#include "ir/affine.h"
#include "ir/scale_format.h"

namespace sinter::fusion {
namespace {

/// True for 0, 1, 2, .. along the last dimension.
bool counts_up(const Graph& graph, ValueId value, std::int64_t rows) {
  const auto& constant = graph.value(value).constant;
  if (constant == nullptr) {
    const Shape& shape = graph.type(value).shape;
    Ranges ranges = graph.ranges();
    const std::vector<Dim> index = ir::index_symbols(shape, ranges);
    return !shape.empty() && shape.back() == Dim(rows) &&
           ir::index_of_value(graph, value, index, ranges) == index.back();
  }
  if (constant == nullptr || !is_integer(constant->dtype()) || constant->shape().empty() ||
      constant->shape().back() != rows || constant->element_count() != rows)
    return false;
  for (std::int64_t i = 0; i < rows; ++i)
    if (constant->at_int(i) != i) return false;
  return true;
}

/// If `node` is MatMul(Cast(Equal(ids, 0 1 2 ..)), table): a lookup of the same rows, zero where
/// ids is out of range. Avoids the one-hot matrix.
std::optional<Piece> one_hot_product(const Graph& graph, const Node& node) {
  if (!ir::is_plain_matmul(node)) return std::nullopt;
  const TensorType& table = graph.type(node.inputs[1]);
  if (!graph.is_constant(node.inputs[1]) || table.shape.size() != 2) return std::nullopt;
  const std::int64_t rows = table.shape[0].value();
  const Node* cast = producer_of(graph, node.inputs[0], "Cast");
  const Node* equal = cast != nullptr ? producer_of(graph, cast->inputs[0], "Equal") : nullptr;
  if (equal == nullptr) return std::nullopt;
  const Shape& matrix = graph.type(node.inputs[0]).shape;
  Shape one_each = matrix;
  one_each.back() = Dim(1);
  for (std::size_t side = 0; side < 2; ++side) {
    if (!counts_up(graph, equal->inputs[1 - side], rows)) continue;
    ValueId ids = equal->inputs[side];
    if (const Node* expand = producer_of(graph, ids, "Expand")) ids = expand->inputs[0];
    if (graph.type(ids).shape != one_each) continue;

    Piece piece;
    piece.reads = {ids, node.inputs[1]};
    piece.writes = node.outputs;
    std::vector<std::string> origins = node.origins;
    for (const Node* part : {cast, equal})
      origins.insert(origins.end(), part->origins.begin(), part->origins.end());
    piece.emit = [rows, one_each, origins](GraphBuilder& b, std::span<const ValueId> reads) {
      GraphBuilder::OriginScope scope(b, origins);
      const DType index_type = b.type(reads[0]).dtype, type = b.type(reads[1]).dtype;
      const Shape prefix(one_each.begin(), one_each.end() - 1);
      const ValueId last = b.scalar(index_type, static_cast<double>(rows - 1));
      const ValueId low = b.add("Max", {reads[0], b.scalar(index_type, 0)});
      const ValueId row = b.add("Min", {low, last});
      const ValueId flat = b.add("Reshape", {row}, {{"shape", prefix}});
      const ValueId found = b.add("Gather", {reads[1], flat}, {{"axis", std::int64_t{0}}});
      const ValueId exists = b.add("Equal", {reads[0], row});
      return std::vector{b.add("Where", {exists, found, b.scalar(type, 0)})};
    };
    return piece;
  }
  return std::nullopt;
}

struct ParsedIdiom {
  const Idiom* row = nullptr;
  Pattern pattern, replacement;
};

const std::vector<ParsedIdiom>& parsed_idioms() {
  static const std::vector<ParsedIdiom> parsed = [] {
    std::vector<ParsedIdiom> result;
    for (const Idiom& row : idioms())
      result.push_back({&row, parse_pattern(row.pattern), parse_pattern(row.replacement)});
    return result;
  }();
  return parsed;
}

/// A match at a node as a replacement, if its operator accepts the operands.
class Replacement {
 public:
  Replacement(const Graph& graph, const Node& root, const Match& match)
      : graph_(graph), root_(root), match_(match) {}

  std::optional<Piece> build(const Pattern& target) {
    const TensorType& type = graph_.type(root_.outputs[0]);
    const ir::OpDef& op = ir::get_op(target.name);
    const auto takes = [&](std::string_view attr) {
      return std::ranges::any_of(op.attrs, [&](const ir::AttrSpec& a) { return a.name == attr; });
    };
    if (!match_.space) return std::nullopt;
    Attrs attrs;
    if (takes("axes")) {
      if (!match_.axes) return std::nullopt;
      attrs.set("axes", *match_.axes);
      attrs.set("keepdims", std::int64_t{type.shape.size() == match_.space->shape.size() ? 1 : 0});
    }
    std::size_t first_axis = 0;
    if (takes("axis")) {
      if (!match_.axes || match_.axes->empty()) return std::nullopt;
      const auto& axes = *match_.axes;
      first_axis = static_cast<std::size_t>(axes.front());
      const bool single = op.name == "Softmax";
      // Norms cover all dimensions from the axis on.
      if (single ? axes.size() != 1 : axes.size() != type.shape.size() - first_axis)
        return std::nullopt;
      attrs.set("axis", axes.front());
    }
    if (const auto eps = match_.constants.find("eps"); eps != match_.constants.end()) {
      if (eps->second < 0) return std::nullopt;
      attrs.set("epsilon", eps->second);
    }
    Piece piece;
    piece.writes = root_.outputs;
    std::vector<std::optional<double>> numbers;
    for (std::size_t i = 0; i < target.args.size(); ++i) {
      const Pattern& arg = target.args[i];
      if (arg.kind == Pattern::Kind::kNumber) {
        numbers.emplace_back(arg.number);
        continue;
      }
      const auto& elements = match_.variables.at(arg.name);
      const auto value =
          i == 0 ? whole(elements, type.dtype) : parameter(elements, type, first_axis);
      if (!value) return std::nullopt;
      numbers.emplace_back(std::nullopt);
      piece.reads.push_back(*value);
    }
    piece.emit = [name = op.name, attrs, numbers, dtype = type.dtype,
                  origins = origins(piece.reads)](GraphBuilder& builder,
                                                  std::span<const ValueId> reads) {
      GraphBuilder::OriginScope scope(builder, origins);
      std::vector<ValueId> inputs;
      auto read = reads.begin();
      for (const auto& number : numbers) {
        ValueId input = number ? builder.scalar(dtype, *number) : *read++;
        if (builder.type(input).dtype != dtype)
          input = builder.add("Cast", {input}, {{"to", dtype}});
        inputs.push_back(input);
      }
      return std::vector{builder.add(name, inputs, attrs)};
    };
    return piece;
  }

 private:
  /// The value that is the root's whole operand, preferably in the root's type.
  std::optional<ValueId> whole(const std::vector<Element>& elements, DType type) {
    std::optional<ValueId> result;
    for (const Element& element : elements) {
      const TensorType& own = graph_.type(element.value);
      if (own.shape != match_.space->shape || element.index != match_.space->index) continue;
      if (!result || own.dtype == type) result = element.value;
      if (own.dtype == type) break;
    }
    return result;
  }

  /// A value that broadcasts only along the normalized dimensions.
  std::optional<ValueId> parameter(const std::vector<Element>& elements, const TensorType& type,
                                   std::size_t first_axis) {
    for (const Element& element : elements) {
      const Shape& shape = graph_.type(element.value).shape;
      if (shape.size() > type.shape.size()) continue;
      const std::size_t skip = type.shape.size() - shape.size();
      bool fits = true;
      for (std::size_t d = 0; d < shape.size(); ++d)
        fits = fits &&
               (shape[d] == Dim(1) || (d + skip >= first_axis && shape[d] == type.shape[d + skip] &&
                                       element.index[d] == match_.space->index[d + skip]));
      if (fits) return element.value;
    }
    return std::nullopt;
  }

  /// Origins of all nodes between the root and its inputs.
  std::vector<std::string> origins(const std::vector<ValueId>& reads) const {
    std::vector<std::string> result;
    std::set<ValueId> seen(reads.begin(), reads.end());
    std::vector<ValueId> open{root_.outputs[0]};
    while (!open.empty()) {
      const ValueId value = open.back();
      open.pop_back();
      const Node* node = graph_.producer(value);
      if (node == nullptr || !seen.insert(value).second) continue;
      result.insert(result.end(), node->origins.begin(), node->origins.end());
      open.insert(open.end(), node->inputs.begin(), node->inputs.end());
    }
    return result;
  }

  const Graph& graph_;
  const Node& root_;
  const Match& match_;
};

/// Last operators of idioms: products and sums in any spelling, and named operators.
const std::set<std::string_view>& last_operators() {
  static const std::set<std::string_view> operators = [] {
    std::set<std::string_view> result = {"Mul", "Div",  "Neg",   "Reciprocal", "Square",
                                         "Pow", "Sqrt", "Rsqrt", "Add"};
    for (const ParsedIdiom& idiom : parsed_idioms())
      if (idiom.pattern.kind == Pattern::Kind::kCall) result.insert(idiom.pattern.name);
    return result;
  }();
  return operators;
}

std::optional<Piece> recognise_node(MatchFacts& facts, const Node& node) {
  const Graph& graph = facts.graph();
  if (auto piece = one_hot_product(graph, node)) return piece;
  if (node.op->kind != OpKind::kPointwise || !last_operators().contains(node.op->name) ||
      !is_float(graph.type(node.outputs[0]).dtype))
    return std::nullopt;
  Matcher matcher(facts, node.outputs[0]);
  for (const ParsedIdiom& idiom : parsed_idioms())
    for (const Match& match : matcher.match(idiom.pattern))
      if (auto piece = Replacement(graph, node, match).build(idiom.replacement)) return piece;
  return std::nullopt;
}

}  // namespace

Graph recognise(const Graph& graph, Context& context) {
  // Models take some hundred steps for each node; adversarial ones are only partly matched.
  constexpr std::int64_t kMostSteps = 4'000'000;
  std::vector<Piece> pieces;
  MatchFacts facts(graph);
  for (const Node& node : graph.nodes()) {
    if (facts.steps > kMostSteps) {
      context.notes.push_back(
          "recognise: the search for idioms ended at its limit, after the graph's first "
          "nodes; later nodes are fused as the model spells them");
      break;
    }
    if (auto piece = recognise_node(facts, node)) pieces.push_back(std::move(*piece));
  }
  return rebuild(graph, pieces);
}

}  // namespace sinter::fusion
