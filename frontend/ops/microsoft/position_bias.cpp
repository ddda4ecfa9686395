// SPDX-License-Identifier: Apache-2.0
// Relative position biases of attention, of com.microsoft.
#include <cmath>

#include "frontend/ops/attention/attention_core.h"
#include "frontend/ops/control/unroll.h"
#include "frontend/ops/table/checks.h"
#include "frontend/ops/table/op_table.h"
#include "frontend/ops/term.h"

namespace sinter::frontend {
namespace {

/// T5's bucket for each distance (key - query): small distances have their own buckets; the width
/// of larger ones grows logarithmically up to `max_distance`.
Term buckets(const Term& distance, std::int64_t count, std::int64_t max_distance, bool both_ways) {
  std::optional<Term> first;
  Term back = (0 - distance).with("Max", 0);
  if (both_ways) {
    count /= 2;
    first = distance.with("Greater", 0).cast(DType::kInt64) * static_cast<double>(count);
    back = abs(distance);
  }
  const std::int64_t exact = count / 2;
  const double growth = static_cast<double>(count - exact) /
                        std::log(static_cast<double>(max_distance) / static_cast<double>(exact));
  const Term ratio = back.cast(DType::kFloat32) / static_cast<double>(exact);
  const Term far =
      (ratio.with("Max", 1).apply("Log") * growth).cast(DType::kInt64) + static_cast<double>(exact);
  const Term bucket = select(back.with("Less", static_cast<double>(exact)), back,
                             far.with("Min", static_cast<double>(count - 1)));
  return first ? *first + bucket : bucket;
}

void relative_position_bias(NodeContext& node) {
  const ValueId table = node.input(0, "bias_table");
  const Dim queries = node.size(1, "query_length"), keys = node.size(2, "key_length");
  const bool both_ways = node.attr_int("is_bidirectional", 0) != 0;
  const std::int64_t max_distance = node.attr_int("max_distance");
  const Shape shape = node.shape(table);
  if (shape.size() != 2 || !shape[0].is_constant() || shape[0].value() < (both_ways ? 4 : 2))
    node.invalid("bias_table must be [buckets, heads], but is {}", node.type(table));
  const std::int64_t count = shape[0].value();
  if (max_distance <= count / (both_ways ? 4 : 2))
    node.invalid("attribute 'max_distance' is {}, which {} buckets reach without it", max_distance,
                 count);
  const Term distance = iota(node, keys, 1, 2) - iota(node, queries, 0, 2);
  // The table is column-major: the numbers of a head are contiguous.
  const ValueId by_heads = node.reshape(table, {shape[1], shape[0]});
  const Term found = buckets(distance, count, max_distance, both_ways);
  const ValueId bias = node.add("Gather", {by_heads, found.value()}, {{"axis", std::int64_t{1}}});
  node.output(node.reshape(bias, {Dim(1), shape[1], queries, keys}));
}

/// Multiplies rel_pos by a gate computed from the queries: u (r a - 1) + 2, where u and r are
/// sigmoids of sums over the halves of query * weight + bias.
void gated_relative_position_bias(NodeContext& node) {
  if (node.has_input(6))
    node.unsupported("its tokens are packed without padding (token_offset): export with padding");
  const ValueId query = node.input(0, "query_layer"), query_bias = node.input(1, "query_bias"),
                rel_pos = node.input(2, "rel_pos"), weight = node.input(3, "weight"),
                bias = node.input(4, "bias"), eco_a = node.input(5, "eco_a");
  const std::int64_t heads = node.attr_int("num_heads");
  if (node.rank(query) != 3)
    node.invalid("query_layer must be [batch, length, size], but is {}", node.type(query));
  check_shape(node, query_bias, "query_bias", {node.shape(query)[2]});
  const Term q(node, split_heads(node, node.add("Add", {query, query_bias}), heads));
  const Shape shape = q.shape();
  const auto half =
      node.rank(weight) == 2 ? ir::divide_exactly(node.shape(weight)[1], 2) : std::optional<Dim>();
  if (!half)
    node.invalid("weight must be [size of a head, an even number], but is {}", node.type(weight));
  check_shape(node, weight, "weight", {shape[3], Dim(2) * *half});
  check_shape(node, bias, "bias", {Dim(2) * *half});
  check_shape(node, eco_a, "eco_a", {Dim(1), Dim(heads), Dim(1), Dim(1)});
  check_shape(node, rel_pos, "rel_pos", {Dim(1), Dim(heads), shape[2], shape[2]});
  const Term linear = q.with("MatMul", Term(node, weight)) + Term(node, bias);
  const Term sums =
      reduce("ReduceSum", linear.reshape({shape[0], shape[1], shape[2], Dim(2), *half}), 4);
  const Term gates = sums.apply("Sigmoid");
  const Term u = slice_one(gates, 3, 0), r = slice_one(gates, 3, 1);
  const Term gate = u * (r * Term(node, eco_a) - 1) + 2;
  node.output((gate * Term(node, rel_pos)).value());
}

}  // namespace

const OpRows kMicrosoftPositionBiasOps = {
    {"RelativePositionBias", 1, relative_position_bias, "is_bidirectional max_distance",
     kMicrosoft},
    {"GatedRelativePositionBias", 1, gated_relative_position_bias, "num_heads", kMicrosoft},
};

}  // namespace sinter::frontend
