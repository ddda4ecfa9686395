// SPDX-License-Identifier: Apache-2.0
#include "frontend/decoders/decoder_graph.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "frontend/decoders/graph_writer.h"
#include "ir/mixture/expert_rows.h"

namespace sinter::frontend {
namespace {

using ir::Dim;
using ir::Ints;
using ir::Shape;
using ir::ValueId;

class DecoderWriter {
 public:
  DecoderWriter(const DecoderConfig& config, DecoderWeights& weights, DType type)
      : c_(config), weights_(weights), w_("decoder", type) {}

  ir::Graph write() {
    declare();
    write_positions();
    w_.scope("embedding");
    ValueId x = embedding();
    for (std::size_t i = 0; i < c_.layers.size(); ++i) x = layer(x, i);
    w_.scope("head");
    x = w_.b.add("Gather", {x, w_.b.scalar(DType::kInt64, -1)}, {{"axis", std::int64_t{1}}});
    w_.b.output("logits", logits(norm(x, "output_norm")));
    for (std::size_t i = 0; i < caches_.size(); ++i)
      for (std::size_t j = 0; j < 2; ++j)
        w_.b.output(fmt::format("present_{}_{}", j == 0 ? "key" : "value", i), caches_[i][j]);
    return w_.b.finish();
  }

 private:
  // ---------------------------------------------------------------- inputs

  void declare() {
    const auto range = [&](const char* symbol, std::int64_t most) {
      ir::Range range;
      range.max = most;
      w_.b.range(symbol, range);
    };
    range("sequence", c_.positions);
    range("capacity", c_.positions);
    sequence_ = Dim::symbol("sequence");
    capacity_ = Dim::symbol("capacity");
    ids_ = w_.b.input("input_ids", {DType::kInt64, {Dim(1), sequence_}});
    position_ = w_.b.input("position", {DType::kInt64, {Dim(1)}});
    const bool counts_all = std::ranges::any_of(
        c_.rotaries, [](const Rotary& rotary) { return !rotary.long_frequencies.empty(); });
    if (counts_all) {
      range("total", c_.positions);
      w_.b.input("attention_mask", {DType::kInt64, {Dim(1), Dim::symbol("total")}});
    }
    const Shape shape{Dim(1), Dim(c_.kv_heads), capacity_, Dim(c_.head_size)};
    for (std::size_t i = 0; i < c_.layers.size(); ++i)
      caches_.push_back({w_.b.input(fmt::format("past_key_{}", i), {w_.type(), shape}),
                         w_.b.input(fmt::format("past_value_{}", i), {w_.type(), shape})});
  }

  void write_positions() {
    w_.scope("positions");
    const ValueId places = w_.add("Add", w_.iota(sequence_, 0, 1), position_);
    row_ = w_.reshape(places, {sequence_, Dim(1)});
    places_ = w_.reshape(places, {Dim(1), sequence_});
    key_ = w_.iota(capacity_, 0, 1);
    for (const Rotary& rotary : c_.rotaries)
      angles_.push_back(rotary.long_frequencies.empty() ? computed_angles(rotary)
                                                        : tabled_angles(rotary));
  }

  /// Cosines and sines [1, 1, sequence, pairs].
  using Angles = std::array<ValueId, 2>;

  /// Computed in each step, in float32: a table of them would be larger than some models.
  Angles computed_angles(const Rotary& rotary) {
    const auto pairs = static_cast<std::int64_t>(rotary.frequencies.size());
    const ValueId frequencies =
        w_.b.constant(ir::Tensor::of(DType::kFloat32, Ints{1, 1, 1, pairs}, rotary.frequencies));
    const ValueId at =
        w_.reshape(w_.cast(places_, DType::kFloat32), {Dim(1), Dim(1), sequence_, Dim(1)});
    const ValueId angles = w_.add("Mul", at, frequencies);
    const auto result = [&](const char* op) {
      return w_.cast(w_.scaled(w_.b.add(op, {angles}), rotary.factor), w_.type());
    };
    return {result("Cos"), result("Sin")};
  }

  /// Rows for short texts, then those for long ones.
  Angles tabled_angles(const Rotary& rotary) {
    const auto pairs = static_cast<std::int64_t>(rotary.frequencies.size());
    const std::int64_t rows = rotary.original + c_.positions;
    const auto result = [&](bool is_cosine) {
      std::vector<float> table;
      table.reserve(static_cast<std::size_t>(rows * pairs));
      for (std::int64_t row = 0; row < rows; ++row) {
        const bool is_long = row >= rotary.original;
        const auto at = static_cast<float>(is_long ? row - rotary.original : row);
        for (const float frequency : is_long ? rotary.long_frequencies : rotary.frequencies)
          table.push_back((is_cosine ? std::cos(at * frequency) : std::sin(at * frequency)) *
                          static_cast<float>(rotary.factor));
      }
      const Dim more = Dim::symbol("total") - Dim(rotary.original);
      const Dim is_long = ir::min(ir::max(more, Dim(0)), Dim(1));
      const ValueId part = w_.b.add(
          "Slice", {w_.b.constant(ir::Tensor::of(DType::kFloat32, Ints{rows, pairs}, table))},
          {{"starts", std::vector<Dim>{is_long * Dim(rotary.original), Dim(0)}},
           {"steps", Ints{1, 1}},
           {"shape", Shape{Dim(c_.positions), Dim(pairs)}}});
      const ValueId own = w_.b.add("Gather", {part, places_}, {{"axis", std::int64_t{0}}});
      return w_.cast(w_.reshape(own, {Dim(1), Dim(1), sequence_, Dim(pairs)}), w_.type());
    };
    return {result(true), result(false)};
  }

  /// Whether a token sees a key: bool [sequence, capacity].
  ValueId mask(std::int64_t window) {
    ValueId& mask = masks_[window];
    if (mask.valid()) return mask;
    const ir::GraphBuilder::OriginScope scope(w_.b, {"positions/mask"});
    mask = w_.add("LessOrEqual", key_, row_);
    if (window > 0) {
      const ValueId first =
          w_.add("Sub", row_, w_.b.scalar(DType::kInt64, static_cast<double>(window)));
      mask = w_.add("And", mask, w_.add("Greater", key_, first));
    }
    return mask;
  }

  // ---------------------------------------------------------------- weights

  /// A vector in the type of activations, or as f32.
  ValueId vector(const std::string& name, std::int64_t size, bool is_wide = false,
                 const Ints& order = {}) {
    const ValueId value = w_.b.constant(weights_.take_plain(name, {size}, order), name);
    return w_.cast(value, is_wide ? DType::kFloat32 : w_.type());
  }

  /// x times the transpose of weights [rows, columns], and their bias. `has_bias`: nothing, if the
  /// file says it. `order`: of the rows.
  ValueId linear(ValueId x, std::string_view what, std::size_t layer, std::int64_t rows,
                 std::int64_t columns, std::optional<bool> has_bias, const Ints& order = {}) {
    const std::string name = weights_.name(std::string(what) + ".weight", layer);
    ValueId y = w_.product(x, weights_.take_rows(name, {rows, columns}, order), name);
    const std::string bias = weights_.name(std::string(what) + ".bias", layer);
    if (has_bias.value_or(weights_.has(bias)))
      y = w_.add("Add", y, vector(bias, rows, false, order));
    return y;
  }

  /// Rows of queries or keys such that elements which turn together are half of them apart.
  Ints order_of(std::int64_t heads) const {
    Ints order;
    if (!c_.rotates_neighbours) return order;
    const auto pairs = static_cast<std::int64_t>(c_.rotaries.front().frequencies.size());
    for (std::int64_t head = 0; head < heads; ++head)
      for (std::int64_t i = 0; i < c_.head_size; ++i) {
        const std::int64_t from = i < pairs ? 2 * i : i < 2 * pairs ? 2 * (i - pairs) + 1 : i;
        order.push_back(head * c_.head_size + from);
      }
    return order;
  }

  /// Leaves the table for a head that shares it.
  ValueId embedding() {
    const std::string name = weights_.name("token_embd.weight");
    table_ = weights_.take(name, {c_.vocabulary, c_.hidden});
    const ValueId rows = w_.rows(*table_, name, ids_);
    return w_.scaled(rows, c_.embedding_scale);
  }

  ValueId logits(ValueId x) {
    const std::string name = weights_.name("output.weight");
    const std::string shared = weights_.name("token_embd.weight");
    ValueId y;
    if (c_.is_tied) {
      if (weights_.has(name)) weights_.take(name, {c_.vocabulary, c_.hidden});  // the same
      y = w_.product(x, *table_, shared);
    } else {
      y = w_.product(x, weights_.take(name, {c_.vocabulary, c_.hidden}), name);
    }
    return w_.capped(w_.scaled(y, c_.logit_scale), c_.logit_cap);
  }

  // ---------------------------------------------------------------- layers

  /// Over the last dimension, with the weights `what`.
  ValueId norm(ValueId x, std::string_view what, std::optional<std::size_t> layer = {},
               std::int64_t size = 0) {
    if (size == 0) size = c_.hidden;
    const auto name = [&](const char* part) {
      return weights_.name(std::string(what) + part, layer);
    };
    const ir::Attrs attrs{{"axis", static_cast<std::int64_t>(w_.shape(x).size() - 1)},
                          {"epsilon", c_.epsilon}};
    switch (c_.norm) {
      case NormKind::kRms: return w_.b.add("RmsNorm", {x, vector(name(".weight"), size)}, attrs);
      case NormKind::kRmsPlusOne: {
        // 1 + w has more bits than 16-bit types have.
        const ValueId weight =
            w_.add("Add", vector(name(".weight"), size, true), w_.b.scalar(DType::kFloat32, 1));
        return w_.cast(w_.b.add("RmsNorm", {w_.cast(x, DType::kFloat32), weight}, attrs),
                       w_.type());
      }
      case NormKind::kLayer: {
        std::vector<ValueId> inputs{x, vector(name(".weight"), size)};
        if (weights_.has(name(".bias"))) inputs.push_back(vector(name(".bias"), size));
        return w_.b.add("LayerNorm", std::move(inputs), attrs);
      }
      case NormKind::kPlainLayer: return w_.b.add("LayerNorm", {x, w_.ones(size)}, attrs);
    }
    return x;
  }

  ValueId layer(ValueId x, std::size_t i) {
    w_.scope(fmt::format("layer.{}", i));
    const auto joined = [&](ValueId to, ValueId more) {
      return w_.add("Add", to, w_.scaled(more, c_.residual_scale));
    };
    switch (c_.residual) {
      case Residual::kPre:
        x = joined(x, attention(norm(x, "attn_norm", i), i));
        return joined(x, mlp(norm(x, "ffn_norm", i), i));
      case Residual::kPost:
        x = joined(x, norm(attention(x, i), "post_attention_norm", i));
        return joined(x, norm(mlp(x, i), "post_ffw_norm", i));
      case Residual::kSandwich:
        x = joined(x, norm(attention(norm(x, "attn_norm", i), i), "post_attention_norm", i));
        return joined(x, norm(mlp(norm(x, "ffn_norm", i), i), "post_ffw_norm", i));
      case Residual::kParallel:
      case Residual::kShared: {
        const ValueId first = norm(x, "attn_norm", i);
        const ValueId second = c_.residual == Residual::kShared ? first : norm(x, "ffn_norm", i);
        const ValueId attended = joined(x, attention(first, i));
        return joined(attended, mlp(second, i));
      }
    }
    return x;
  }

  ValueId mlp(ValueId x, std::size_t i) {
    if (weights_.has(weights_.name("ffn_gate_inp.weight", i))) return mixture(x, i);
    const std::int64_t inner = c_.intermediate;
    const auto activated = [&](ValueId value) { return w_.activated(value, c_.activation); };
    ValueId y;
    if (!c_.is_gated) {
      y = activated(linear(x, "ffn_up", i, inner, c_.hidden, c_.mlp_bias));
    } else if (weights_.has(weights_.name("ffn_gate.weight", i))) {
      const ValueId gate = activated(linear(x, "ffn_gate", i, inner, c_.hidden, c_.mlp_bias));
      y = w_.add("Mul", gate, linear(x, "ffn_up", i, inner, c_.hidden, c_.mlp_bias));
    } else {
      // One matrix: first the rows of the gate.
      const ValueId both = linear(x, "ffn_up", i, 2 * inner, c_.hidden, c_.mlp_bias);
      y = w_.add("Mul", activated(w_.part(both, 2, 0, inner)), w_.part(both, 2, inner, inner));
    }
    return linear(y, "ffn_down", i, c_.hidden, inner, c_.mlp_bias);
  }

  /// A mixture of experts, and what all tokens go through beside it.
  ValueId mixture(ValueId x, std::size_t i) {
    const ExpertsConfig& e = c_.experts;
    const ValueId tokens = w_.reshape(x, {sequence_, Dim(c_.hidden)});
    const ValueId logits = linear(tokens, "ffn_gate_inp", i, e.count, c_.hidden, false);
    const auto routed = w_.b.add_multi("Route", {logits},
                                       {{"k", e.chosen},
                                        {"scores", std::string("softmax")},
                                        {"normalise", std::int64_t{e.normalises}}});
    const ir::ExpertRows rows = ir::sort_by_expert(w_.b, routed[0], e.count);
    const auto product = [&](ValueId of, const char* what, std::int64_t n, std::int64_t k) {
      const std::string name = weights_.name(fmt::format("{}.weight", what), i);
      return w_.grouped_product(of, weights_.take_matrices(name, e.count, n, k), name,
                                rows.offsets);
    };
    const auto activated = [&](ValueId value) { return w_.activated(value, c_.activation); };
    const std::int64_t inner = e.intermediate;
    const ValueId own = ir::take_tokens(w_.b, rows, tokens);
    const std::string both = weights_.name("ffn_up_exps.weight", i);
    ValueId h;
    if (weights_.has(both) && weights_.shape(both)[1] == 2 * inner) {
      const ValueId all = product(own, "ffn_up_exps", 2 * inner, c_.hidden);
      h = w_.add("Mul", activated(w_.part(all, 1, 0, inner)), w_.part(all, 1, inner, inner));
    } else {
      const ValueId gate = activated(product(own, "ffn_gate_exps", inner, c_.hidden));
      h = w_.add("Mul", gate, product(own, "ffn_up_exps", inner, c_.hidden));
    }
    ValueId y =
        ir::combine_rows(w_.b, rows, product(h, "ffn_down_exps", c_.hidden, inner), routed[1]);
    if (e.shared > 0) {
      const ValueId gate =
          activated(linear(tokens, "ffn_gate_shexp", i, e.shared, c_.hidden, false));
      const ValueId up = linear(tokens, "ffn_up_shexp", i, e.shared, c_.hidden, false);
      const ValueId shared =
          linear(w_.add("Mul", gate, up), "ffn_down_shexp", i, c_.hidden, e.shared, false);
      const std::string share = weights_.name("ffn_gate_inp_shexp.weight", i);
      const bool is_vector = weights_.has(share) && weights_.shape(share).size() == 1;
      const ValueId weight =
          is_vector ? w_.reshape(vector(share, c_.hidden), {Dim(c_.hidden), Dim(1)}) : ValueId();
      const ValueId logit = is_vector
                                ? w_.add("MatMul", tokens, weight)
                                : linear(tokens, "ffn_gate_inp_shexp", i, 1, c_.hidden, false);
      const ValueId part = w_.add("Mul", shared, w_.b.add("Sigmoid", {logit}));
      y = w_.add("Add", y, w_.cast(part, DType::kFloat32));
    }
    return w_.reshape(w_.cast(y, w_.type()), {Dim(1), sequence_, Dim(c_.hidden)});
  }

  /// Queries, keys and values [1, sequence, heads * size].
  std::array<ValueId, 3> projections(ValueId x, std::size_t i) {
    const std::int64_t size = c_.head_size, q = c_.heads * size, kv = c_.kv_heads * size;
    if (weights_.has(weights_.name("attn_qkv.weight", i))) {
      const ValueId all = linear(x, "attn_qkv", i, q + 2 * kv, c_.hidden, c_.qkv_bias);
      if (!c_.mixes_heads)
        return {w_.part(all, 2, 0, q), w_.part(all, 2, q, kv), w_.part(all, 2, q + kv, kv)};
      if (c_.heads != c_.kv_heads)
        throw Error(ErrorCode::kUnsupported,
                    "its fused queries, keys and values have groups of heads");
      const ValueId by_head = w_.reshape(all, {Dim(1), sequence_, Dim(c_.heads), Dim(3 * size)});
      const auto third = [&](std::int64_t n) {
        return w_.reshape(w_.part(by_head, 3, n * size, size), {Dim(1), sequence_, Dim(q)});
      };
      return {third(0), third(1), third(2)};
    }
    return {linear(x, "attn_q", i, q, c_.hidden, c_.qkv_bias, order_of(c_.heads)),
            linear(x, "attn_k", i, kv, c_.hidden, c_.qkv_bias, order_of(c_.kv_heads)),
            linear(x, "attn_v", i, kv, c_.hidden, c_.qkv_bias)};
  }

  ValueId split(ValueId x, std::int64_t heads) {
    return w_.transpose(w_.reshape(x, {Dim(1), sequence_, Dim(heads), Dim(c_.head_size)}),
                        {0, 2, 1, 3});
  }

  /// Queries or keys by heads [1, heads, sequence, size], normalised as the model has it.
  ValueId normalised_heads(ValueId x, const char* what, std::size_t i, std::int64_t heads) {
    if (c_.head_norms == HeadNorms::kWidth)
      return split(norm(x, what, i, heads * c_.head_size), heads);
    x = split(x, heads);
    if (c_.head_norms == HeadNorms::kEach) return norm(x, what, i, c_.head_size);
    if (c_.head_norms == HeadNorms::kNone) return x;
    const ValueId normal = w_.b.add("LayerNorm", {x, w_.ones(c_.head_size)},
                                    {{"axis", std::int64_t{3}}, {"epsilon", c_.epsilon}});
    return w_.add("Mul", normal, own_weights(what, i, heads));
  }

  /// [heads, 1, size]: GGUF has one tensor, a folder one for each head.
  ValueId own_weights(const char* what, std::size_t i, std::int64_t heads) {
    const Shape shape{Dim(heads), Dim(1), Dim(c_.head_size)};
    const std::string whole = weights_.name(std::string(what) + ".weight", i);
    if (weights_.has(whole))
      return w_.cast(
          w_.reshape(w_.b.constant(weights_.take_plain(whole, {heads, c_.head_size}), whole),
                     shape),
          w_.type());
    std::vector<ValueId> each;
    const std::string stem = whole.substr(0, whole.rfind('.'));
    for (std::int64_t head = 0; head < heads; ++head)
      each.push_back(w_.reshape(vector(fmt::format("{}.{}.weight", stem, head), c_.head_size),
                                {Dim(1), Dim(1), Dim(c_.head_size)}));
    return each.size() == 1 ? each[0]
                            : w_.b.add("Concat", std::move(each), {{"axis", std::int64_t{0}}});
  }

  ValueId attention(ValueId x, std::size_t i) {
    auto [q, k, v] = projections(x, i);
    q = normalised_heads(q, "attn_q_norm", i, c_.heads);
    k = normalised_heads(k, "attn_k_norm", i, c_.kv_heads);
    v = split(v, c_.kv_heads);
    if (c_.clip > 0)
      for (ValueId* each : {&q, &k, &v})
        *each = w_.b.add("Clip", {*each, w_.number(-c_.clip), w_.number(c_.clip)});
    if (const auto rotary = c_.layers[i].rotary) {
      const auto& [cos, sin] = angles_[static_cast<std::size_t>(*rotary)];
      q = w_.rotated(q, cos, sin);
      k = w_.rotated(k, cos, sin);
    }
    auto& [keys, values] = caches_[i];
    keys = w_.put_rows(keys, k, position_);
    values = w_.put_rows(values, v, position_);
    const ValueId y =
        w_.attended(q, keys, values, mask(c_.layers[i].window), c_.score_scale, c_.score_cap);
    const std::int64_t width = c_.heads * c_.head_size;
    const ValueId merged =
        w_.reshape(w_.transpose(y, {0, 2, 1, 3}), {Dim(1), sequence_, Dim(width)});
    return linear(merged, "attn_output", i, c_.hidden, width, c_.output_bias);
  }

  const DecoderConfig& c_;
  DecoderWeights& weights_;
  GraphWriter w_;
  Dim sequence_, capacity_;
  ValueId ids_, position_, row_, places_, key_;
  std::vector<std::array<ValueId, 2>> caches_;  // keys and values
  std::vector<Angles> angles_;
  std::map<std::int64_t, ValueId> masks_;  // by window
  std::optional<StoredTensor> table_;
};

}  // namespace

ir::Graph decoder_graph(const DecoderConfig& config, DecoderWeights& weights, DType type) {
  return DecoderWriter(config, weights, type).write();
}

}  // namespace sinter::frontend
