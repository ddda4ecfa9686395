// SPDX-License-Identifier: Apache-2.0
#include "fusion/paging/paged_states.h"

#include <algorithm>
#include <utility>

namespace sinter::fusion {

namespace names = paged_names;

void PagedStates::declare_inputs(GraphBuilder& builder, const PagingOptions& options) {
  if (empty()) return;
  const Dim tokens = Dim::symbol(names::kTokens), stores = Dim::symbol(names::kStores);
  Range of_stores;
  of_stores.max = options.max_step_tokens;
  of_stores.symbolic_max = std::make_shared<const Dim>(tokens);
  builder.range(names::kStores, of_stores);
  Range of_pools;
  of_pools.max = kMostStates;
  builder.range(names::kPooledStates, of_pools);
  const auto add = [&](const char* name, const Dim& count) {
    return builder.input(name, {DType::kInt32, {count}});
  };
  offsets_ = add(names::kStateOffsets, tokens);
  sources_ = add(names::kStateSources, tokens);
  slots_ = add(names::kStateSlots, tokens);
  stores_ = add(names::kStateStores, stores);
}

void PagedStates::declare_pools(GraphBuilder& builder) {
  for (const DecoderState& state : states_) {
    TensorType type = graph_.type(state.state);
    type.shape[0] = Dim::symbol(names::kPooledStates);
    // Rows of a convolution's inputs are gathered whole.
    if (state.is_conv()) std::swap(type.shape[1], type.shape[2]);
    pools_.push_back(builder.input(graph_.value(state.input).name, type));
  }
}

bool PagedStates::is_around(NodeId node) const {
  return std::ranges::any_of(states_, [&](const DecoderState& state) {
    return std::ranges::find(state.around, node) != state.around.end();
  });
}

const DecoderState* PagedStates::of_layer(NodeId node) const {
  const auto at = std::ranges::find(states_, node, &DecoderState::layer);
  return at == states_.end() ? nullptr : &*at;
}

const DecoderState* PagedStates::at_output(std::size_t output) const {
  const auto at = std::ranges::find(states_, static_cast<int>(output), &DecoderState::output);
  return at == states_.end() ? nullptr : &*at;
}

void PagedStates::add_stores(GraphBuilder& builder) {
  if (!waiting_) return;
  const auto [number, rows] = *std::exchange(waiting_, {});
  results_[number] =
      builder.add("CausalConvStates", {rows, pools_[number], offsets_, sources_, slots_, stores_});
}

ValueId PagedStates::add_layer(GraphBuilder& builder, const DecoderState& state, ValueId starts,
                               const std::function<ValueId(ValueId)>& mapped) {
  add_stores(builder);
  const Node& node = graph_.node(state.layer);
  const ValueId pool = pools_[number(state)];
  ValueId& result = results_[number(state)];
  if (!state.is_conv()) {
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs)
      inputs.push_back(input == state.state ? pool : mapped(input));
    inputs.insert(inputs.end(), {starts, sources_, slots_});
    Attrs attrs = node.attrs;
    attrs.set("ragged", std::int64_t{1});
    const auto both = builder.add_multi("LinearAttention", std::move(inputs), attrs);
    result = both[1];
    return both[0];
  }
  // [1, channels, tokens] as rows, and back.
  const auto with = [&](const char* op, ValueId value, const char* name, const auto& attr) {
    return builder.add(op, {value}, {{name, attr}});
  };
  const ValueId rows = mapped(state.rows);
  const Shape shape = builder.type(rows).shape;
  const Dim &channels = shape[1], &tokens = shape[2];
  const ValueId turned = with("Transpose", with("Reshape", rows, "shape", Shape{channels, tokens}),
                              "perm", Ints{1, 0});
  const ValueId given = mapped(node.inputs[1]);
  const ValueId weights =
      with("Reshape", given, "shape", Shape{channels, builder.type(given).shape[2]});
  std::vector<ValueId> inputs{turned, pool, offsets_, sources_, weights};
  if (node.inputs.size() > 2) inputs.push_back(mapped(node.inputs[2]));
  ValueId out = builder.add("CausalConv", std::move(inputs),
                            {{"dilation", node.attrs.get_ints("dilations")[0]}});
  waiting_ = {number(state), turned};
  const TensorType& type = graph_.type(node.outputs[0]);
  out = with("Transpose", out, "perm", Ints{1, 0});
  if (builder.type(out).dtype != type.dtype) out = with("Cast", out, "to", ir::Attr(type.dtype));
  return with("Reshape", out, "shape", Shape{Dim(1), channels, tokens});
}

}  // namespace sinter::fusion
