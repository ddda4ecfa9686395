#include <algorithm>
#include <set>
#include <string_view>

#include "fusion/passes/passes.h"
#include "fusion/patterns/matcher.h"
#include "fusion/patterns/one_hot.h"
#include "fusion/patterns/pattern.h"
#include "fusion/regions/rebuild.h"

namespace sinter::fusion {
namespace {

using ir::Dim;
using ir::Graph;
using ir::GraphBuilder;
using ir::Node;
using ir::ValueId;

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

/// A match at a node as a replacement, where the operator that it spells can take it.
class Replacement {
 public:
  Replacement(const Graph& graph, const Node& root, const Match& match)
      : graph_(graph), root_(root), match_(match) {}

  std::optional<Piece> build(const Pattern& target) {
    const ir::TensorType& type = graph_.type(root_.outputs[0]);
    const ir::OpDef& op = ir::get_op(target.name);
    const auto takes = [&](std::string_view attr) {
      return std::any_of(op.attrs.begin(), op.attrs.end(),
                         [&](const ir::AttrSpec& a) { return a.name == attr; });
    };
    if (!match_.space) return std::nullopt;
    ir::Attrs attrs;
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
      // Normalisations run over all dimensions from the axis on.
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
  /// The value that is the root's operand as a whole, best in the root's own type.
  std::optional<ValueId> whole(const std::vector<Element>& elements, DType type) {
    std::optional<ValueId> result;
    for (const Element& element : elements) {
      const ir::TensorType& own = graph_.type(element.value);
      if (own.shape != match_.space->shape || element.index != match_.space->index) continue;
      if (!result || own.dtype == type) result = element.value;
      if (own.dtype == type) break;
    }
    return result;
  }

  /// A value that broadcasts along the normalised dimensions only.
  std::optional<ValueId> parameter(const std::vector<Element>& elements, const ir::TensorType& type,
                                   std::size_t first_axis) {
    for (const Element& element : elements) {
      const ir::Shape& shape = graph_.type(element.value).shape;
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

  /// Origins of everything between the root and what is read.
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

/// Operators that some idiom ends with: products and sums in any spelling, and calls by name.
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
  if (node.op->kind != ir::OpKind::kPointwise || !last_operators().contains(node.op->name) ||
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
  // Models take some hundred steps a node; one that is made to take more is recognised in part.
  constexpr std::int64_t kMostSteps = 4'000'000;
  std::vector<Piece> pieces;
  MatchFacts facts(graph);
  for (const Node& node : graph.nodes()) {
    if (facts.steps > kMostSteps) {
      context.notes.push_back(
          "recognise: the graph has so many ways to match that idioms were looked for in its first "
          "nodes only; what is behind them is fused as it is spelled");
      break;
    }
    if (auto piece = recognise_node(facts, node)) pieces.push_back(std::move(*piece));
  }
  return rebuild(graph, pieces);
}

}  // namespace sinter::fusion
