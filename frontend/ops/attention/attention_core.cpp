// SPDX-License-Identifier: Apache-2.0
#include "frontend/ops/attention/attention_core.h"

#include <cmath>

#include "frontend/ops/control/unroll.h"
#include "frontend/ops/term.h"

namespace sinter::frontend {

ValueId by_head(NodeContext& node, ValueId x, std::int64_t heads) {
  const Shape shape = node.shape(x);
  const auto size =
      heads > 0 && shape.size() == 3 ? ir::divide_exactly(shape[2], Dim(heads)) : std::nullopt;
  if (!size) node.invalid("{} is not [batch, length, {} heads * size]", node.type(x), heads);
  return node.reshape(x, {shape[0], shape[1], Dim(heads), *size});
}

ValueId split_heads(NodeContext& node, ValueId x, std::int64_t heads) {
  return node.transpose(by_head(node, x, heads), {0, 2, 1, 3});
}

ValueId merge_heads(NodeContext& node, ValueId x) {
  const Shape shape = node.shape(x);
  return node.reshape(node.transpose(x, {0, 2, 1, 3}), {shape[0], shape[2], shape[1] * shape[3]});
}

namespace {

/// A mask for scores whose heads are split into groups: [.., heads, m, n] -> [.., heads / group,
/// group, m, n].
ValueId grouped_mask(NodeContext& node, ValueId mask, const Dim& group) {
  Shape shape = node.shape(mask);
  if (shape.size() < 3) return mask;
  Dim& heads = shape[shape.size() - 3];
  const bool is_shared = heads == Dim(1);
  const Dim inner = is_shared ? Dim(1) : group;
  if (!is_shared) {
    const auto groups = ir::divide_exactly(heads, group);
    if (!groups) node.invalid("mask {} does not have the heads of the queries", node.type(mask));
    heads = *groups;
  }
  shape.insert(shape.end() - 2, inner);
  return node.reshape(mask, shape);
}

ValueId apply_mask(NodeContext& node, ValueId scores, ValueId mask) {
  const DType dtype = node.dtype(scores);
  if (node.dtype(mask) != DType::kBool) return node.add("Add", {scores, node.cast(mask, dtype)});
  return node.add("Where", {mask, scores, node.constant(dtype, -kInfinity)});
}

/// True where row i may see column j: j <= i + offset and, with a window, j > i + offset - window.
ValueId causal_mask(NodeContext& node, const Dim& offset, const Dim& rows, const Dim& columns,
                    std::int64_t window) {
  const ir::Ranges& ranges = node.builder().ranges();
  const Dim end = offset + rows;
  const ValueId table = node.folder().iota(ir::max(end, columns, ranges), DType::kInt32);
  const ValueId row = node.reshape(part(node, table, 0, offset, rows), {rows, Dim(1)});
  const ValueId column = node.reshape(part(node, table, 0, 0, columns), {Dim(1), columns});
  const ValueId seen = node.add("GreaterOrEqual", {row, column});
  if (window <= 0) return seen;
  const ValueId near = node.add(
      "Less",
      {node.add("Sub", {row, column}), node.constant(DType::kInt32, static_cast<double>(window))});
  return node.add("And", {seen, near});
}

/// Index tensors for [batch, heads, rows, size], with `rows` [batch, count] for dimension 2.
std::vector<Term> row_indices(NodeContext& node, const Shape& shape, const Term& rows) {
  const Shape given = rows.shape();
  return {iota(node, shape[0], 0, 4), iota(node, shape[1], 1, 4),
          rows.reshape({given[0], 1, given[1], 1}), iota(node, shape[3], 3, 4)};
}

}  // namespace

AttentionStages attend(NodeContext& node, const AttentionForm& form) {
  const Shape q_shape = node.shape(form.q), k_shape = node.shape(form.k),
              v_shape = node.shape(form.v);
  const auto group = q_shape.size() == 4 && k_shape.size() == 4 && v_shape.size() == 4
                         ? ir::divide_exactly(q_shape[1], k_shape[1])
                         : std::nullopt;
  if (!group || k_shape[1] != v_shape[1] || k_shape[2] != v_shape[2] || q_shape[3] != k_shape[3])
    node.invalid(
        "query {}, key {} and value {} do not fit together as [batch, heads, length, size]",
        node.type(form.q), node.type(form.k), node.type(form.v));
  const DType dtype = node.dtype(form.q);
  const Dim rows = q_shape[2], columns = k_shape[2];
  const bool is_grouped = *group != Dim(1);
  ValueId q = form.q, k = form.k, v = form.v;
  if (is_grouped) {
    // Adds a group dimension, along which k and v are broadcast.
    q = node.reshape(q, {q_shape[0], k_shape[1], *group, rows, q_shape[3]});
    k = node.reshape(k, {k_shape[0], k_shape[1], Dim(1), columns, k_shape[3]});
    v = node.reshape(v, {v_shape[0], v_shape[1], Dim(1), columns, v_shape[3]});
  }
  const auto ungrouped = [&](ValueId value) {
    return node.reshape(value, {q_shape[0], q_shape[1], rows, node.shape(value).back()});
  };
  const auto changed = [&](ValueId value, const std::function<ValueId(ValueId)>& change) {
    return change ? node.reshape(change(ungrouped(value)), node.shape(value)) : value;
  };
  const Ints swapped = is_grouped ? Ints{0, 1, 2, 4, 3} : Ints{0, 1, 3, 2};
  AttentionStages stages;
  ValueId scores = node.add("MatMul", {q, node.transpose(k, swapped)});
  if (form.scale != 1) scores = node.add("Mul", {scores, node.constant(dtype, form.scale)});
  stages.product = scores;
  if (form.softcap > 0) {
    const ValueId cap = node.constant(dtype, form.softcap);
    scores = node.add("Mul", {node.add("Tanh", {node.add("Div", {scores, cap})}), cap});
  }
  stages.capped = scores;
  if (form.softmax_type) scores = node.cast(scores, *form.softmax_type);
  scores = changed(scores, form.change_scores);
  for (const ValueId mask : form.masks)
    scores = apply_mask(node, scores, is_grouped ? grouped_mask(node, mask, *group) : mask);
  if (form.causal_offset)
    scores = apply_mask(node, scores,
                        causal_mask(node, *form.causal_offset, rows, columns, form.window));
  stages.masked = scores;
  const auto last = node.rank(scores) - 1;
  if (form.sink.valid()) {
    Shape column = node.shape(scores);
    column.back() = 1;
    const Shape heads =
        is_grouped ? Shape{k_shape[1], *group, Dim(1), Dim(1)} : Shape{q_shape[1], Dim(1), Dim(1)};
    const ValueId sink = node.reshape(node.cast(form.sink, node.dtype(scores)), heads);
    scores = node.add("Concat", {scores, node.expand(sink, column)}, {{"axis", last}});
  }
  ValueId weights = node.add("Softmax", {scores}, {{"axis", last}});
  if (form.zeros_if_hidden) {
    const DType type = node.dtype(scores);
    const ValueId most = node.add("ReduceMax", {scores},
                                  {{"axes", std::vector{last}}, {"keepdims", std::int64_t{1}}});
    const ValueId hidden = node.add("Equal", {most, node.constant(type, -kInfinity)});
    weights = node.add("Where", {hidden, node.constant(type, 0), weights});
  }
  if (form.sink.valid()) weights = part(node, weights, last, 0, columns);
  stages.weights = weights;
  weights = node.cast(changed(weights, form.change_weights), dtype);
  stages.y = node.add("MatMul", {weights, v});
  if (is_grouped)
    for (ValueId* stage :
         {&stages.product, &stages.capped, &stages.masked, &stages.weights, &stages.y})
      *stage = ungrouped(*stage);
  return stages;
}

ValueId rotate(NodeContext& node, ValueId x, ValueId cos, ValueId sin, bool interleaved) {
  const Shape shape = node.shape(x), angles = node.shape(cos);
  const Dim pairs = angles.empty() ? Dim(0) : angles.back(), turned = Dim(2) * pairs;
  const Dim rest = shape.back() - turned;
  if (node.shape(sin) != angles || angles.size() != 3 || shape.size() != 4 ||
      (rest.is_constant() && rest.value() < 0))
    node.invalid(
        "cosines {} and sines {} do not fit {}: they must be [batch, length, half of the size]",
        node.type(cos), node.type(sin), node.type(x));
  const Shape over_heads{angles[0], Dim(1), angles[1], pairs};
  cos = node.reshape(node.cast(cos, node.dtype(x)), over_heads);
  sin = node.reshape(node.cast(sin, node.dtype(x)), over_heads);
  const ValueId moving = part(node, x, 3, 0, turned);
  ValueId a, b;
  if (interleaved) {
    const ValueId split = node.reshape(moving, {shape[0], shape[1], shape[2], pairs, Dim(2)});
    a = element(node, split, 4, 0);
    b = element(node, split, 4, 1);
  } else {
    a = part(node, moving, 3, 0, pairs);
    b = part(node, moving, 3, pairs, pairs);
  }
  const auto product = [&](ValueId left, ValueId right) { return node.add("Mul", {left, right}); };
  const ValueId real = node.add("Sub", {product(a, cos), product(b, sin)});
  const ValueId imaginary = node.add("Add", {product(a, sin), product(b, cos)});
  ValueId result;
  if (interleaved) {
    result = node.reshape(stack(node, {real, imaginary}, node.type(real), 4),
                          {shape[0], shape[1], shape[2], turned});
  } else {
    result = node.add("Concat", {real, imaginary}, {{"axis", std::int64_t{3}}});
  }
  if (rest == Dim(0)) return result;
  return node.add("Concat", {result, part(node, x, 3, turned, rest)}, {{"axis", std::int64_t{3}}});
}

double default_scale(NodeContext& node, ValueId q) {
  if (node.rank(q) != 4)
    node.invalid("Q must have three or four dimensions, but is {}", node.type(q));
  const Dim size = node.shape(q).back();
  if (!size.is_constant())
    node.unsupported(
        "the size of its heads is the symbolic dimension {}: fix that dimension "
        "(--dim), or give attribute 'scale'",
        size);
  return 1 / std::sqrt(static_cast<double>(size.value()));
}

double read_scale(NodeContext& node, ValueId q) {
  const double scale = node.attr_float("scale", 0);
  return scale != 0 ? scale : default_scale(node, q);
}

ValueId rows_at(NodeContext& node, ValueId table, ValueId positions) {
  if (node.rank(table) != 2)
    node.invalid("the table of angles must be [positions, pairs], but is {}", node.type(table));
  return node.add("Gather", {table, positions}, {{"axis", std::int64_t{0}}});
}

ValueId positions_from(NodeContext& node, const Dim& first, const Dim& count) {
  const ValueId table = node.folder().iota(first + count, DType::kInt64);
  return node.reshape(part(node, table, 0, first, count), {Dim(1), count});
}

ValueId append_to_cache(NodeContext& node, ValueId past, ValueId x) {
  if (!past.valid()) return x;
  return node.add("Concat", {past, x}, {{"axis", std::int64_t{2}}});
}

ValueId lengthened(NodeContext& node, ValueId cache, const Dim& length) {
  const Dim more = length - node.shape(cache)[2];
  if (more == Dim(0)) return cache;
  return node.add("Pad", {cache},
                  {{"begins", std::vector<Dim>(4, Dim(0))},
                   {"ends", std::vector<Dim>{Dim(0), Dim(0), more, Dim(0)}},
                   {"fill", 0.0}});
}

ValueId put_rows(NodeContext& node, ValueId cache, ValueId rows, ValueId first) {
  const Shape shape = node.shape(rows);
  const Term places = Term(node, first) + iota(node, shape[2], 1, 2);
  std::vector<ValueId> inputs{cache, rows};
  for (const Term& index : row_indices(node, shape, places)) inputs.push_back(index.value());
  return node.add("Scatter", std::move(inputs),
                  {{"combine", std::string("none")}, {"distinct", std::int64_t{1}}});
}

ValueId take_rows(NodeContext& node, ValueId cache, ValueId rows) {
  return take(Term(node, cache), row_indices(node, node.shape(cache), Term(node, rows))).value();
}

}  // namespace sinter::frontend
