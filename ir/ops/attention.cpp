// SPDX-License-Identifier: Apache-2.0
// Scaled dot-product attention.
#include <cmath>
#include <limits>
#include <numeric>

#include <fmt/format.h>
#include <sinter/error.h>

#include "ir/attention_inputs.h"
#include "ir/dim/dim_mismatch.h"
#include "ir/graph.h"
#include "ir/ops/ops.h"
#include "ir/reference/kernels.h"

namespace sinter::ir::ops {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

Shape batch_of(const Shape& shape) { return Shape(shape.begin(), shape.end() - 2); }

/// Checks that operand `i` broadcasts to `shape`.
void require_broadcast(Types inputs, std::size_t i, const Shape& shape, const char* what) {
  const Shape result =
      with_context(list_types(inputs), [&] { return broadcast(inputs[i].shape, shape); });
  require_equal(result, shape, [&] {
    return fmt::format("the {} cannot be broadcast to {}: {}", what, to_string(shape),
                       list_types(inputs));
  });
}

/// Packed sequences, concatenated in the rows: each sees only its own keys.
void check_packed(const Attrs& attrs, Types inputs, const Dim& m, const Dim& n) {
  if (attrs.get_dims("packed").size() != 1)
    invalid("packed is the most rows of a sequence, one size");
  if (inputs.size() != 4 + operands_of_scores(attrs))
    invalid("packed sequences need their bounds, and no mask or limits");
  if (attrs.get_int("causal") != 0 || attrs.get_int("limited") != 0)
    invalid("packed sequences see all of their keys: neither causal nor limited");
  require_equal(
      m, n, [&] { return "packed sequences have as many queries as keys: " + list_types(inputs); });
  const TensorType& bounds = inputs[3];
  if (bounds.shape.size() != 1 || bounds.dtype != DType::kInt64)
    invalid("the bounds of packed sequences are i64 [sequences + 1], found " + list_types(inputs));
}

/// Paged keys and values: rows belong to concatenated sequences, and see the keys of their own
/// sequence in the order of its block table.
void check_paged(const Attrs& attrs, Types inputs, const AttentionInputs& which) {
  const std::int64_t block = attrs.get_int("paged");
  if (block < 1 || block > 256 || (block & (block - 1)) != 0)
    invalid(fmt::format("paged is the keys of a block, a power of two up to 256, not {}", block));
  if (inputs.size() != (which.key_scales ? 8U : 6U) + which.operands)
    invalid("paged caches need limits, the starts of sequences and their block tables");
  if (attrs.get_int("causal") != 0 || attrs.get_int("limited") != 1 ||
      attrs.get_int("guard") != kGuardHidden)
    invalid("rows of paged caches see the keys before their limits: limited, guard 2, not causal");
  const TensorType &starts = inputs[*which.bounds], &tables = inputs[*which.tables];
  if (starts.dtype != DType::kInt32 || starts.shape.size() != 1 || tables.dtype != DType::kInt32 ||
      tables.shape.size() != 2)
    invalid(
        "sequences start at i32 [sequences + 1], block tables are i32 [sequences, blocks], "
        "found " +
        list_types(inputs));
  require_equal(starts.shape[0], tables.shape[0] + Dim(1), [&] {
    return "there are as many starts of sequences as block tables, and one more: " +
           list_types(inputs);
  });
}

/// Keys and values have the queries' type, or 8 bits with a scale for each row.
void check_scales(Types inputs, const AttentionInputs& which) {
  if (!is_scaled_row_type(inputs[1].dtype)) return require_same_dtype(inputs.first(3));
  require_same_dtype(inputs.subspan(1, 2));
  if (!which.key_scales || (which.bounds && !which.tables))
    invalid("keys and values of 8 bits need a scale for each row, and are not packed: " +
            list_types(inputs));
  for (const auto& [rows, scales] : {std::pair(std::size_t{1}, *which.key_scales),
                                     std::pair(std::size_t{2}, *which.value_scales)}) {
    Shape wanted = inputs[rows].shape;
    if (!wanted.empty()) wanted.back() = 1;
    if (inputs[scales].dtype != kRowScaleType || inputs[scales].shape != wanted)
      invalid(fmt::format("the scales of rows {} are f32 {}, found {}",
                          to_string(inputs[rows].shape), to_string(wanted), list_types(inputs)));
  }
}

/// Queries, keys and transposed values of 8 bits.
void check_eight_bit(const Attrs& attrs, Types inputs) {
  require_same_dtype(inputs.first(3));
  if (attrs.get_int("limited") != 0 || !attrs.get_dims("packed").empty() ||
      attrs.get_int("paged") != 0 || inputs.size() > 4 + operands_of_scores(attrs))
    invalid("attention of 8 bits has no limits, packed sequences or paged caches: " +
            list_types(inputs));
}

/// q [batch..., m, d], k [batch..., n, d], v [batch..., n, dv], mask broadcastable to [batch..., m,
/// n], limits to [batch..., m, 1] -> [batch..., m, dv]; the batch dimensions of q, k and v
/// broadcast. 8-bit k and v have f32 scales of their shapes with one column. With "paged", rows
/// starts[i] to starts[i + 1] are sequence i, whose key j is row tables[i, j / paged] * paged + j %
/// paged of k and v. Rows see the keys before their limit, with "window" only the last of them. If
/// q, k and v are f8e4m3fn, v is transposed: attention_inputs.h. A body makes the scores from
/// scale * q k' and the last "score_operands" inputs, in front of mask, causal and limits.
std::vector<TensorType> infer_attention(const Attrs& attrs, Types inputs) {
  const std::int64_t operands = attrs.get_int("score_operands");
  if (operands < 0 || operands + 3 > std::ssize(inputs))
    invalid(
        fmt::format("score_operands is a number of inputs behind q, k and v, not {}", operands));
  const AttentionInputs which = attention_inputs(attrs, inputs.size(), inputs[1].dtype);
  const bool eight_bit = is_eight_bit_attention(inputs[0].dtype);
  const auto is_there = [](const auto& input) { return std::size_t{input.has_value()}; };
  if (!which.bounds && 3 + is_there(which.mask) + is_there(which.limits) +
                               2 * is_there(which.key_scales) + which.operands !=
                           inputs.size())
    invalid("takes q, k, v, a mask, limits, scales and operands of scores, found " +
            list_types(inputs));
  eight_bit ? check_eight_bit(attrs, inputs) : check_scales(inputs, which);
  if (attrs.get_int("limited") != 0 && !which.limits) invalid("there is no input for the limits");
  const Shape &q = inputs[0].shape, &k = inputs[1].shape, &v = inputs[2].shape;
  if (q.size() < 2 || k.size() < 2 || v.size() < 2)
    invalid("needs q [.., m, d], k [.., n, d] and v [.., n, dv], found " + list_types(inputs));
  const Dim &m = q[q.size() - 2], &n = k[k.size() - 2];
  const Dim &values = eight_bit ? v.back() : v[v.size() - 2],
            &value_head = eight_bit ? v[v.size() - 2] : v.back();
  const auto unfit = [&] {
    return eight_bit
               ? "q and k differ in their last dimension, or columns of v are not the keys "
                 "up to a multiple of 16: " +
                     list_types(inputs)
               : "q and k differ in their last dimension, or k and v in their last but one: " +
                     list_types(inputs);
  };
  require_equal(q.back(), k.back(), unfit);
  require_equal(eight_bit ? value_columns(n) : n, values, unfit);
  Shape shape = with_context(list_types(inputs), [&] {
    return broadcast(broadcast(batch_of(q), batch_of(k)), batch_of(v));
  });
  const std::int64_t causal = attrs.get_int("causal");
  if (causal < 0 || causal > 2)
    invalid(fmt::format("causal is 0 (no), 1 (from the first key) or 2 (to the last key), not {}",
                        causal));
  const std::int64_t guard = attrs.get_int("guard");
  if (guard < kGuardNone || guard > kGuardHidden)
    invalid(fmt::format("guard is 0 (none), 1 (NaN) or 2 (hidden rows), not {}", guard));
  shape.push_back(m);
  if (attrs.get_int("window") < 0 || (attrs.get_int("window") != 0 && !which.tables))
    invalid("a window is a number of keys of paged caches");
  if (which.tables)
    check_paged(attrs, inputs, which);
  else if (which.bounds)
    check_packed(attrs, inputs, m, n);
  if (which.mask) {
    if (inputs[3].dtype != DType::kBool && !is_arithmetic_float(inputs[3].dtype))
      invalid("the mask is bool (true: attend) or is added, found " + list_types(inputs));
    shape.push_back(n);
    require_broadcast(inputs, 3, shape, "mask");
    shape.pop_back();
  }
  if (which.limits) {
    if (!is_integer(inputs[*which.limits].dtype))
      invalid("the limits are numbers of keys, found " + list_types(inputs));
    shape.push_back(1);
    require_broadcast(inputs, *which.limits, shape, "limits");
    shape.pop_back();
  }
  shape.push_back(value_head);
  return {{eight_bit ? DType::kFloat32 : inputs[0].dtype, shape}};
}

/// [rows] of i64: the number of elements of `bounds` [sequences + 1] that are at most the row's
/// index. It is equal for all rows of a sequence, 0 before the first and sequences + 1 after the
/// last.
ValueId bounds_before_rows(GraphBuilder& b, ValueId bounds, const Dim& rows) {
  const ValueId row =
      b.add("Iota", {},
            {{"shape", Shape{rows, 1}}, {"axis", std::int64_t{0}}, {"dtype", Attr(DType::kInt64)}});
  const ValueId behind = b.add("GreaterOrEqual", {row, bounds});
  return b.add("ReduceSum", {b.add("Cast", {behind}, {{"to", Attr(DType::kInt64)}})},
               {{"axes", Ints{1}}, {"keepdims", std::int64_t{0}}});
}

/// Keys or values [.., n, d] in the order in which each row sees them: [.., m, 1, seen, d]; those
/// before `limits` are valid.
struct PagedRows {
  ValueId sequence;  // [m, 1]: number of starts up to each row; 0: no sequence
  ValueId slots;     // [m, seen]: cache row of key j
};
PagedRows paged_rows(GraphBuilder& b, ValueId starts, ValueId tables, const Dim& rows,
                     std::int64_t block) {
  const auto wide = [&](ValueId value) {
    return b.add("Cast", {value}, {{"to", Attr(DType::kInt64)}});
  };
  const ValueId before = bounds_before_rows(b, wide(starts), rows);
  const ValueId last =
      b.add("Size", {},
            {{"value", Shape{b.type(tables).shape[0] - Dim(1)}}, {"dtype", Attr(DType::kInt64)}});
  const ValueId number = b.add("Min", {b.add("Sub", {before, b.scalar(DType::kInt64, 1)}), last});
  const Dim seen = b.type(tables).shape[1] * Dim(block);
  // Rows outside every sequence read the last table, and see no keys.
  const ValueId own = b.add("Gather", {wide(tables), number}, {{"axis", std::int64_t{0}}});
  const ValueId key =
      b.add("Iota", {},
            {{"shape", Shape{seen}}, {"axis", std::int64_t{0}}, {"dtype", Attr(DType::kInt64)}});
  const ValueId size = b.scalar(DType::kInt64, static_cast<double>(block));
  const ValueId blocks =
      b.add("Gather", {own, b.add("Div", {key, size})}, {{"axis", std::int64_t{1}}});
  const ValueId slots = b.add("Add", {b.add("Mul", {blocks, size}), b.add("Mod", {key, size})});
  return {b.add("Reshape", {before}, {{"shape", Shape{rows, 1}}}), slots};
}

/// The types of the body that computes scores from scale * q k': that, [batch..., m, n], and the
/// operands. With "paged", n is the capacity of a sequence's table.
std::vector<TensorType> score_types(const Attrs& attrs, Types inputs) {
  const AttentionInputs which = attention_inputs(attrs, inputs.size(), inputs[1].dtype);
  Shape shape = infer_attention(attrs, inputs)[0].shape;
  shape.back() = which.tables ? inputs[*which.tables].shape[1] * Dim(attrs.get_int("paged"))
                              : inputs[1].shape.end()[-2];
  std::vector<TensorType> types{{compute_type(inputs[0].dtype), std::move(shape)}};
  for (const TensorType& operand : inputs.last(which.operands)) {
    require_broadcast({types.data(), 1}, 0, broadcast(types[0].shape, operand.shape),
                      "operand of the scores");
    types.push_back(operand);
  }
  return types;
}

/// What the node's body makes of scale * q k'; unchanged without a body.
struct Scores {
  ValueId scores, sink;
};
Scores programmed(GraphBuilder& b, const Node& node, std::span<const ValueId> inputs,
                  ValueId scores) {
  if (!node.body) return {scores, {}};
  std::vector<ValueId> values{scores};
  const auto operands = inputs.last(operands_of_scores(node.attrs));
  values.insert(values.end(), operands.begin(), operands.end());
  // A body for scores [.., m, n] takes those of a paged cache too, which are [.., m, 1, n].
  const Shape own = b.type(scores).shape;
  const Shape& wanted = node.body->type(node.body->inputs()[0]).shape;
  if (own != wanted) values[0] = b.add("Reshape", {scores}, {{"shape", wanted}});
  const std::vector<ValueId> made = inline_graph(b, *node.body, values);
  Scores result{made[0], {}};
  if (own != wanted) result.scores = b.add("Reshape", {made[0]}, {{"shape", own}});
  if (made.size() < 2) return result;
  Shape column = wanted;
  column.back() = 1;
  result.sink = b.add("Expand", {made[1]}, {{"shape", column}});
  column = own;
  column.back() = 1;
  if (own != wanted) result.sink = b.add("Reshape", {result.sink}, {{"shape", column}});
  return result;
}

/// The softmax of `scores` in float, with a sink if there is one: the score of one more key, whose
/// value is zero. Weights of rows that see nothing are zero, if `guarded`.
ValueId weights_of(GraphBuilder& b, ValueId scores, ValueId sink, std::int64_t guard) {
  const Shape shape = b.type(scores).shape;
  const DType wide = b.type(scores).dtype;
  const auto last = static_cast<std::int64_t>(shape.size()) - 1;
  if (sink.valid()) scores = b.add("Concat", {scores, sink}, {{"axis", last}});
  ValueId weights = b.add("Softmax", {scores}, {{"axis", last}});
  if (guard == kGuardNan)
    weights = b.add("Where", {b.add("IsNan", {weights}), b.scalar(wide, 0), weights});
  if (guard == kGuardHidden) {
    const ValueId most =
        b.add("ReduceMax", {scores}, {{"axes", std::vector{last}}, {"keepdims", std::int64_t{1}}});
    const ValueId hidden = b.add("Equal", {most, b.scalar(wide, -kInfinity)});
    weights = b.add("Where", {hidden, b.scalar(wide, 0), weights});
  }
  if (!sink.valid()) return weights;
  return b.add("Slice", {weights},
               {{"starts", Shape(shape.size(), Dim(0))},
                {"steps", Ints(shape.size(), 1)},
                {"shape", shape}});
}

/// The paged case in single operators: each row gathers its keys and values.
std::vector<ValueId> decompose_paged(GraphBuilder& b, const Node& node,
                                     std::span<const ValueId> inputs, const AttentionInputs& which,
                                     ValueId keys, ValueId values) {
  const DType type = b.type(inputs[0]).dtype, wide = compute_type(type);
  const auto as = [&](ValueId value, DType to) {
    return b.type(value).dtype == to ? value : b.add("Cast", {value}, {{"to", Attr(to)}});
  };
  const Shape q = b.type(inputs[0]).shape;
  const Dim& m = q[q.size() - 2];
  const PagedRows rows =
      paged_rows(b, inputs[*which.bounds], inputs[*which.tables], m, node.attrs.get_int("paged"));
  const auto own = [&](ValueId all) {  // [.., m, seen, d]
    const auto axis = static_cast<std::int64_t>(b.type(all).shape.size()) - 2;
    return b.add("Gather", {all, rows.slots}, {{"axis", axis}});
  };
  const auto raised = [&](ValueId value, std::size_t at) {
    Shape shape = b.type(value).shape;
    shape.insert(shape.end() - static_cast<std::ptrdiff_t>(at), Dim(1));
    return b.add("Reshape", {value}, {{"shape", shape}});
  };
  const ValueId own_keys = own(keys);
  Ints perm(b.type(own_keys).shape.size());
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  ValueId scores =
      as(b.add("MatMul", {raised(inputs[0], 1), b.add("Transpose", {own_keys}, {{"perm", perm}})}),
         wide);  // [.., m, 1, seen]
  scores = b.add("Mul", {scores, b.scalar(wide, node.attrs.get_float("scale"))});
  const Scores made = programmed(b, node, inputs, scores);
  scores = made.scores;
  const ValueId key = b.add("Iota", {},
                            {{"shape", Shape{b.type(rows.slots).shape[1]}},
                             {"axis", std::int64_t{0}},
                             {"dtype", Attr(DType::kInt64)}});
  const ValueId limits = raised(as(inputs[*which.limits], DType::kInt64), 1);
  ValueId seen = b.add("Less", {key, limits});
  if (const std::int64_t window = node.attrs.get_int("window"); window != 0) {
    const ValueId first =
        b.add("Sub", {limits, b.scalar(DType::kInt64, static_cast<double>(window))});
    seen = b.add("And", {seen, b.add("GreaterOrEqual", {key, first})});
  }
  const ValueId all = b.add(
      "Size", {},
      {{"value", Shape{b.type(inputs[*which.bounds]).shape[0]}}, {"dtype", Attr(DType::kInt64)}});
  const ValueId exists =
      b.add("And", {b.add("Greater", {rows.sequence, b.scalar(DType::kInt64, 0)}),
                    b.add("Less", {rows.sequence, all})});  // [m, 1]
  seen = b.add("And", {seen, raised(exists, 1)});
  scores = b.add("Where", {seen, scores, b.scalar(wide, -kInfinity)});
  const ValueId weights = weights_of(b, scores, made.sink, kGuardHidden);
  const ValueId result = b.add("MatMul", {as(weights, type), own(values)});
  Shape shape = b.type(result).shape;
  shape.erase(shape.end() - 2);
  return {b.add("Reshape", {result}, {{"shape", shape}})};
}

/// 8-bit attention after masking, from scores [.., m, n] and values [.., dv, columns]: the weights,
/// relative to the largest, are rounded for the matmul; the sum that divides its result is of
/// unrounded ones.
ValueId rounded_weights_product(GraphBuilder& b, const Node& node, ValueId scores, ValueId values,
                                const Dim& n) {
  const DType wide = b.type(scores).dtype;
  const auto last = static_cast<std::int64_t>(b.type(scores).shape.size()) - 1;
  const Attrs along{{"axes", std::vector{last}}, {"keepdims", std::int64_t{1}}};
  const ValueId zero = b.scalar(wide, 0);
  ValueId most = b.add("ReduceMax", {scores}, along);
  most = b.add("Where", {b.add("Equal", {most, b.scalar(wide, -kInfinity)}), zero, most});
  const ValueId weights = b.add("Exp", {b.add("Sub", {scores, most})});
  const ValueId sum = b.add("ReduceSum", {weights}, along);
  const ValueId unit = b.scalar(wide, kWeightUnit);
  const ValueId codes =
      b.add("Cast", {b.add("Mul", {weights, unit})}, {{"to", Attr(DType::kFloat8E4M3FN)}});
  Shape shape = b.type(values).shape;
  const std::size_t rank = shape.size();
  shape.back() = n;
  values = b.add("Slice", {values},
                 {{"starts", Shape(rank, Dim(0))}, {"steps", Ints(rank, 1)}, {"shape", shape}});
  Ints perm(rank);
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[rank - 1], perm[rank - 2]);
  const ValueId product = b.add("MatMul", {b.add("Cast", {codes}, {{"to", Attr(wide)}}),
                                           b.add("Transpose", {values}, {{"perm", perm}})});
  const ValueId result = b.add("Div", {product, b.add("Mul", {sum, unit})});
  const std::int64_t guard = node.attrs.get_int("guard");
  if (guard == kGuardNone) return result;
  ValueId drops = b.add("Equal", {sum, zero});
  if (guard == kGuardNan) drops = b.add("Or", {drops, b.add("IsNan", {sum})});
  return b.add("Where", {drops, zero, result});
}

/// softmax(mask(program(scale * q k'))) v in single operators. Scores have the compute type: 16
/// bits would round the exponential's argument, and large scores exceed float16.
std::vector<ValueId> decompose_attention(GraphBuilder& b, const Node& node,
                                         std::span<const ValueId> inputs) {
  const DType type = b.type(inputs[0]).dtype, wide = compute_type(type);
  const auto as = [&](ValueId value, DType to) {
    return b.type(value).dtype == to ? value : b.add("Cast", {value}, {{"to", Attr(to)}});
  };
  const AttentionInputs which =
      attention_inputs(node.attrs, inputs.size(), b.type(inputs[1]).dtype);
  const bool eight_bit = is_eight_bit_attention(type);
  ValueId queries = inputs[0], keys = inputs[1], values = inputs[2];
  if (eight_bit) {
    queries = as(queries, wide);
    keys = as(keys, wide);
  }
  if (which.key_scales) {
    keys = add_dequantized_rows(b, {keys, inputs[*which.key_scales]}, type);
    values = add_dequantized_rows(b, {values, inputs[*which.value_scales]}, type);
  }
  if (which.tables) return decompose_paged(b, node, inputs, which, keys, values);
  const Shape q = b.type(inputs[0]).shape, k = b.type(inputs[1]).shape;
  Ints perm(k.size());
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  const Dim m = q[q.size() - 2], n = k[k.size() - 2];
  const ValueId transposed = b.add("Transpose", {keys}, {{"perm", perm}});
  ValueId scores = as(b.add("MatMul", {queries, transposed}), wide);
  if (const double scale = node.attrs.get_float("scale"); scale != 1)
    scores = b.add("Mul", {scores, b.scalar(wide, scale)});
  const Scores made = programmed(b, node, inputs, scores);
  scores = made.scores;
  if (which.mask) {
    ValueId mask = inputs[3];
    if (b.type(mask).dtype == DType::kBool) {
      scores = b.add("Where", {mask, scores, b.scalar(wide, node.attrs.get_float("fill"))});
    } else {
      scores = b.add("Add", {scores, as(mask, wide)});
    }
  }
  const auto positions = [&](Shape shape, std::int64_t axis) {
    return b.add("Iota", {},
                 {{"shape", std::move(shape)}, {"axis", axis}, {"dtype", Attr(DType::kInt64)}});
  };
  ValueId exists;  // [m, 1]: whether a packed row belongs to a sequence
  if (which.bounds) {
    const ValueId sequence = bounds_before_rows(b, inputs[3], m);
    const ValueId row = b.add("Reshape", {sequence}, {{"shape", Shape{m, 1}}});
    scores = b.add("Where", {b.add("Equal", {row, sequence}), scores, b.scalar(wide, -kInfinity)});
    const ValueId all = b.add(
        "Size", {}, {{"value", Shape{b.type(inputs[3]).shape[0]}}, {"dtype", Attr(DType::kInt64)}});
    exists = b.add(
        "And", {b.add("Greater", {row, b.scalar(DType::kInt64, 0)}), b.add("Less", {row, all})});
  }
  if (which.limits) {
    const ValueId seen =
        b.add("Less", {positions({1, n}, 1), as(inputs[*which.limits], DType::kInt64)});
    scores = b.add("Where", {seen, scores, b.scalar(wide, -kInfinity)});
  }
  if (const std::int64_t causal = node.attrs.get_int("causal"); causal != 0) {
    ValueId rows = positions({m, 1}, 0);
    if (causal == 2) rows = b.add("Add", {rows, b.add("Size", {}, {{"value", Shape{n - m}}})});
    const ValueId columns = positions({1, n}, 1);
    const ValueId seen = b.add("GreaterOrEqual", {rows, columns});
    scores = b.add("Where", {seen, scores, b.scalar(wide, -kInfinity)});
  }
  if (eight_bit) return {rounded_weights_product(b, node, scores, as(values, wide), n)};
  const ValueId weights = weights_of(b, scores, made.sink, node.attrs.get_int("guard"));
  const ValueId result = b.add("MatMul", {as(weights, type), values});
  return {exists.valid() ? b.add("Where", {exists, result, b.scalar(type, 0)}) : result};
}

}  // namespace

std::vector<OpDef> attention_ops() {
  return {{.name = "Attention",
           .kind = OpKind::kLibrary,
           .kernel = "attention",
           .min_inputs = 3,
           .max_inputs = -1,
           .attrs = {{"scale", AttrKind::kFloat, std::nullopt},
                     {"causal", AttrKind::kInt, Attr(std::int64_t{0})},
                     {"fill", AttrKind::kFloat, Attr(-kInfinity)},
                     {"guard", AttrKind::kInt, Attr(std::int64_t{0})},
                     {"limited", AttrKind::kInt, Attr(std::int64_t{0})},
                     {"packed", AttrKind::kDims, Attr(std::vector<Dim>{})},
                     {"paged", AttrKind::kInt, Attr(std::int64_t{0})},
                     {"window", AttrKind::kInt, Attr(std::int64_t{0})},
                     {"score_operands", AttrKind::kInt, Attr(std::int64_t{0})}},
           .infer = infer_attention,
           .evaluate = reference::evaluate_attention,
           .detail = CompositeDef{decompose_attention},
           .body_inputs = score_types}};
}

}  // namespace sinter::ir::ops
