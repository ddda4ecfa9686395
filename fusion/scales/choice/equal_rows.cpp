// SPDX-License-Identifier: Apache-2.0
#include "fusion/scales/choice/equal_rows.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/affine.h"
#include "ir/scale_format.h"

namespace sinter::fusion {
namespace {

/// A value that depends on the matmul.
struct Followed {
  /// Its size grows with this power of its row's size: 1 for the matmul, 2 for a square. Degree 0
  /// does not depend on the row's size.
  double degree = 1;
  /// For each dimension, whether elements along it belong to one row of the matmul.
  std::vector<bool> is_within;
};

/// Operators whose result is not proportional to their operands, or that depend on their size.
bool sees_size(std::string_view op) {
  constexpr std::string_view kOps[] = {
      "Exp",     "Expm1",      "Log",       "Log1p",      "Sin",        "Cos",       "Sinh",
      "Cosh",    "Asin",       "Acos",      "Atanh",      "Acosh",      "Mod",       "Fmod",
      "BitCast", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "ShiftLeft", "ShiftRight"};
  return std::ranges::find(kOps, op) != std::end(kOps);
}

class RowFollower {
 public:
  explicit RowFollower(const Graph& graph) : graph_(graph) {}

  bool ends_in_norms(ValueId product) {
    std::vector<bool> is_within(graph_.type(product).shape.size());
    is_within.back() = true;
    if (!note(product, {1, std::move(is_within)})) return false;
    while (!next_.empty()) {  // in the graph's order, so that all operands are known
      const Node& node = graph_.node(*next_.begin());
      next_.erase(next_.begin());
      const std::optional<Followed> result = follow(node);
      if (!result || !note(node.outputs[0], *result)) return false;
    }
    return true;
  }

 private:
  /// False if the value's size is visible from outside.
  bool note(ValueId value, Followed followed) {
    if (followed.degree == 0) return true;
    if (graph_.is_output(value)) return false;
    next_.insert(graph_.users(value).begin(), graph_.users(value).end());
    followed_[value] = std::move(followed);
    return true;
  }

  const Followed* find(ValueId value) const {
    const auto found = followed_.find(value);
    return found == followed_.end() ? nullptr : &found->second;
  }

  /// Nothing if the node mixes rows, depends on their size, or is unknown.
  std::optional<Followed> follow(const Node& node) const {
    const std::string& name = node.op->name;
    if (node.outputs.size() != 1) return std::nullopt;
    if (node.op->kind == OpKind::kPointwise) return follow_pointwise(node);
    if (node.op->kind == OpKind::kView) return follow_view(node);
    if (node.op->kind == OpKind::kReduce || name == "Variance") return follow_reduction(node);
    if (name == "LayerNorm" || name == "RmsNorm") return follow_norm(node);
    if (name == "Gather") return follow_gather(node);
    if (name == "MatMul" && !ir::has_scaled_operands(node)) return follow_product(node);
    return std::nullopt;
  }

  std::optional<Followed> follow_pointwise(const Node& node) const {
    const std::optional<double> degree = degree_of(node);
    if (!degree) return std::nullopt;
    const std::size_t rank = graph_.type(node.outputs[0]).shape.size();
    Followed result{*degree, std::vector<bool>(rank, true)};
    for (const ValueId input : node.inputs)
      if (const Followed* own = find(input)) narrow(result.is_within, *own, input);
    return result;
  }

  /// A broadcast dimension of an operand is constant along it.
  void narrow(std::vector<bool>& is_within, const Followed& own, ValueId input) const {
    const Shape& shape = graph_.type(input).shape;
    const std::size_t first = is_within.size() - shape.size();
    for (std::size_t d = 0; d < shape.size(); ++d)
      if (shape[d] != Dim(1) && !own.is_within[d]) is_within[first + d] = false;
  }

  std::optional<double> degree_of(const Node& node) const {
    const std::string& name = node.op->name;
    const auto degree = [&](std::size_t i) {
      const Followed* own = find(node.inputs[i]);
      return own == nullptr ? 0.0 : own->degree;
    };
    constexpr double kHalf = 0.5;
    if (sees_size(name)) return std::nullopt;
    if (name == "Mul") return degree(0) + degree(1);
    if (name == "Div" || name == "Quotient") return degree(0) - degree(1);
    if (name == "Square") return 2 * degree(0);
    if (name == "Sqrt") return kHalf * degree(0);
    if (name == "Rsqrt") return -kHalf * degree(0);
    if (name == "Reciprocal") return -degree(0);
    if (name == "Sign") return 0;
    if (name == "Pow") {
      const auto& exponent = graph_.value(node.inputs[1]).constant;
      if (!exponent || exponent->element_count() != 1) return std::nullopt;
      return degree(0) * exponent->at(0);
    }
    // Selecting by size among values of degree 0 reveals the size.
    std::optional<double> largest;
    for (std::size_t i = name == "Where" ? 1 : 0; i < node.inputs.size(); ++i)
      if (find(node.inputs[i]) != nullptr)
        largest = std::max(largest.value_or(degree(i)), degree(i));
    return largest;
  }

  std::optional<Followed> follow_view(const Node& node) const {
    const TensorType& type = graph_.type(node.outputs[0]);
    Ranges ranges = graph_.ranges();
    const std::vector<Dim> index = ir::index_symbols(type.shape, ranges);
    Followed result{0, std::vector<bool>(type.shape.size(), true)};
    for (const ir::ViewSource& source :
         node.op->view().map(node.attrs, graph_.types(node.inputs), type, index, ranges)) {
      const Followed* own = find(node.inputs[static_cast<std::size_t>(source.input)]);
      if (own == nullptr) continue;
      result.degree = result.degree == 0 ? own->degree : std::max(result.degree, own->degree);
      for (std::size_t d = 0; d < source.index.size(); ++d)
        if (!own->is_within[d]) mark_rows(source.index[d], result.is_within);
    }
    return result;
  }

  /// Dimensions on which `row` depends are not within a row.
  static void mark_rows(const Dim& row, std::vector<bool>& is_within) {
    const std::vector<std::string> symbols = row.symbols();
    for (std::size_t d = 0; d < is_within.size(); ++d)
      if (std::ranges::find(symbols, ir::index_symbol(static_cast<int>(d))) != symbols.end())
        is_within[d] = false;
  }

  std::optional<Followed> follow_reduction(const Node& node) const {
    const Followed& own = *find(node.inputs[0]);
    const std::string& name = node.op->name;
    if (name == "ReduceProd") return std::nullopt;
    const Ints& axes = node.attrs.get_ints("axes");
    Followed result{name == "ReduceSumSquare" || name == "Variance" ? 2 * own.degree : own.degree,
                    {}};
    for (std::size_t d = 0; d < own.is_within.size(); ++d) {
      const bool is_reduced = std::ranges::find(axes, static_cast<std::int64_t>(d)) != axes.end();
      if (is_reduced && !own.is_within[d]) return std::nullopt;
      if (!is_reduced || node.attrs.get_int("keepdims") != 0)
        result.is_within.push_back(is_reduced || own.is_within[d]);
    }
    return result;
  }

  std::optional<Followed> follow_norm(const Node& node) const {
    const Followed* own = find(node.inputs[0]);
    const auto is_followed = [&](ValueId input) { return find(input) != nullptr; };
    if (own == nullptr || std::any_of(node.inputs.begin() + 1, node.inputs.end(), is_followed))
      return std::nullopt;
    const bool is_of_rows = std::all_of(own->is_within.begin() + node.attrs.get_int("axis"),
                                        own->is_within.end(), [](bool within) { return within; });
    if (!is_of_rows) return std::nullopt;
    return Followed{0, {}};
  }

  std::optional<Followed> follow_gather(const Node& node) const {
    const Followed* own = find(node.inputs[0]);
    if (own == nullptr || find(node.inputs[1]) != nullptr) return std::nullopt;
    const auto axis = static_cast<std::size_t>(node.attrs.get_int("axis"));
    Followed result{own->degree, {}};
    for (std::size_t d = 0; d < own->is_within.size(); ++d)
      result.is_within.insert(result.is_within.end(),
                              d == axis ? graph_.type(node.inputs[1]).shape.size() : 1,
                              own->is_within[d]);
    return result;
  }

  std::optional<Followed> follow_product(const Node& node) const {
    const Followed *left = find(node.inputs[0]), *right = find(node.inputs[1]);
    if (left != nullptr && right != nullptr) return std::nullopt;
    const std::size_t operand = left != nullptr ? 0 : 1;
    const Followed* own = left != nullptr ? left : right;
    if (own == nullptr || (operand == 1 && !ir::is_plain_matmul(node))) return std::nullopt;
    // The summed dimension, and the operand's remaining one.
    const std::size_t last = own->is_within.size() - 1;
    const std::size_t summed = operand == 0 ? last : last - 1,
                      kept = operand == 0 ? last - 1 : last;
    if (!own->is_within[summed]) return std::nullopt;
    const std::size_t rank = graph_.type(node.outputs[0]).shape.size();
    Followed result{own->degree, std::vector<bool>(rank, true)};
    narrow(result.is_within, *own, node.inputs[operand]);
    result.is_within[rank - 2] = operand == 0 ? bool{own->is_within[kept]} : true;
    result.is_within[rank - 1] = operand == 0 ? true : bool{own->is_within[kept]};
    return result;
  }

  const Graph& graph_;
  std::map<ValueId, Followed> followed_;
  std::set<NodeId> next_;  // readers of followed values
};

}  // namespace

bool are_rows_made_equal(const Graph& graph, ValueId product) {
  return RowFollower(graph).ends_in_norms(product);
}

}  // namespace sinter::fusion
