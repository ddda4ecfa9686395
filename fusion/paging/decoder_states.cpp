// SPDX-License-Identifier: Apache-2.0
#include "fusion/paging/decoder_states.h"

#include <algorithm>
#include <numeric>

#include "ir/recurrence/linear_attention.h"

namespace sinter::fusion {
namespace {

/// A value behind casts and transpositions, which are noted in `nodes`; `perm` is what they do.
struct Behind {
  ValueId value;
  Ints perm;
};

Behind behind_views(const Graph& graph, ValueId value, std::vector<NodeId>& nodes) {
  Ints perm(graph.type(value).shape.size());
  std::iota(perm.begin(), perm.end(), 0);
  for (const Node* node = graph.producer(value); node != nullptr; node = graph.producer(value)) {
    if (node->op->name == "Transpose") {
      const Ints& own = node->attrs.get_ints("perm");
      for (std::int64_t& d : perm) d = own[static_cast<std::size_t>(d)];
    } else if (node->op->name != "Cast") {
      break;
    }
    nodes.push_back(graph.value(value).producer);
    value = node->inputs[0];
  }
  return {value, perm};
}

/// Whether what goes in through `in` comes out through `out` in its places.
bool are_inverse(const Ints& in, const Ints& out) {
  if (in.size() != out.size()) return false;
  for (std::size_t d = 0; d < in.size(); ++d)
    if (in[static_cast<std::size_t>(out[d])] != static_cast<std::int64_t>(d)) return false;
  return true;
}

bool is_only_read_by(const Graph& graph, ValueId value, const std::vector<NodeId>& nodes) {
  return !graph.is_output(value) && std::ranges::all_of(graph.users(value), [&](NodeId user) {
    return std::ranges::find(nodes, user) != nodes.end();
  });
}

/// The convolution that alone reads the rows `both` beside the nodes `around`.
std::optional<NodeId> conv_of(const Graph& graph, ValueId both, std::vector<NodeId>& around) {
  std::optional<NodeId> conv;
  for (const NodeId user : graph.users(both)) {
    if (std::ranges::find(around, user) != around.end()) continue;
    if (conv) return std::nullopt;
    conv = user;
  }
  while (conv && graph.node(*conv).op->name == "Cast") {
    const ValueId cast = graph.node(*conv).outputs[0];
    around.push_back(*conv);
    if (graph.users(cast).size() != 1 || graph.is_output(cast)) return std::nullopt;
    conv = graph.users(cast)[0];
  }
  if (!conv || graph.node(*conv).op->name != "Conv") return std::nullopt;
  return conv;
}

/// Whether the Conv takes each channel by itself, along as many rows as are kept and one.
bool is_causal(const Graph& graph, const Node& conv, std::int64_t kept) {
  const Shape& weights = graph.type(conv.inputs[1]).shape;
  if (weights.size() != 3 || weights[1] != Dim(1) || !weights[2].is_constant()) return false;
  const Ints zero{0}, one{1};
  return conv.attrs.get_int("channels_last") == 0 &&
         weights[0] == Dim(conv.attrs.get_int("group")) && conv.attrs.get_ints("strides") == one &&
         conv.attrs.get_ints("pads_begin") == zero && conv.attrs.get_ints("pads_end") == zero &&
         weights[2].value() > 1 &&
         conv.attrs.get_ints("dilations")[0] * (weights[2].value() - 1) == kept;
}

std::optional<DecoderState> conv_state(const Graph& graph, DecoderState state, const Behind& out) {
  const Node* const last = graph.producer(out.value);
  if (last == nullptr || last->op->name != "Slice") return std::nullopt;
  const ValueId both = last->inputs[0];
  const Node* const join = graph.producer(both);
  if (join == nullptr || join->op->name != "Concat" || join->inputs.size() != 2 ||
      join->attrs.get_int("axis") != 2 || graph.type(both).shape.size() != 3)
    return std::nullopt;
  state.state = join->inputs[0];
  state.rows = join->inputs[1];
  const Behind in = behind_views(graph, state.state, state.around);
  const Shape& kept = graph.type(state.state).shape;
  const std::vector<Dim> starts{Dim(0), Dim(0), graph.type(state.rows).shape[2]};
  if (!graph.input_number(in.value) || !are_inverse(in.perm, out.perm) ||
      last->attrs.get_dims("starts") != starts || last->attrs.get_dims("shape") != kept ||
      last->attrs.get_ints("steps") != Ints{1, 1, 1} || !kept[2].is_constant())
    return std::nullopt;
  state.input = in.value;
  state.around.push_back(graph.value(out.value).producer);
  const auto layer = conv_of(graph, both, state.around);
  state.around.push_back(graph.value(both).producer);
  if (!layer || !is_causal(graph, graph.node(*layer), kept[2].value())) return std::nullopt;
  state.layer = *layer;
  return state;
}

std::optional<DecoderState> layer_state(const Graph& graph, DecoderState state, const Behind& out) {
  const Node& node = *graph.producer(out.value);
  const auto operand = ir::linear_attention_inputs(node.attrs).state;
  if (!operand || node.outputs[1] != out.value) return std::nullopt;
  state.state = node.inputs[*operand];
  state.layer = graph.value(out.value).producer;
  const Behind in = behind_views(graph, state.state, state.around);
  if (!graph.input_number(in.value) || !are_inverse(in.perm, out.perm)) return std::nullopt;
  state.input = in.value;
  return state;
}

}  // namespace

std::optional<DecoderState> decoder_state(const Graph& graph, int output) {
  DecoderState state;
  state.output = output;
  const ValueId result = graph.outputs()[static_cast<std::size_t>(output)];
  const Behind out = behind_views(graph, result, state.around);
  const Node* const made = graph.producer(out.value);
  if (made == nullptr) return std::nullopt;
  const auto found = made->op->name == "LinearAttention" ? layer_state(graph, state, out)
                                                         : conv_state(graph, state, out);
  if (!found || !(graph.type(found->input) == graph.type(result))) return std::nullopt;
  std::vector<NodeId> readers = found->around;
  readers.push_back(found->layer);
  if (!is_only_read_by(graph, found->input, readers)) return std::nullopt;
  return found;
}

}  // namespace sinter::fusion
