// SPDX-License-Identifier: Apache-2.0
// NonMaxSuppression: the run determines the number of rows, unless the maximum is requested.

#include <fmt/format.h>

#include "frontend/ops/selection/compact.h"
#include "frontend/ops/table/op_table.h"
#include "frontend/ops/term.h"
#include "ir/dim/dim_mismatch.h"

namespace sinter::frontend {
namespace {

/// Corners (low, low, high, high) of boxes [batches, boxes, 4].
Term corners_of(const Term& boxes, bool centred) {
  // Centre and size, or two opposite corners. Overlaps do not depend on the order of dimensions.
  const Term a = slice_some(boxes, 2, 0, 2), b = slice_some(boxes, 2, 2, 2);
  const Term low = centred ? a - (b / 2) : a.with("Min", b),
             high = centred ? a + (b / 2) : a.with("Max", b);
  return {boxes.node(),
          boxes.node().concat(
              {low.cast(DType::kFloat32).value(), high.cast(DType::kFloat32).value()}, 2)};
}

/// Greedy suppression: in the order of scores, keeps a box of a class unless it overlaps a kept
/// one; then collects the kept boxes' indices.
void non_max_suppression(NodeContext& node) {
  const Term boxes(node, node.input(0, "boxes")), scores(node, node.input(1, "scores"));
  const Shape shape = scores.shape();
  const auto unfit = [&] {
    return fmt::format(
        "boxes {} and scores {} must be [batches, boxes, 4] and [batches, classes, boxes]",
        boxes.shape(), shape);
  };
  if (boxes.shape().size() != 3 || shape.size() != 3) node.invalid(unfit());
  ir::require_equal(boxes.shape(), {shape[0], shape[2], Dim(4)}, unfit);
  const bool centred = node.attr_int("center_point_box", 0) != 0;
  const double iou = node.has_input(3) ? node.scalar(3, "iou_threshold") : 0.0;
  // Maximum number of boxes per class; nullopt: unlimited.
  std::optional<Dim> most = Dim(0);
  ValueId limit;
  if (node.has_input(2)) {
    const ValueId given = node.input(2, "max_output_boxes_per_class");
    const auto held = node.folder().contents(given);
    most = held && held->size() == 1 ? std::optional(held->front()) : std::nullopt;
    limit = Term(node, given).reshape({}).cast(DType::kInt64).value();
  }
  const ir::Ranges& ranges = node.builder().ranges();
  const Dim each = most ? ir::min(ir::max(*most, 0, ranges), shape[2], ranges) : shape[2];
  const Dim rows = shape[0] * shape[1] * each;
  if (rows == Dim(0))
    return node.output(node.builder().constant(ir::Tensor::from_ints(DType::kInt64, {0, 3}, {})));

  const Term order(node, node.add("ArgSort", {scores.value()},
                                  {{"axis", std::int64_t{2}},
                                   {"count", std::vector<Dim>{shape[2]}},
                                   {"descending", std::int64_t{1}}}));
  const Term batch = iota(node, shape[0], 0, 3), of_class = iota(node, shape[1], 1, 3);
  Term valid(node, node.expand(node.constant(DType::kBool, 1), shape));
  if (node.has_input(4)) {
    const Term least(node, node.input(4, "score_threshold"));
    valid = take(scores, {batch, of_class, order})
                .with("Greater", least.cast(scores.dtype()).reshape({}));
  }
  const Shape four{shape[0], shape[1], shape[2], Dim(4)}, one{shape[0], shape[1], shape[2], Dim(1)};
  const Term sorted = take(corners_of(boxes, centred),
                           {iota(node, shape[0], 0, 4), order.reshape(one), iota(node, 4, 3, 4)});
  const std::int64_t bound = most && most->is_constant() ? most->value() : 0;
  Term kept(node, node.add("Suppress", {node.expand(sorted.value(), four), valid.value()},
                           {{"iou", iou}, {"most", bound}}));
  if (bound == 0 && (each != shape[2] || !most)) {
    const Term number(node, node.add("Scan", {kept.cast(DType::kInt64).value()},
                                     {{"axis", std::int64_t{2}}, {"combine", std::string("sum")}}));
    kept = kept.with("And", number.with("LessOrEqual", Term(node, limit)));
  }
  const Places places = places_of(node, kept.reshape({ir::element_count(shape)}), {}, rows);
  const std::vector<Term> at = unravelled(places.index, shape);
  std::vector<ValueId> columns;
  const Term box = take(order, at);
  for (const Term& column : {at[0], at[1], box})
    columns.push_back(column.reshape({places.count, Dim(1)}).value());
  const ValueId selected = node.concat(columns, 1);
  if (!node.pads_selections()) return node.output(selected);
  // Pads to the maximum number of rows.
  node.output(
      node.add("Pad", {selected},
               {{"begins", Shape{0, 0}}, {"ends", Shape{rows - places.count, 0}}, {"fill", -1.0}}));
}

}  // namespace

const OpRows kSuppressionOps = {{"NonMaxSuppression", 10, non_max_suppression, "center_point_box"}};

}  // namespace sinter::frontend
