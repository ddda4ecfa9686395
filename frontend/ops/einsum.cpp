// SPDX-License-Identifier: Apache-2.0
// Einsum as transposes, sums and products of two operands at a time.
#include <algorithm>
#include <map>
#include <string>

#include "frontend/ops/table/op_table.h"

namespace sinter::frontend {
namespace {

/// Labels of dimensions, in order: letters, and digits for the dimensions of an ellipsis, from its
/// last dimension to its first ("210").
using Labels = std::string;

bool has(const Labels& labels, char label) { return labels.find(label) != Labels::npos; }

struct Operand {
  ValueId value;
  Labels labels;
};

struct Equation {
  std::vector<std::string> inputs;  // as written, without spaces
  std::optional<std::string> output;
};

Equation parse(NodeContext& node) {
  std::string text = node.attr_string("equation");
  std::erase(text, ' ');
  Equation equation;
  std::string left = text;
  if (const auto arrow = text.find("->"); arrow != std::string::npos) {
    equation.output = text.substr(arrow + 2);
    left = text.substr(0, arrow);
  }
  for (std::size_t start = 0; start <= left.size();) {
    const auto comma = std::min(left.find(',', start), left.size());
    equation.inputs.push_back(left.substr(start, comma - start));
    start = comma + 1;
  }
  if (equation.inputs.size() != node.input_count())
    node.invalid("equation '{}' has {} terms for {} inputs", text, equation.inputs.size(),
                 node.input_count());
  return equation;
}

/// The labels of a term whose ellipsis, if any, covers `rest` dimensions.
Labels expand_term(NodeContext& node, const std::string& term, std::size_t rest) {
  Labels labels;
  for (std::size_t i = 0; i < term.size(); ++i) {
    if (term.compare(i, 3, "...") == 0) {
      if (rest > 10) node.unsupported("an ellipsis of more than 10 dimensions");
      for (std::size_t d = rest; d-- > 0;) labels += static_cast<char>('0' + d);
      i += 2;
    } else if (std::isalpha(static_cast<unsigned char>(term[i])) != 0) {
      labels += term[i];
    } else {
      node.invalid("'{}' in the equation is neither a letter nor '...'", term[i]);
    }
  }
  return labels;
}

class Einsum {
 public:
  explicit Einsum(NodeContext& node) : node_(node) {}

  ValueId run() {
    const Equation equation = parse(node_);
    std::size_t widest = 0;
    for (std::size_t i = 0; i < equation.inputs.size(); ++i)
      widest = std::max(widest, read(equation.inputs[i], node_.input(i, "input")));
    output_ = equation.output ? expand_term(node_, *equation.output, widest) : implicit_output();
    align_sizes();
    for (std::size_t i = 0; i < operands_.size(); ++i) take_diagonals(operands_[i]);
    Operand result = operands_[0];
    for (std::size_t i = 1; i < operands_.size(); ++i) result = multiply(result, operands_[i], i);
    return finish(sum_all_but(result, output_));
  }

 private:
  /// Returns the number of dimensions that the term's ellipsis covers.
  std::size_t read(const std::string& term, ValueId value) {
    const bool ellipsis = term.find("...") != std::string::npos;
    const std::size_t letters = term.size() - (ellipsis ? 3 : 0);
    const auto rank = static_cast<std::size_t>(node_.rank(value));
    if (letters > rank || (!ellipsis && letters != rank))
      node_.invalid("term '{}' does not fit {}", term, node_.type(value));
    operands_.push_back({value, expand_term(node_, term, rank - letters)});
    return rank - letters;
  }

  /// Without "->": the ellipsis, then the letters that occur once, in alphabetical order.
  Labels implicit_output() const {
    std::map<char, int> counts;
    for (const Operand& operand : operands_)
      for (const char label : operand.labels) ++counts[label];
    Labels digits, letters;
    for (const auto& [label, count] : counts) {
      if (label <= '9')
        digits.insert(digits.begin(), label);
      else if (count == 1)
        letters += label;
    }
    return digits + letters;
  }

  /// Expands dimensions of size 1 to the size of the same label elsewhere.
  void align_sizes() {
    std::map<char, Dim> sizes;
    for (const Operand& operand : operands_)
      for (std::size_t d = 0; d < operand.labels.size(); ++d) {
        const Dim size = node_.shape(operand.value)[d];
        const auto [known, is_new] = sizes.emplace(operand.labels[d], size);
        if (is_new || known->second == size || size == Dim(1)) continue;
        if (known->second != Dim(1))
          node_.invalid("the dimensions '{}' are of sizes {} and {}", operand.labels[d],
                        known->second, size);
        known->second = size;
      }
    for (Operand& operand : operands_) {
      Shape shape;
      for (const char label : operand.labels) shape.push_back(sizes.at(label));
      operand.value = node_.expand(operand.value, shape);
    }
    for (const char label : output_)
      if (!sizes.contains(label)) node_.invalid("the result's '{}' is in no input", label);
  }

  ValueId in_order(const Operand& operand, const Labels& order) const {
    Ints perm;
    for (const char label : order)
      perm.push_back(static_cast<std::int64_t>(operand.labels.find(label)));
    return node_.transpose(operand.value, perm);
  }

  /// For a repeated label, takes the diagonal: elements with equal indices.
  void take_diagonals(Operand& operand) const {
    for (std::size_t d = 0; d < operand.labels.size();) {
      const auto twin = operand.labels.find(operand.labels[d], d + 1);
      if (twin == Labels::npos) {
        ++d;
        continue;
      }
      Ints perm;
      for (std::size_t i = 0; i < operand.labels.size(); ++i)
        if (i != d && i != twin) perm.push_back(static_cast<std::int64_t>(i));
      perm.push_back(static_cast<std::int64_t>(d));
      perm.push_back(static_cast<std::int64_t>(twin));
      const ValueId last = node_.transpose(operand.value, perm);
      Shape shape = node_.shape(last);
      const Dim size = shape.back();
      if (!size.is_constant()) node_.unsupported("a repeated letter on a symbolic dimension");
      shape.pop_back();
      shape.back() = size * size;
      const ValueId flat = node_.reshape(last, shape);
      shape.back() = size;
      Ints steps(shape.size(), 1);
      steps.back() = size.value() + 1;
      operand.value = node_.add(
          "Slice", {flat},
          {{"starts", std::vector<Dim>(shape.size(), Dim(0))}, {"steps", steps}, {"shape", shape}});
      const char label = operand.labels[d];
      operand.labels.erase(twin, 1);
      operand.labels.erase(d, 1);
      operand.labels += label;
      d = 0;
    }
  }

  Operand sum_all_but(const Operand& operand, const Labels& kept) const {
    Ints axes;
    Labels labels;
    for (std::size_t d = 0; d < operand.labels.size(); ++d) {
      if (has(kept, operand.labels[d]))
        labels += operand.labels[d];
      else
        axes.push_back(static_cast<std::int64_t>(d));
    }
    if (axes.empty()) return operand;
    return {
        node_.add("ReduceSum", {operand.value}, {{"axes", axes}, {"keepdims", std::int64_t{0}}}),
        labels};
  }

  /// Labels of the result and of operands after number `i`.
  Labels needed_after(std::size_t i) const {
    Labels needed = output_;
    for (std::size_t k = i + 1; k < operands_.size(); ++k) needed += operands_[k].labels;
    return needed;
  }

  /// Multiplies the previous result with operand number `i`. That is a matmul [shared.., own of a,
  /// summed] x [shared.., summed, own of b], or element-wise if nothing is summed.
  Operand multiply(const Operand& first, const Operand& second, std::size_t i) const {
    const Labels later = needed_after(i);
    const Operand a = sum_all_but(first, later + second.labels);
    const Operand b = sum_all_but(second, later + first.labels);
    Labels shared, summed, own_a, own_b;
    for (const char label : a.labels)
      (!has(b.labels, label) ? own_a : has(later, label) ? shared : summed) += label;
    for (const char label : b.labels)
      if (!has(a.labels, label)) own_b += label;
    const ValueId left = in_order(a, shared + own_a + summed);
    const ValueId right = in_order(b, shared + summed + own_b);
    const Shape left_shape = node_.shape(left), right_shape = node_.shape(right);
    const auto part = [](const Shape& shape, std::size_t begin, std::size_t count) {
      const auto at = shape.begin() + static_cast<std::ptrdiff_t>(begin);
      return Shape(at, at + static_cast<std::ptrdiff_t>(count));
    };
    const auto join = [](Shape shape, const Shape& more) {
      shape.insert(shape.end(), more.begin(), more.end());
      return shape;
    };
    const Shape batch = part(left_shape, 0, shared.size());
    const Shape rows = part(left_shape, shared.size(), own_a.size());
    const Shape columns = part(right_shape, shared.size() + summed.size(), own_b.size());
    const Dim m = ir::element_count(rows), n = ir::element_count(columns);
    const Dim k = ir::element_count(part(left_shape, shared.size() + own_a.size(), summed.size()));
    const ValueId product = node_.add(
        summed.empty() ? "Mul" : "MatMul",
        {node_.reshape(left, join(batch, {m, k})), node_.reshape(right, join(batch, {k, n}))});
    return {node_.reshape(product, join(join(batch, rows), columns)), shared + own_a + own_b};
  }

  ValueId finish(const Operand& result) const { return in_order(result, output_); }

  NodeContext& node_;
  std::vector<Operand> operands_;
  Labels output_;
};

void einsum(NodeContext& node) { node.output(Einsum(node).run()); }

}  // namespace

const OpRows kEinsumOps = {{"Einsum", 12, einsum, "equation"}};

}  // namespace sinter::frontend
