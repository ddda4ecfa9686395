// NonMaxSuppression with as many rows as it may select.

#include <fmt/format.h>

#include "frontend/ops/control/unroll.h"
#include "frontend/ops/table/op_table.h"
#include "frontend/ops/term.h"
#include "ir/dim/dim_mismatch.h"

namespace sinter::frontend {
namespace {

/// Corners of boxes, [batches, 1, boxes], or [batches, classes, 1] of one box for each class.
struct Boxes {
  Term x_low, x_high, y_low, y_high;
  Term area() const { return (x_high - x_low) * (y_high - y_low); }
};

Boxes read_boxes(const Term& boxes, bool centred) {
  const Shape shape = boxes.shape();
  const auto part = [&](std::int64_t i) {
    return slice_one(boxes, 2, i).reshape({shape[0], Dim(1), shape[1]});
  };
  const Term a = part(0), b = part(1), c = part(2), d = part(3);
  if (centred) {  // x, y, width, height
    const Term x = c / 2, y = d / 2;
    return {a - x, a + x, b - y, b + y};
  }
  // y, x of two corners across from each other
  return {b.with("Min", d), b.with("Max", d), a.with("Min", c), a.with("Max", c)};
}

Boxes choose(NodeContext& node, const Boxes& boxes, const Term& index) {
  const auto at = [&](const Term& corner) {
    return take(corner, {iota(node, corner.shape()[0], 0, 3), iota(node, 1, 1, 3), index});
  };
  return {at(boxes.x_low), at(boxes.x_high), at(boxes.y_low), at(boxes.y_high)};
}

/// Whether the intersection of two boxes is more than `most` of their union. Boxes without area
/// have none.
Term overlap(const Boxes& a, const Boxes& b, double most) {
  const Term width = a.x_high.with("Min", b.x_high) - a.x_low.with("Max", b.x_low);
  const Term height = a.y_high.with("Min", b.y_high) - a.y_low.with("Max", b.y_low);
  const Term both = width * height, first = a.area(), second = b.area();
  const Term all = first + second - both;
  const auto positive = [](const Term& x) { return x.with("Greater", 0.0); };
  Term result = both.with("Quotient", all).with("Greater", most);
  for (const Term& x : {width, height, both, first, second, all})
    result = result.with("And", positive(x));
  return result;
}

/// In each step every class of every batch selects its best box that is left; those that overlap
/// it, and itself, are left no more. Rows that select nothing are -1, and come last.
void non_max_suppression(NodeContext& node) {
  const Term boxes(node, node.input(0, "boxes")), given(node, node.input(1, "scores"));
  const Shape shape = given.shape();
  const bool centred = node.attr_int("center_point_box", 0) != 0;
  const auto unfit = [&] {
    return fmt::format(
        "boxes {} and scores {} must be [batches, boxes, 4] and [batches, classes, boxes]",
        boxes.shape(), shape);
  };
  if (boxes.shape().size() != 3 || shape.size() != 3) node.invalid(unfit());
  ir::require_equal(boxes.shape(), {shape[0], shape[2], Dim(4)}, unfit);
  if (!node.pads_selections())
    node.unsupported(
        "its output's shape depends on data: compile with --nms-pad, which gives it "
        "max_output_boxes_per_class rows for each class of each batch, -1 where fewer are "
        "selected; or export the model without it and suppress after the run, or take a fixed "
        "number of boxes with TopK");
  const auto number = [&](std::size_t i, const char* what) {
    return node.has_input(i) ? node.scalar(i, what) : 0.0;
  };
  const double wanted = number(2, "max_output_boxes_per_class");
  const double most_overlap = number(3, "iou_threshold");
  if (!(wanted >= 0 && wanted <= static_cast<double>(kMaxIterations)))
    node.unsupported(
        "max_output_boxes_per_class is {}; every box is a step of the compiled model, "
        "and 0 to {} are supported",
        wanted, kMaxIterations);
  auto steps = static_cast<std::int64_t>(wanted);
  if (shape[2].is_constant()) steps = std::min(steps, shape[2].value());
  const Dim rows = shape[0] * shape[1] * Dim(steps);
  if (steps == 0)
    return node.output(node.builder().constant(ir::Tensor::from_ints(DType::kInt64, {0, 3}, {})));

  const Boxes all = read_boxes(boxes, centred);
  const Term places = iota(node, shape[2], 2, 3), none = size_of_dim(node, shape[2]);
  Term left = given;
  if (node.has_input(4))
    left = select(given.with("Greater", node.scalar(4, "score_threshold")), given,
                  given.number(-kInfinity));
  std::vector<ValueId> chosen, valid;
  for (std::int64_t step = 0; step < steps; ++step) {
    const Term best = reduce("ReduceMax", left, 2, true);
    const Term index = reduce("ReduceMin", select(left.with("Equal", best), places, none), 2, true);
    chosen.push_back(index.value());
    valid.push_back(best.with("Greater", -kInfinity).value());
    const Term gone = overlap(choose(node, all, index), all, most_overlap)
                          .with("Or", places.with("Equal", index));
    left = select(gone, left.number(-kInfinity), left);
  }
  const auto joined = [&](const std::vector<ValueId>& parts, std::int64_t axis) {
    return Term(node, parts.size() == 1 ? parts[0] : node.add("Concat", parts, {{"axis", axis}}));
  };
  const Term is_valid = joined(valid, 2);
  std::vector<ValueId> columns;
  for (const Term& column :
       {iota(node, shape[0], 0, 3), iota(node, shape[1], 1, 3), joined(chosen, 2)})
    columns.push_back(select(is_valid, column, column.number(-1)).reshape({rows, Dim(1)}).value());
  Term result = joined(columns, 1);
  if (shape[0] * shape[1] != Dim(1)) {  // those of one class are in front as they are
    const Term last = select(is_valid, is_valid.cast(DType::kUInt8).number(0),
                             is_valid.cast(DType::kUInt8).number(1));
    const Term order(node,
                     node.add("ArgSort", {last.reshape({rows}).value()},
                              {{"axis", std::int64_t{0}}, {"count", std::vector<Dim>{rows}}}));
    result = take(result, {order.reshape({rows, Dim(1)}), iota(node, 3, 1, 2)});
  }
  node.output(result.value());
}

}  // namespace

const OpRows kSuppressionOps = {{"NonMaxSuppression", 10, non_max_suppression, "center_point_box"}};

}  // namespace sinter::frontend
