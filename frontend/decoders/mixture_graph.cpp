// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts of decoders.
#include "frontend/decoders/layer_writer.h"
#include "ir/mixture/expert_rows.h"

namespace sinter::frontend {

using ir::Dim;
using ir::Shape;
using ir::ValueId;

struct LayerWriter::Experts {
  ir::ExpertRows rows;
  ValueId shares;  // f32 [tokens, chosen]
};

LayerWriter::Experts LayerWriter::route(ValueId tokens, std::size_t layer) {
  const ExpertsConfig& e = c_.experts;
  std::vector<ValueId> inputs{linear(tokens, "ffn_gate_inp", layer, e.count, c_.hidden, {})};
  if (e.corrects) inputs.push_back(vector(weights_.name("exp_probs_b.bias", layer), e.count, true));
  const auto routed = w_.b.add_multi("Route", std::move(inputs),
                                     {{"k", e.chosen},
                                      {"scores", std::string(e.is_sigmoid ? "sigmoid" : "softmax")},
                                      {"normalise", std::int64_t{e.normalises}},
                                      {"epsilon", e.is_sigmoid ? 1e-20 : 0.0},
                                      {"scale", e.share_scale},
                                      {"groups", e.groups},
                                      {"kept_groups", e.kept_groups},
                                      {"group_scores", std::int64_t{e.groups > 1 ? 2 : 1}}});
  return {ir::sort_by_expert(w_.b, routed[0], e.count), routed[1]};
}

/// With the biases of the rows' experts, where the file has them.
ValueId LayerWriter::product(const Experts& experts, ValueId of, const char* what,
                             std::size_t layer, std::int64_t n, std::int64_t k) {
  const std::int64_t count = c_.experts.count;
  const std::string name = weights_.name(fmt::format("{}.weight", what), layer),
                    bias = weights_.name(fmt::format("{}.bias", what), layer);
  const bool by_columns = c_.experts.by_columns && !weights_.has_blocks(name);
  const StoredTensor matrices = by_columns ? weights_.take_matrices(name, count, k, n)
                                           : weights_.take_matrices(name, count, n, k);
  const ValueId y = w_.grouped_product(of, matrices, name, experts.rows.offsets, !by_columns);
  if (!weights_.has(bias)) return y;
  const ValueId all = w_.b.constant(weights_.take_plain(bias, {count, n}), bias);
  return w_.add("Add", y, ir::take_experts(w_.b, experts.rows, w_.cast(all, w_.type())));
}

/// What goes into the experts' last matrices.
ValueId LayerWriter::gated(const Experts& experts, ValueId own, std::size_t layer) {
  const ExpertsConfig& e = c_.experts;
  const std::int64_t inner = e.intermediate;
  const std::string both = weights_.name("ffn_up_exps.weight", layer);
  ValueId gate, up;
  if (e.is_fused || (weights_.has(both) && weights_.shape(both)[1] == 2 * inner)) {
    const ValueId all = product(experts, own, "ffn_up_exps", layer, 2 * inner, c_.hidden);
    if (e.is_fused) {
      // Columns of gate and up alternate.
      const Dim rows = w_.shape(all)[0];
      const ValueId pairs = w_.reshape(all, {rows, Dim(inner), Dim(2)});
      gate = w_.reshape(w_.part(pairs, 2, 0, 1), {rows, Dim(inner)});
      up = w_.reshape(w_.part(pairs, 2, 1, 1), {rows, Dim(inner)});
    } else {
      gate = w_.part(all, 1, 0, inner);
      up = w_.part(all, 1, inner, inner);
    }
  } else {
    gate = product(experts, own, "ffn_gate_exps", layer, inner, c_.hidden);
    up = product(experts, own, "ffn_up_exps", layer, inner, c_.hidden);
  }
  if (e.limit == 0) return w_.add("Mul", w_.activated(gate, c_.activation), up);
  constexpr double kSlope = 1.702;
  const ValueId limit = w_.number(e.limit);
  gate = w_.add("Min", gate, limit);
  up = w_.b.add("Clip", {up, w_.number(-e.limit), limit});
  const ValueId share = w_.b.add("Sigmoid", {w_.scaled(gate, kSlope)});
  return w_.add("Mul", w_.add("Mul", gate, share), w_.add("Add", up, w_.number(1)));
}

/// What all tokens go through, f32.
ValueId LayerWriter::shared_expert(ValueId tokens, std::size_t layer) {
  const std::int64_t inner = c_.experts.shared, hidden = c_.hidden;
  ValueId gate, up;
  if (weights_.has(weights_.name("ffn_gate_shexp.weight", layer))) {
    gate = linear(tokens, "ffn_gate_shexp", layer, inner, hidden, false);
    up = linear(tokens, "ffn_up_shexp", layer, inner, hidden, false);
  } else {
    // One matrix: first the rows of the gate.
    const ValueId both = linear(tokens, "ffn_up_shexp", layer, 2 * inner, hidden, false);
    gate = w_.part(both, 1, 0, inner);
    up = w_.part(both, 1, inner, inner);
  }
  gate = w_.activated(gate, c_.activation);
  const ValueId y = linear(w_.add("Mul", gate, up), "ffn_down_shexp", layer, hidden, inner, false);
  if (!c_.experts.shared_has_share) return w_.cast(y, DType::kFloat32);
  const std::string share = weights_.name("ffn_gate_inp_shexp.weight", layer);
  const bool is_vector = weights_.has(share) && weights_.shape(share).size() == 1;
  const ValueId weight =
      is_vector ? w_.reshape(vector(share, hidden), {Dim(hidden), Dim(1)}) : ValueId();
  const ValueId logit = is_vector ? w_.add("MatMul", tokens, weight)
                                  : linear(tokens, "ffn_gate_inp_shexp", layer, 1, hidden, false);
  return w_.cast(w_.add("Mul", y, w_.b.add("Sigmoid", {logit})), DType::kFloat32);
}

ValueId LayerWriter::mixture(ValueId x, std::size_t layer) {
  const Shape shape = w_.shape(x);
  const ValueId tokens = w_.reshape(x, {shape[0] * shape[1], shape[2]});
  const Experts experts = route(tokens, layer);
  const ValueId own = ir::take_tokens(w_.b, experts.rows, tokens);
  const ValueId down = product(experts, gated(experts, own, layer), "ffn_down_exps", layer,
                               c_.hidden, c_.experts.intermediate);
  ValueId y = ir::combine_rows(w_.b, experts.rows, down, experts.shares);
  if (c_.experts.shared > 0) y = w_.add("Add", y, shared_expert(tokens, layer));
  return w_.reshape(w_.cast(y, w_.type()), shape);
}

}  // namespace sinter::frontend
