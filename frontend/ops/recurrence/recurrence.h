// SPDX-License-Identifier: Apache-2.0
// What importers of layers with states share.
#pragma once

#include <functional>
#include <string>

#include "frontend/ops/node_context.h"

namespace sinter::frontend {

/// What gates are computed in.
inline constexpr DType kGateType = DType::kFloat32;

/// Operands of the operator LinearAttention (ir/ops/recurrent/linear_attention.cpp), in its shapes.
struct Recurrence {
  ValueId query, key, value;
  ValueId decay = {}, beta = {}, state = {};  // invalid: none
  double scale = 1;
  /// i32 [sequences + 1]: the first tokens of sequences that are end to end, as batch 1, and the
  /// number of all tokens; invalid: none. States are then those of the sequences.
  ValueId starts = {};
};
struct RecurrenceResults {
  ValueId out, state;
};
RecurrenceResults add_recurrence(NodeContext& node, const Recurrence& layer);

/// The attribute "update_rule".
struct UpdateRule {
  bool is_gated, is_delta;
};
UpdateRule read_update_rule(NodeContext& node);
/// The attribute "scale"; 0 stands for 1 / sqrt(size of a key).
double read_scale(NodeContext& node, const Dim& key_size);

/// The attribute "state_window", W. States of a window are stacked in front: [W, ..], of which slot
/// j is the state behind token length - W + j; slots without such a token are zero.
std::int64_t read_window(NodeContext& node);
/// Slot W - 1 of `states`.
ValueId last_slot(NodeContext& node, ValueId states);
/// The slots: `slot(j)` is the state behind token length - W + j, or anything where there is none.
ValueId stack_slots(NodeContext& node, std::int64_t window, const Dim& length,
                    const std::function<ValueId(std::int64_t)>& slot);

/// `x` behind `count` zeros along `axis`.
ValueId behind_zeros(NodeContext& node, ValueId x, std::int64_t axis, std::int64_t count);

/// The attribute `name` is "none", "silu" or "swish": applies it.
ValueId activated(NodeContext& node, ValueId x);

/// com.microsoft's VarlenCausalConvWithState.
void ragged_causal_conv(NodeContext& node);

}  // namespace sinter::frontend
