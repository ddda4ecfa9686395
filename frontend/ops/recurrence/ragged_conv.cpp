// SPDX-License-Identifier: Apache-2.0
// com.microsoft's VarlenCausalConvWithState: sequences of different lengths end to end, whose first
// tokens see the last ones of a state.
#include "frontend/ops/control/unroll.h"
#include "frontend/ops/recurrence/recurrence.h"
#include "frontend/ops/table/checks.h"

namespace sinter::frontend {
namespace {

/// Integer arithmetic on positions.
struct Positions {
  NodeContext& node;

  ValueId number(std::int64_t value) const {
    return node.constant(DType::kInt64, static_cast<double>(value));
  }
  ValueId add(ValueId a, ValueId b) const { return node.add("Add", {a, b}); }
  ValueId sub(ValueId a, ValueId b) const { return node.add("Sub", {a, b}); }
  ValueId times(ValueId a, std::int64_t b) const { return node.add("Mul", {a, number(b)}); }
  ValueId count(const Dim& size, Shape shape) const {
    return node.reshape(node.folder().iota(size, DType::kInt64), std::move(shape));
  }
  /// Between 0 and `most`: offsets that make no sense read something, but nothing outside.
  ValueId clamped(ValueId value, ValueId most) const {
    return node.add("Min", {node.add("Max", {value, number(0)}), most});
  }
};

}  // namespace

void ragged_causal_conv(NodeContext& node) {
  if (node.has_input(6) || node.has_input(7))
    node.unsupported("its weights differ by token (kernel_delta, previous_mask): only static ones");
  const ValueId x = node.input(0, "input"), weights = node.input(1, "weight"),
                bounds = node.input(2, "cumulative_sequence_length"),
                initial = node.input(4, "initial_state");
  const std::int64_t dilation = node.attr_int("dilation", 1),
                     capacity = node.attr_int("state_update_capacity", 0);
  // ignores 'group_size' and 'delta_offset', of weights that differ by token
  if (dilation < 1) node.invalid("attribute 'dilation' is {}; it must be positive", dilation);
  if (capacity < 0 || capacity > 8)
    node.invalid("attribute 'state_update_capacity' is {}; it must be 0 to 8", capacity);
  if (node.has_input(5) != (capacity > 0))
    node.invalid("capture_count is there just if state_update_capacity is positive");
  if (node.rank(x) != 2 || node.rank(weights) != 3 || node.rank(bounds) != 1)
    node.invalid(
        "input {}, weight {} and cumulative_sequence_length {} must be [tokens, channels],"
        " [channels, 1, k] and [batch + 1]",
        node.type(x), node.type(weights), node.type(bounds));
  const Dim tokens = node.shape(x)[0], channels = node.shape(x)[1],
            batch = node.shape(bounds)[0] - Dim(1), taps = node.shape(weights)[2];
  if (!taps.is_constant() || taps.value() < 1)
    node.unsupported("the size of its kernel is symbolic: fix it");
  check_shape(node, weights, "weight", {channels, Dim(1), taps});
  const std::int64_t kept = (taps.value() - 1) * dilation;
  check_shape(node, initial, "initial_state", {batch, channels, Dim(kept)});
  const Positions at{node};
  const ValueId starts = node.cast(bounds, DType::kInt64);
  const auto bound = [&](std::int64_t first, Shape shape) {
    return node.reshape(part(node, starts, 0, Dim(first), batch), std::move(shape));
  };
  // All rows that may be read: the tokens, then each sequence's state.
  ValueId rows = x;
  if (kept > 0)
    rows = node.concat(
        {x, node.reshape(node.transpose(initial, {0, 2, 1}), {batch * Dim(kept), channels})}, 0);
  const ValueId last_row = node.folder().scalar_of(tokens + batch * Dim(kept) - Dim(1));
  /// The row of position `local` of sequence `sequence`, which begins at `start`.
  const auto row_of = [&](ValueId sequence, ValueId start, ValueId local) {
    const ValueId now = at.add(start, local);
    if (kept == 0) return at.clamped(now, last_row);
    const ValueId state = at.add(at.add(at.times(sequence, kept), local),
                                 node.folder().scalar_of(tokens + Dim(kept)));
    const ValueId is_now = node.add("LessOrEqual", {at.number(0), local});
    return at.clamped(node.add("Where", {is_now, now, state}), last_row);
  };
  const auto taken = [&](ValueId index) {
    return node.add("Gather", {rows, index}, {{"axis", std::int64_t{0}}});
  };

  // Each token's sequence: how many end at or in front of it.
  const ValueId token = at.count(tokens, {tokens, Dim(1)});
  const ValueId ended =
      node.cast(node.add("LessOrEqual", {bound(1, {Dim(1), batch}), token}), DType::kInt64);
  const ValueId sequence =
      at.clamped(node.add("ReduceSum", {ended}, {{"axes", Ints{1}}, {"keepdims", std::int64_t{1}}}),
                 node.folder().scalar_of(batch - Dim(1)));
  const ValueId start = node.add("Gather", {starts, sequence}, {{"axis", std::int64_t{0}}});
  std::vector<std::int64_t> distances;
  for (std::int64_t j = 0; j < taps.value(); ++j)
    distances.push_back((taps.value() - 1 - j) * dilation);
  const ValueId distance =
      node.builder().constant(ir::Tensor::from_ints(DType::kInt64, {1, taps.value()}, distances));
  const ValueId local = at.sub(at.sub(token, start), distance);
  const ValueId seen = taken(row_of(sequence, start, local));  // [tokens, taps, channels]
  const ValueId kernel = node.transpose(node.reshape(weights, {Dim(1), channels, taps}), {0, 2, 1});
  ValueId y = node.add(
      "ReduceSum", {node.add("Mul", {node.cast(seen, kGateType), node.cast(kernel, kGateType)})},
      {{"axes", Ints{1}}, {"keepdims", std::int64_t{0}}});
  if (node.has_input(3)) {
    const ValueId bias = node.input(3, "bias");
    check_shape(node, bias, "bias", {channels});
    y = node.add("Add", {y, node.cast(bias, kGateType)});
  }
  node.output(0, node.cast(activated(node, y), node.dtype(x)));

  const Shape by_sequence{batch, Dim(1)};
  const ValueId number = at.count(batch, by_sequence), first = bound(0, by_sequence),
                length = at.sub(bound(1, by_sequence), first);
  if (node.output_is_used(1)) {
    if (kept == 0) {
      node.output(1, initial);
    } else {
      const ValueId slot = at.count(Dim(kept), {Dim(1), Dim(kept)});
      const ValueId position = at.sub(at.add(length, slot), at.number(kept));
      node.output(1, node.transpose(taken(row_of(number, first, position)), {0, 2, 1}));
    }
  }
  if (!node.output_is_used(2)) return;
  if (capacity == 0) node.invalid("state_update has no capacity (state_update_capacity)");
  const ValueId captured = node.input(5, "capture_count");
  check_shape(node, captured, "capture_count", {batch});
  const ValueId most =
      node.add("Min", {node.reshape(node.cast(captured, DType::kInt64), by_sequence), length});
  const ValueId slot = at.count(Dim(capacity), {Dim(1), Dim(capacity)});
  const ValueId is_there =
      node.reshape(node.add("Less", {slot, most}), {batch, Dim(capacity), Dim(1)});
  const ValueId value = taken(at.clamped(at.add(first, slot), last_row));
  node.output(2, node.add("Where", {is_there, value, node.constant(node.dtype(x), 0)}));
}

}  // namespace sinter::frontend
