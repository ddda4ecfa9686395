// SPDX-License-Identifier: Apache-2.0
#include "fusion/patterns/matcher.h"

#include <algorithm>
#include <cmath>

#include "fusion/regions/rebuild.h"
#include "ir/affine.h"

namespace sinter::fusion {
namespace {

constexpr int kMaxSteps = 20000;
constexpr int kMaxChain = 16;

std::string_view reduce_of(std::string_view pattern) {
  if (pattern == "RowMean") return "ReduceMean";
  if (pattern == "RowSum") return "ReduceSum";
  if (pattern == "RowMax") return "ReduceMax";
  return "";
}

/// True if every variable of the pattern is inside a reduction.
bool is_per_row(const Pattern& pattern) {
  if (pattern.kind == Pattern::Kind::kVariable) return false;
  if (pattern.kind == Pattern::Kind::kCall && !reduce_of(pattern.name).empty()) return true;
  bool result = !pattern.args.empty();
  for (const Pattern& arg : pattern.args)
    result = result && (arg.kind == Pattern::Kind::kAnyConstant ||
                        arg.kind == Pattern::Kind::kNumber || is_per_row(arg));
  return result;
}

/// True if an element of `view` is always one element of its operand.
bool is_plain(const Graph& graph, const Node& view) {
  if (view.op->kind != OpKind::kView || view.inputs.size() != 1) return false;
  if (view.op->name != "Pad" && view.op->name != "Unfold") return true;
  const TensorType& output = graph.type(view.outputs[0]);
  const TensorType input = graph.type(view.inputs[0]);
  const std::vector<Dim> first(output.shape.size(), Dim(0));
  const auto sources = view.op->view().map(view.attrs, {&input, 1}, output, first, graph.ranges());
  return sources.size() == 1 && sources[0].guards.empty();
}

}  // namespace

std::optional<ValueId> behind_view(const Graph& graph, ValueId value) {
  const Node* node = graph.producer(value);
  if (node == nullptr) return std::nullopt;
  const bool is_cast = node->op->name == "Cast" &&
                       is_arithmetic_float(graph.type(node->inputs[0]).dtype) &&
                       is_arithmetic_float(graph.type(value).dtype);
  if (!is_cast && !is_plain(graph, *node)) return std::nullopt;
  return node->inputs[0];
}

std::optional<double> MatchFacts::number_of(ValueId value) {
  if (graph_.value(value).constant == nullptr) return std::nullopt;
  const auto [known, is_new] = numbers_.emplace(value, std::nullopt);
  if (is_new) known->second = splat_value(graph_, value);
  return known->second;
}

std::optional<double> MatchFacts::folded(ValueId root, Fold how) {
  // An explicit stack: products and sums may be as long as the model.
  std::vector<Key> open{{root, how}};
  while (!open.empty()) {
    const Key key = open.back();
    if (folded_.count(key) != 0) {
      open.pop_back();
      continue;
    }
    const auto [value, fold] = key;
    const auto finish = [&, at = key](std::optional<double> result) {
      folded_[at] = result;
      open.pop_back();
    };
    ValueId end = value;
    for (int step = 1; step < kMaxChain; ++step) {
      const auto next = behind_view(graph_, end);
      if (!next) break;
      end = *next;
    }
    if (const auto number = number_of(end)) {
      finish(fold == Fold::kInverse ? 1 / *number : *number);
      continue;
    }
    const Node* node = graph_.producer(end);
    const std::string_view op = node != nullptr ? std::string_view(node->op->name) : "";
    const Fold other = fold == Fold::kProduct ? Fold::kInverse : Fold::kProduct;
    std::vector<Key> operands;
    if (fold == Fold::kSum) {
      if (op == "Add") operands = {{node->inputs[0], fold}, {node->inputs[1], fold}};
    } else if (op == "Mul") {
      operands = {{node->inputs[0], fold}, {node->inputs[1], fold}};
    } else if (op == "Div") {
      operands = {{node->inputs[0], fold}, {node->inputs[1], other}};
    } else if (op == "Neg") {
      operands = {{node->inputs[0], fold}};
    } else if (op == "Reciprocal") {
      operands = {{node->inputs[0], other}};
    }
    if (operands.empty()) {
      finish(std::nullopt);
      continue;
    }
    std::vector<double> numbers;
    bool is_known = true;
    for (const Key& operand : operands) {
      const auto known = folded_.find(operand);
      if (known == folded_.end()) {
        is_known = false;
        open.push_back(operand);
        break;
      }
      if (!known->second) break;
      numbers.push_back(*known->second);
    }
    if (!is_known) continue;
    if (numbers.size() < operands.size())
      finish(std::nullopt);
    else if (op == "Neg")
      finish(-numbers[0]);
    else if (numbers.size() == 1)
      finish(numbers[0]);
    else
      finish(fold == Fold::kSum ? numbers[0] + numbers[1] : numbers[0] * numbers[1]);
  }
  return folded_.at({root, how});
}

class Matcher::Impl {
 public:
  Impl(MatchFacts& facts, ValueId root)
      : facts_(facts), graph_(facts.graph()), ranges_(graph_.ranges()) {
    const Shape& shape = graph_.type(root).shape;
    root_.value = root;
    root_.index = ir::index_symbols(shape, ranges_);
    for (std::size_t d = 0; d < shape.size(); ++d)
      if (shape[d] == Dim(1)) root_.index[d] = Dim(0);
  }

  std::vector<Match> match(const Pattern& pattern) {
    budget_ = kMaxSteps;
    Match start;
    if (!is_per_row(pattern)) start.space = Space{graph_.type(root_.value).shape, root_.index};
    std::vector<Match> found = match_at(pattern, root_, start);
    facts_.steps += kMaxSteps - std::max(budget_, 0);
    return found;
  }

 private:
  using Matches = std::vector<Match>;
  /// A match with the constant factor (or term) found in it.
  struct Weighted {
    Match match;
    double constant = 0;
  };
  using WeightedMatches = std::vector<Weighted>;
  using Parts = std::vector<const Pattern*>;

  /// `element`, followed by what it reads through views and casts between floats.
  const std::vector<Element>& chain(const Element& element) {
    const auto [known, is_new] = chains_.emplace(element, std::vector<Element>{});
    std::vector<Element>& result = known->second;
    if (!is_new) return result;
    result.push_back(element);
    while (static_cast<int>(result.size()) < kMaxChain) {
      const Element& last = result.back();
      const Node* node = node_of(last);
      if (node == nullptr) break;
      if (node->op->name == "Cast" && is_arithmetic_float(graph_.type(node->inputs[0]).dtype) &&
          is_arithmetic_float(graph_.type(last.value).dtype)) {
        result.push_back({node->inputs[0], last.index});
        continue;
      }
      if (node->op->kind != OpKind::kView || node->inputs.size() != 1) break;
      const TensorType input = graph_.type(node->inputs[0]);
      auto sources = node->op->view().map(node->attrs, {&input, 1}, graph_.type(last.value),
                                          last.index, ranges_);
      if (sources.size() != 1 || !sources[0].guards.empty()) break;
      for (std::size_t d = 0; d < input.shape.size(); ++d)
        if (input.shape[d] == Dim(1)) sources[0].index[d] = Dim(0);
      result.push_back({node->inputs[0], std::move(sources[0].index)});
    }
    return result;
  }

  const Node* node_of(const Element& element) const { return graph_.producer(element.value); }

  Element operand(const Node& node, std::size_t i, const Element& at) const {
    const ValueId input = node.inputs[i];
    const Shape& shape = graph_.type(input).shape;
    Element result{input, {}};
    const std::size_t skip = at.index.size() - shape.size();
    for (std::size_t d = 0; d < shape.size(); ++d)
      result.index.push_back(shape[d] == Dim(1) ? Dim(0) : at.index[d + skip]);
    return result;
  }

  std::optional<double> number_of(const Element& element) {
    return facts_.number_of(element.value);
  }

  bool close(double found, double wanted, const Element& at) const {
    // Exporters write constants with as few as six digits; float16 has three.
    const DType dtype = graph_.type(at.value).dtype;
    const double tolerance = dtype == DType::kBFloat16  ? 8e-3
                             : dtype == DType::kFloat16 ? 1e-3
                                                        : 2e-5;
    return std::abs(found - wanted) <= tolerance * std::max(1e-30, std::abs(wanted));
  }

  Matches match_at(const Pattern& pattern, const Element& at, const Match& sofar) {
    if (--budget_ < 0) return {};
    switch (pattern.kind) {
      case Pattern::Kind::kVariable: return match_variable(pattern, at, sofar);
      case Pattern::Kind::kAnyConstant:
      case Pattern::Kind::kNumber: {
        const auto number = number_of(chain(at).back());
        if (!number) return {};
        if (pattern.kind == Pattern::Kind::kNumber)
          return close(*number, pattern.number, at) ? Matches{sofar} : Matches{};
        const auto known = sofar.constants.find(pattern.name);
        if (known != sofar.constants.end())
          return close(*number, known->second, at) ? Matches{sofar} : Matches{};
        Match next = sofar;
        next.constants[pattern.name] = *number;
        return {next};
      }
      case Pattern::Kind::kCall: return match_call(pattern, at, sofar);
      case Pattern::Kind::kProduct: {
        Parts parts;
        for (const Pattern& arg : pattern.args) parts.push_back(&arg);
        Matches result;
        for (Weighted& found : products(parts, at, false, sofar))
          if (close(found.constant, pattern.number, at)) result.push_back(std::move(found.match));
        return result;
      }
      case Pattern::Kind::kSum: {
        Parts parts;
        const Pattern* any = nullptr;
        for (const Pattern& arg : pattern.args) {
          if (arg.kind == Pattern::Kind::kAnyConstant)
            any = &arg;
          else
            parts.push_back(&arg);
        }
        Matches result;
        for (Weighted& found : sums(parts, at, sofar)) {
          if (any == nullptr) {
            if (close(found.constant, pattern.number, at)) result.push_back(std::move(found.match));
            continue;
          }
          const auto known = found.match.constants.find(any->name);
          if (known == found.match.constants.end())
            found.match.constants[any->name] = found.constant;
          else if (!close(found.constant, known->second, at))
            continue;
          result.push_back(std::move(found.match));
        }
        return result;
      }
    }
    return {};
  }

  Matches match_variable(const Pattern& pattern, const Element& at, const Match& sofar) {
    const std::vector<Element>& elements = chain(at);
    const auto known = sofar.variables.find(pattern.name);
    if (known == sofar.variables.end()) {
      Match next = sofar;
      next.variables[pattern.name] = elements;
      return {next};
    }
    if (!(known->second.back() == elements.back())) return {};
    // Several paths lead to one element; each may be usable.
    Match next = sofar;
    auto& all = next.variables[pattern.name];
    for (const Element& element : elements)
      if (std::ranges::find(all, element) == all.end()) all.insert(all.end() - 1, element);
    return {next};
  }

  Matches match_call(const Pattern& pattern, const Element& at, const Match& sofar) {
    if (!reduce_of(pattern.name).empty()) return match_reduce(pattern, at, sofar);
    const Element end = chain(at).back();
    if (pattern.name == "Inverse" || pattern.name == "Rsqrt") {
      Matches result;
      for (Weighted& found : factor(pattern, end, false, sofar))
        if (found.constant == 1) result.push_back(std::move(found.match));
      return result;
    }
    const Node* node = node_of(end);
    if (node == nullptr || node->op->kind != OpKind::kPointwise || node->op->name != pattern.name ||
        node->inputs.size() != pattern.args.size())
      return {};
    Matches result;
    const int orders = node->op->commutative ? 2 : 1;
    for (int order = 0; order < orders; ++order) {
      Matches partial{sofar};
      for (std::size_t i = 0; i < pattern.args.size(); ++i) {
        const std::size_t from = order == 1 && i < 2 ? 1 - i : i;
        Matches next;
        for (const Match& match : partial)
          for (Match& found : match_at(pattern.args[i], operand(*node, from, end), match))
            next.push_back(std::move(found));
        partial = std::move(next);
      }
      for (Match& match : partial) result.push_back(std::move(match));
    }
    return result;
  }

  /// The space of a pattern that is matched at a row's result: rows as the root enumerates
  /// them.
  std::optional<Space> space_of(const Node& reduce, const Element& at) {
    if (at.index != root_.index || graph_.type(at.value).shape != graph_.type(root_.value).shape)
      return std::nullopt;
    Space space{graph_.type(reduce.inputs[0]).shape, {}};
    const auto& axes = reduce.attrs.get_ints("axes");
    const bool keepdims = reduce.attrs.get_int("keepdims") != 0;
    std::size_t position = 0;
    for (std::size_t d = 0; d < space.shape.size(); ++d) {
      if (std::ranges::find(axes, static_cast<std::int64_t>(d)) == axes.end()) {
        space.index.push_back(root_.index[position++]);
        continue;
      }
      position += keepdims ? 1 : 0;
      // After the symbols of the root's own index.
      const std::string symbol = ir::index_symbol(static_cast<int>(root_.index.size() + d));
      Range range;
      range.min = 0;
      range.symbolic_max = std::make_shared<const Dim>(space.shape[d] - Dim(1));
      ranges_.insert_or_assign(symbol, std::move(range));
      space.index.push_back(space.shape[d] == Dim(1) ? Dim(0) : Dim::symbol(symbol));
    }
    return space;
  }

  Matches match_reduce(const Pattern& pattern, const Element& at, const Match& sofar) {
    const Element end = chain(at).back();
    const Node* node = node_of(end);
    if (node == nullptr) return {};
    if (node->op->name != reduce_of(pattern.name)) {
      // A mean may be a sum times 1/n.
      if (pattern.name != "RowMean" || node->op->kind != OpKind::kPointwise) return {};
      const Pattern sum{Pattern::Kind::kCall, "RowSum", 0, pattern.args};
      Matches result;
      for (Weighted& found : products({&sum}, end, false, sofar)) {
        Dim count(1);
        for (std::int64_t axis : found.match.axes.value_or(Ints{}))
          count = count * found.match.space->shape[static_cast<std::size_t>(axis)];
        if (count.is_constant() &&
            close(found.constant * static_cast<double>(count.value()), 1, at))
          result.push_back(std::move(found.match));
      }
      return result;
    }
    const auto& axes = node->attrs.get_ints("axes");
    Match next = sofar;
    if (!next.space) next.space = space_of(*node, end);
    if (!next.space || graph_.type(node->inputs[0]).shape != next.space->shape ||
        (sofar.axes && *sofar.axes != axes))
      return {};
    const bool keepdims = node->attrs.get_int("keepdims") != 0;
    std::size_t position = 0;
    for (std::size_t d = 0; d < next.space->shape.size(); ++d) {
      const bool reduced = std::ranges::find(axes, static_cast<std::int64_t>(d)) != axes.end();
      if (!reduced && !(end.index[position] == next.space->index[d])) return {};
      if (!reduced || keepdims) ++position;
    }
    next.axes = axes;
    return match_at(pattern.args[0], {node->inputs[0], next.space->index}, next);
  }

  /// 1 / inner
  Matches match_inverse(const Pattern& inner, const Element& at, const Match& sofar) {
    const Pattern inverse{Pattern::Kind::kCall, "Inverse", 0, {inner}};
    return match_call(inverse, at, sofar);
  }

  WeightedMatches products(const Parts& parts, const Element& at, bool inverted,
                           const Match& sofar) {
    if (--budget_ < 0) return {};
    using Fold = MatchFacts::Fold;
    if (parts.empty()) {
      const auto number = facts_.folded(at.value, inverted ? Fold::kInverse : Fold::kProduct);
      return number ? WeightedMatches{{sofar, *number}} : WeightedMatches{};
    }
    const Element end = chain(at).back();
    WeightedMatches result;
    // A variable binds the element itself, before views are followed.
    if (parts.size() == 1)
      for (Weighted& found : factor(
               *parts[0], parts[0]->kind == Pattern::Kind::kVariable ? at : end, inverted, sofar))
        result.push_back(std::move(found));
    const Node* node = node_of(end);
    if (node == nullptr || node->op->kind != OpKind::kPointwise) return result;
    const std::string& op = node->op->name;
    if (op == "Mul" || op == "Div") {
      const bool right_inverted = op == "Div" ? !inverted : inverted;
      const auto is_constant = [&](std::size_t operand, bool invert) {
        return facts_.folded(node->inputs[operand], invert ? Fold::kInverse : Fold::kProduct)
            .has_value();
      };
      const std::size_t splits = std::size_t{1} << parts.size();
      for (std::size_t split = 0; split < splits; ++split) {
        // A side without parts must be a constant; most are not.
        if ((split == 0 && !is_constant(0, inverted)) ||
            (split + 1 == splits && !is_constant(1, right_inverted)))
          continue;
        Parts left, right;
        for (std::size_t i = 0; i < parts.size(); ++i)
          ((split >> i) & 1 ? left : right).push_back(parts[i]);
        for (const Weighted& l : products(left, operand(*node, 0, end), inverted, sofar))
          for (Weighted& r : products(right, operand(*node, 1, end), right_inverted, l.match))
            result.push_back({std::move(r.match), l.constant * r.constant});
      }
    } else if (op == "Neg") {
      for (Weighted& found : products(parts, operand(*node, 0, end), inverted, sofar))
        result.push_back({std::move(found.match), -found.constant});
    } else if (op == "Reciprocal") {
      for (Weighted& found : products(parts, operand(*node, 0, end), !inverted, sofar))
        result.push_back(std::move(found));
    } else if (!inverted && (op == "Square" || op == "Pow")) {
      const auto exponent =
          op == "Square" ? std::optional(2.0) : number_of(chain(operand(*node, 1, end)).back());
      if (exponent && *exponent >= 2 && *exponent == static_cast<double>(parts.size())) {
        Matches partial{sofar};
        for (const Pattern* part : parts) {
          Matches next;
          for (const Match& match : partial)
            for (Match& found : match_at(*part, operand(*node, 0, end), match))
              next.push_back(std::move(found));
          partial = std::move(next);
        }
        for (Match& match : partial) result.push_back({std::move(match), 1.0});
      }
    }
    return result;
  }

  /// Matches a factor of a product, with its constant.
  WeightedMatches factor(const Pattern& pattern, const Element& at, bool inverted,
                         const Match& sofar) {
    WeightedMatches result;
    const auto append = [&](Matches found) {
      for (Match& match : found) result.push_back({std::move(match), 1.0});
    };
    const bool is_call = pattern.kind == Pattern::Kind::kCall;
    if (is_call && pattern.name == "Inverse") {
      if (inverted) {
        append(match_at(pattern.args[0], at, sofar));
        return result;
      }
      const Node* node = node_of(at);
      if (node == nullptr) return {};
      if (node->op->name == "Reciprocal")
        append(match_at(pattern.args[0], operand(*node, 0, at), sofar));
      if (node->op->name == "Div" && number_of(chain(operand(*node, 0, at)).back()) == 1.0)
        append(match_at(pattern.args[0], operand(*node, 1, at), sofar));
      return result;
    }
    if (is_call && pattern.name == "Rsqrt") {
      const Node* node = node_of(at);
      if (node == nullptr) return {};
      const Pattern& inner = pattern.args[0];
      const std::string& op = node->op->name;
      const double exponent =
          op == "Pow" ? number_of(chain(operand(*node, 1, at)).back()).value_or(0) : 0;
      const bool is_root = op == "Sqrt" || exponent == 0.5;
      const bool is_inverse_root = op == "Rsqrt" || exponent == -0.5;
      if (inverted ? is_root : is_inverse_root) {
        append(match_at(inner, operand(*node, 0, at), sofar));
      } else if (!inverted && is_root) {
        append(match_inverse(inner, operand(*node, 0, at), sofar));
      } else if (!inverted && op == "Reciprocal") {
        return factor(pattern, chain(operand(*node, 0, at)).back(), true, sofar);
      } else if (!inverted && op == "Div" &&
                 number_of(chain(operand(*node, 0, at)).back()) == 1.0) {
        return factor(pattern, chain(operand(*node, 1, at)).back(), true, sofar);
      }
      return result;
    }
    if (!inverted) append(match_at(pattern, at, sofar));
    return result;
  }

  WeightedMatches sums(const Parts& parts, const Element& at, const Match& sofar) {
    if (--budget_ < 0) return {};
    if (parts.empty()) {
      const auto number = facts_.folded(at.value, MatchFacts::Fold::kSum);
      return number ? WeightedMatches{{sofar, *number}} : WeightedMatches{};
    }
    const Element end = chain(at).back();
    WeightedMatches result;
    if (parts.size() == 1) {
      const bool variable = parts[0]->kind == Pattern::Kind::kVariable;
      for (Match& match : match_at(*parts[0], variable ? at : end, sofar))
        result.push_back({std::move(match), 0.0});
    }
    const Node* node = node_of(end);
    if (node == nullptr || node->op->name != "Add") return result;
    const auto is_constant = [&](std::size_t operand) {
      return facts_.folded(node->inputs[operand], MatchFacts::Fold::kSum).has_value();
    };
    const std::size_t splits = std::size_t{1} << parts.size();
    for (std::size_t split = 0; split < splits; ++split) {
      if ((split == 0 && !is_constant(0)) || (split + 1 == splits && !is_constant(1))) continue;
      Parts left, right;
      for (std::size_t i = 0; i < parts.size(); ++i)
        ((split >> i) & 1 ? left : right).push_back(parts[i]);
      for (const Weighted& l : sums(left, operand(*node, 0, end), sofar))
        for (Weighted& r : sums(right, operand(*node, 1, end), l.match))
          result.push_back({std::move(r.match), l.constant + r.constant});
    }
    return result;
  }

  struct Before {
    bool operator()(const Element& a, const Element& b) const {
      return a.value != b.value ? a.value < b.value : a.index < b.index;
    }
  };

  MatchFacts& facts_;
  const Graph& graph_;
  Ranges ranges_;
  Element root_;
  int budget_ = 0;  // steps left until the match is abandoned
  std::map<Element, std::vector<Element>, Before> chains_;
};

Matcher::Matcher(MatchFacts& facts, ValueId root) : impl_(std::make_unique<Impl>(facts, root)) {}
Matcher::~Matcher() = default;
std::vector<Match> Matcher::match(const Pattern& pattern) { return impl_->match(pattern); }

}  // namespace sinter::fusion
