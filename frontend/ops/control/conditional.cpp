// SPDX-License-Identifier: Apache-2.0
#include "frontend/ops/control/conditional.h"

#include <algorithm>

#include <fmt/format.h>

#include "frontend/ops/control/while_body.h"

namespace sinter::frontend {
namespace {

/// The model's scalar bool input from which `condition` is a view; nullopt if it is none.
std::optional<ValueId> flag_behind(NodeContext& node, ValueId condition) {
  ValueId value = condition;
  for (const ir::Node* from; (from = node.builder().producer(value)) != nullptr;) {
    if (from->op->name != "Reshape") return std::nullopt;
    value = from->inputs[0];
  }
  if (node.builder().constant_of(value) != nullptr || node.dtype(value) != DType::kBool ||
      ir::element_count(node.shape(value)) != Dim(1))
    return std::nullopt;
  return value;
}

/// For a comparison of sizes: 1 if `condition` is true, else 0.
std::optional<Dim> condition_on_sizes(NodeContext& node, ValueId condition) {
  const ir::Node* test = node.builder().producer(condition);
  if (test == nullptr || test->inputs.size() != 2) return std::nullopt;
  const std::string op = test->op->name;
  const bool is_less = op.starts_with("Less"), or_equal = op.ends_with("OrEqual");
  if (!is_less && !op.starts_with("Greater")) return std::nullopt;
  const auto left = node.folder().contents(test->inputs[0]),
             right = node.folder().contents(test->inputs[1]);
  if (!left || !right || left->size() != 1 || right->size() != 1) return std::nullopt;
  const Dim more = is_less ? right->front() - left->front() : left->front() - right->front();
  const ir::Ranges& ranges = node.builder().ranges();
  return ir::min(ir::max(more + Dim(or_equal ? 1 : 0), 0, ranges), 1, ranges);
}

/// `longer` without some of its dimensions of 1, so that it has the rank of `shorter` and differs
/// from it in one dimension at most; nullopt if there is no such shape.
std::optional<Shape> without_ones(const Shape& longer, const Shape& shorter) {
  if (longer.size() == shorter.size()) {
    std::size_t different = 0;
    for (std::size_t d = 0; d < longer.size(); ++d) different += longer[d] != shorter[d] ? 1 : 0;
    return different <= 1 ? std::optional(longer) : std::nullopt;
  }
  for (std::size_t d = 0; d < longer.size() && longer.size() > shorter.size(); ++d) {
    if (longer[d] != Dim(1)) continue;
    Shape less = longer;
    less.erase(less.begin() + static_cast<std::ptrdiff_t>(d));
    if (auto found = without_ones(less, shorter)) return found;
  }
  return std::nullopt;
}

/// Gives `a` and `b`, which branches make for output `i`, one rank: a value has one here.
void align_ranks(NodeContext& node, std::size_t i, ValueId& a, ValueId& b) {
  ValueId& longer = node.rank(a) > node.rank(b) ? a : b;
  const ValueId shorter = node.rank(a) > node.rank(b) ? b : a;
  constexpr std::int64_t kMostRank = 8;
  if (node.rank(a) == node.rank(b) || node.rank(longer) > kMostRank) return;
  const auto shape = without_ones(node.shape(longer), node.shape(shorter));
  if (!shape) return;
  node.assume("its branches make {} and {} for output {}: the first is taken as {}",
              node.type(longer), node.type(shorter), i, *shape);
  longer = node.reshape(longer, *shape);
}

/// Selects `a` if `is_a` is 1, else `b`, whose size along `axis` differs: short and long texts have
/// tables of angles of different lengths. The result is a view of both.
ValueId select_part(NodeContext& node, const Dim& is_a, ValueId a, ValueId b, std::size_t axis) {
  const Shape of_a = node.shape(a), of_b = node.shape(b);
  std::vector<Dim> starts(of_a.size(), Dim(0));
  starts[axis] = of_a[axis] * (Dim(1) - is_a);
  Shape own = of_a;
  own[axis] = of_b[axis] + (of_a[axis] - of_b[axis]) * is_a;
  return node.add("Slice", {node.concat({a, b}, static_cast<std::int64_t>(axis))},
                  {{"starts", starts}, {"steps", Ints(own.size(), 1)}, {"shape", own}});
}

/// Whether an If becomes a branch, instead of computing both bodies and selecting. On a GPU a
/// branch costs as much as 20 MB of memory traffic. Small bodies of pointwise operators fuse to one
/// kernel, so they are computed and selected.
bool takes_branch(const ir::GraphBuilder& builder, std::span<const ir::Node* const> nodes) {
  constexpr std::size_t kMostOperators = 32;
  constexpr std::int64_t kMostElements = 1 << 18;
  // Sizes that the body determines are needed outside.
  if (std::ranges::any_of(nodes, [](auto* node) { return node->op->kind == ir::OpKind::kExtent; }))
    return false;
  const auto is_cheap = [&](const ir::Node* node) {
    if (node->op->kind != ir::OpKind::kPointwise && node->op->kind != ir::OpKind::kView)
      return false;
    const Dim elements = ir::element_count(builder.type(node->outputs[0]).shape);
    const auto most = ir::upper_bound(elements, builder.ranges());
    return most && *most <= kMostElements;
  };
  return nodes.size() > kMostOperators || !std::ranges::all_of(nodes, is_cheap);
}

/// The outputs of an If that executes only one of the branches `yes` and `no`; each output has a
/// value in both.
std::vector<ValueId> take_branch(NodeContext& node, ValueId condition, WhileBody& yes,
                                 WhileBody& no, const std::vector<ValueId>& then_values,
                                 const std::vector<ValueId>& else_values) {
  const auto is_made = [&](ValueId value) { return yes.made(value); };
  std::vector<ValueId> results(then_values.size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    const ValueId a = then_values[i], b = else_values[i];
    if (!is_made(b))
      results[i] = is_made(a) || a == b ? b : node.add("Where", {condition, a, b});
    else
      results[i] = is_made(a) ? node.expand(node.constant(node.dtype(a), 0), node.shape(a)) : a;
  }
  const auto run = [&](WhileBody& branch, ValueId when, const std::vector<ValueId>& values) {
    std::vector<ValueId> otherwise, made;
    for (std::size_t i = 0; i < values.size(); ++i)
      if (is_made(values[i])) {
        otherwise.push_back(results[i]);
        made.push_back(values[i]);
      }
    if (made.empty()) return;
    const std::vector<ValueId> found = branch.finish_branch(when, otherwise, made);
    for (std::size_t i = 0, next = 0; i < values.size(); ++i)
      if (is_made(values[i])) results[i] = found[next++];
  };
  run(yes, condition, then_values);
  run(no, node.add("Not", {condition}), else_values);
  return results;
}

}  // namespace

std::optional<std::size_t> only_difference(const ir::TensorType& a, const ir::TensorType& b) {
  if (a.dtype != b.dtype || a.shape.size() != b.shape.size()) return std::nullopt;
  std::optional<std::size_t> found;
  for (std::size_t d = 0; d < a.shape.size(); ++d) {
    if (a.shape[d] == b.shape[d]) continue;
    if (found) return std::nullopt;
    found = d;
  }
  return found;
}

std::optional<bool> known_condition(NodeContext& node, ValueId condition) {
  if (node.dtype(condition) != DType::kBool)
    node.invalid("its condition must be bool, but is {}", node.type(condition));
  const auto contents = node.folder().contents(condition);
  if (contents && contents->size() == 1 && contents->front().is_constant())
    return contents->front().value() != 0;
  return std::nullopt;
}

void if_then_else(NodeContext& node) {
  const ValueId condition = node.input(0, "cond");
  if (const auto known = known_condition(node, condition)) {
    const char* branch = *known ? "then_branch" : "else_branch";
    const auto values = node.subgraph(branch, {});
    node.keep_body_texts(0, false);
    for (std::size_t i = 0; values && i < values->size(); ++i) node.output(i, (*values)[i]);
    return;
  }
  WhileBody yes(node);
  const auto then_values = node.subgraph("then_branch", {}, "/then");
  WhileBody no(node);
  const auto else_values = node.subgraph("else_branch", {}, "/else");
  if (!then_values || !else_values) return;
  node.keep_body_texts(0, false);
  if (then_values->size() != else_values->size())
    node.invalid("its branches have {} and {} outputs", then_values->size(), else_values->size());
  const ValueId flag = node.reshape(condition, {});
  const auto have_type = [&](ValueId a, ValueId b) { return node.type(a) == node.type(b); };
  std::vector<ValueId> all = *then_values;
  all.insert(all.end(), else_values->begin(), else_values->end());
  if (std::ranges::equal(*then_values, *else_values, have_type) &&
      takes_branch(node.builder(), yes.nodes_of(all))) {
    const auto values = take_branch(node, flag, yes, no, *then_values, *else_values);
    for (std::size_t i = 0; i < values.size(); ++i) node.output(i, values[i]);
    return;
  }
  for (std::size_t i = 0; i < then_values->size(); ++i) {
    if (!node.output_is_used(i)) continue;
    ValueId a = (*then_values)[i], b = (*else_values)[i];
    align_ranks(node, i, a, b);
    auto is_a = condition_on_sizes(node, condition);
    const auto axis = only_difference(node.type(a), node.type(b));
    // The run determines the size.
    if (!is_a && axis && !flag_behind(node, condition))
      is_a = node.size_from_data(node.cast(flag, DType::kInt64), Dim(1), "/condition");
    if (is_a && axis) {
      node.output(i, select_part(node, *is_a, a, b, *axis));
      continue;
    }
    if (node.type(a) != node.type(b)) {
      std::string why = fmt::format(
          "its condition depends on the data of the model's inputs, and its branches make {} and "
          "{} for output {}: both are computed and one is selected, so they must agree; make the "
          "condition a constant, or the shapes equal",
          node.type(a), node.type(b), i);
      if (const auto flag = flag_behind(node, condition)) throw FlagNeeded(*flag, std::move(why));
      node.folder().need(condition);
      node.unsupported(why);
    }
    node.output(i, a == b ? a : node.add("Where", {flag, a, b}));
  }
}

}  // namespace sinter::frontend
