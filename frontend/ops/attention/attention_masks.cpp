// SPDX-License-Identifier: Apache-2.0
#include "frontend/ops/attention/attention_masks.h"

#include "frontend/ops/control/unroll.h"
#include "frontend/ops/table/checks.h"
#include "frontend/ops/term.h"

namespace sinter::frontend {

namespace {

/// True for keys before their sample's end and, with begins, from its begin on.
ValueId within(NodeContext& node, ValueId mask, const ScoreSizes& sizes, bool has_begins) {
  const Term place = iota(node, sizes.keys, 3, 4);
  const auto numbers = [&](const Dim& begin) {
    return Term(node, part(node, mask, 0, begin, sizes.batch))
        .cast(DType::kInt64)
        .reshape({sizes.batch, Dim(1), Dim(1), Dim(1)});
  };
  const Term before_end = place.with("Less", numbers(0));
  if (!has_begins) return before_end.value();
  return before_end.with("And", place.with("GreaterOrEqual", numbers(sizes.batch))).value();
}

/// Cumulative lengths give the begins of samples in packed rows. Rows are not packed here: checks
/// this for constants, and warns for other values.
void check_starts(NodeContext& node, ValueId mask, const ScoreSizes& sizes) {
  const ir::Tensor* known = node.builder().constant_of(mask);
  if (known == nullptr || !sizes.queries.is_constant() || !sizes.keys.is_constant())
    return node.warn("the begins of samples in its mask are taken as multiples of their length");
  const std::int64_t batch = sizes.batch.value();
  for (std::int64_t i = 0; i <= batch; ++i) {
    const auto query = static_cast<std::int64_t>(known->at(batch + i)),
               key = static_cast<std::int64_t>(known->at(2 * batch + 1 + i));
    if (query != i * sizes.queries.value() || key != i * sizes.keys.value())
      node.unsupported(
          "its mask says that sample {} begins at query {} and key {}, so that samples are packed: "
          "export with a mask of lengths",
          i, query, key);
  }
}

ValueId kept_by_lengths(NodeContext& node, ValueId mask, std::string_view what,
                        const ScoreSizes& sizes) {
  const Dim count = node.shape(mask)[0];
  if (count == Dim(2) * sizes.batch) return within(node, mask, sizes, true);
  if (count == Dim(3) * sizes.batch + Dim(2))
    check_starts(node, mask, sizes);
  else
    check_shape(node, mask, what, {sizes.batch});
  return within(node, mask, sizes, false);
}

/// Selects the current queries' rows and the keys' columns from a mask for all positions.
ValueId of_all_positions(NodeContext& node, ValueId mask, std::string_view what,
                         const ScoreSizes& sizes) {
  const Shape shape = node.shape(mask);
  check_broadcasts(node, mask, what, {sizes.batch, Dim(1), shape[2], shape[2]},
                   {true, true, false, false});
  if (shape[2].is_constant()) {
    node.limit(sizes.keys, shape[2].value());
    if (sizes.keys.is_constant() && sizes.keys.value() > shape[2].value())
      node.invalid("{} is {}, but there are {} keys", what, node.type(mask), sizes.keys);
  }
  return part(node, part(node, mask, 2, sizes.past, sizes.queries), 3, 0, sizes.keys);
}

}  // namespace

ValueId padding_mask(NodeContext& node, ValueId mask, std::string_view what,
                     const ScoreSizes& sizes, DType dtype) {
  check_dtype(node, mask, what, {DType::kInt32});
  ValueId keep;
  if (node.rank(mask) == 1) {
    keep = kept_by_lengths(node, mask, what, sizes);
  } else {
    Shape spread{sizes.batch, Dim(1), Dim(1), sizes.keys};
    if (node.rank(mask) == 4) {
      mask = of_all_positions(node, mask, what, sizes);
      spread = node.shape(mask);
    } else if (node.rank(mask) == 3) {
      check_shape(node, mask, what, {sizes.batch, sizes.queries, sizes.keys});
      spread[2] = sizes.queries;
    } else {
      check_shape(node, mask, what, {sizes.batch, sizes.keys});
    }
    keep = node.reshape(node.add("Greater", {mask, node.constant(DType::kInt32, 0)}), spread);
  }
  const double hidden = node.attr_float("mask_filter_value", -10000.0f);
  return node.add("Where", {keep, node.constant(dtype, 0), node.constant(dtype, hidden)});
}

ValueId attention_bias(NodeContext& node, std::size_t i, const ScoreSizes& sizes) {
  const ValueId bias = node.input(i, "attention_bias");
  check_broadcasts(node, bias, "attention_bias",
                   {sizes.batch, sizes.heads, sizes.queries, sizes.keys},
                   {true, true, false, false});
  return bias;
}

}  // namespace sinter::frontend
