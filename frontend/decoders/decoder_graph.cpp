// SPDX-License-Identifier: Apache-2.0
#include "frontend/decoders/decoder_graph.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>
#include <sinter/error.h>

#include "frontend/decoders/layer_writer.h"
#include "frontend/model/import_options.h"

namespace sinter::frontend {
namespace {

using ir::Dim;
using ir::Ints;
using ir::Shape;
using ir::ValueId;

class DecoderWriter : private LayerWriter {
 public:
  DecoderWriter(const DecoderConfig& config, DecoderWeights& weights, DType type)
      : LayerWriter(config, weights, type) {}

  ir::Graph write() {
    declare();
    write_positions();
    w_.scope("embedding");
    ValueId x = embedding();
    for (std::size_t i = 0; i < c_.layers.size(); ++i) x = layer(x, i);
    w_.scope("head");
    if (is_of_texts()) {
      write_text_output(norm(x, "output_norm"), padding_);
      return w_.b.finish();
    }
    x = w_.b.add("Gather", {x, w_.b.scalar(DType::kInt64, -1)}, {{"axis", std::int64_t{1}}});
    w_.b.output("logits", logits(norm(x, last_norm())));
    const auto kept = [&](const char* what, std::size_t i, ValueId value) {
      if (value.valid()) w_.b.output(fmt::format("present_{}_{}", what, i), value);
    };
    for (std::size_t i = 0; i < c_.layers.size(); ++i) {
      kept("key", i, caches_[i][0]);
      kept("value", i, caches_[i][1]);
      kept("conv", i, states_[i].rows);
      kept("state", i, states_[i].state);
    }
    return w_.b.finish();
  }

 private:
  // ---------------------------------------------------------------- inputs

  /// GGUF's converter of LFM2 names the last norm by what it once was.
  const char* last_norm() const {
    return weights_.has(weights_.name("output_norm.weight")) ? "output_norm" : "token_embd_norm";
  }

  /// Whether layer `i` has attention, which its file says: else it has what c_.mixer says, or is
  /// an MLP alone.
  bool attends(std::size_t i) const {
    return c_.mixer.mixer == Mixer::kNone || weights_.has(weights_.name("attn_output.weight", i));
  }
  bool mixes(std::size_t i) const {
    return !attends(i) &&
           !(c_.residual == Residual::kSingle && weights_.has(weights_.name("ffn_down.weight", i)));
  }

  bool is_of_texts() const { return c_.text.use != TextUse::kNextToken; }

  void declare() {
    const auto range = [&](const char* symbol, std::int64_t most) {
      ir::Range range;
      range.max = most;
      w_.b.range(symbol, range);
    };
    if (is_of_texts() && c_.mixer.mixer != Mixer::kNone)
      throw Error(ErrorCode::kUnsupported,
                  "its layers have states, and graphs of whole texts have none");
    range("sequence", c_.positions);
    sequence_ = Dim::symbol("sequence");
    if (is_of_texts()) {
      range("batch", kDefaultMaxDim);
      batch_ = Dim::symbol("batch");
      ids_ = w_.b.input("input_ids", {DType::kInt64, {batch_, sequence_}});
      padding_ = w_.b.input("attention_mask", {DType::kInt64, {batch_, sequence_}});
      if (counts_all())
        throw Error(ErrorCode::kUnsupported,
                    "its angles depend on a text's length, and its graph is of several texts");
      return;
    }
    ids_ = w_.b.input("input_ids", {DType::kInt64, {Dim(1), sequence_}});
    has_attention_ = false;
    for (std::size_t i = 0; i < c_.layers.size(); ++i) has_attention_ |= attends(i);
    if (has_attention_) {
      range("capacity", c_.positions);
      capacity_ = Dim::symbol("capacity");
      position_ = w_.b.input("position", {DType::kInt64, {Dim(1)}});
    }
    if (counts_all()) {
      range("total", c_.positions);
      w_.b.input("attention_mask", {DType::kInt64, {Dim(1), Dim::symbol("total")}});
    }
    const auto cache = [&](const char* what, std::size_t i, std::int64_t size) {
      return w_.b.input(fmt::format("past_{}_{}", what, i),
                        {w_.type(), {Dim(1), Dim(c_.kv_heads), capacity_, Dim(size)}});
    };
    caches_.resize(c_.layers.size());
    states_.resize(c_.layers.size());
    for (std::size_t i = 0; i < c_.layers.size(); ++i) {
      if (attends(i)) {
        caches_[i][0] = cache("key", i, c_.head_size);
        caches_[i][1] = cache("value", i, c_.value_size);
      } else if (mixes(i)) {
        states_[i] = declare_states(i);
      }
    }
  }

  bool counts_all() const {
    return std::ranges::any_of(
        c_.rotaries, [](const Rotary& rotary) { return !rotary.long_frequencies.empty(); });
  }

  void write_positions() {
    if (!has_attention_) return;
    w_.scope("positions");
    ValueId places = w_.iota(sequence_, 0, 1);
    if (!is_of_texts()) places = w_.add("Add", places, position_);
    row_ = w_.reshape(places, {sequence_, Dim(1)});
    places_ = w_.reshape(places, {Dim(1), sequence_});
    key_ = w_.iota(is_of_texts() ? sequence_ : capacity_, 0, 1);
    for (const Rotary& rotary : c_.rotaries)
      angles_.push_back(rotary.long_frequencies.empty() ? computed_angles(rotary)
                                                        : tabled_angles(rotary));
  }

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

  /// Whether a token sees a key: bool [sequence, capacity]; of whole texts [batch, 1, 1, sequence,
  /// sequence].
  ValueId mask(std::int64_t window) {
    ValueId& mask = masks_[window];
    if (mask.valid()) return mask;
    const ir::GraphBuilder::OriginScope scope(w_.b, {"positions/mask"});
    const auto both = [&](ValueId more) { mask = mask.valid() ? w_.add("And", mask, more) : more; };
    if (!c_.text.is_bidirectional) both(w_.add("LessOrEqual", key_, row_));
    if (window > 0) {
      const ValueId size = w_.b.scalar(DType::kInt64, static_cast<double>(window));
      both(w_.add("Greater", key_, w_.add("Sub", row_, size)));
      if (c_.text.is_bidirectional) both(w_.add("Less", key_, w_.add("Add", row_, size)));
    }
    if (is_of_texts())
      both(w_.reshape(w_.add("Greater", padding_, w_.b.scalar(DType::kInt64, 0)),
                      {batch_, Dim(1), Dim(1), Dim(1), sequence_}));
    return mask;
  }

  // ---------------------------------------------------------------- weights

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

  /// Of rows [head, (query, gate), size], those of all queries, then those of all gates.
  Ints queries_first() const {
    Ints order;
    for (const std::int64_t first : {std::int64_t{0}, c_.head_size})
      for (std::int64_t head = 0; head < c_.heads; ++head)
        for (std::int64_t i = 0; i < c_.head_size; ++i)
          order.push_back(2 * head * c_.head_size + first + i);
    return order;
  }

  /// Leaves the table for a head that shares it.
  ValueId embedding() {
    const std::string name = weights_.name("token_embd.weight");
    table_ = weights_.take(name, {c_.vocabulary, c_.hidden});
    const ValueId rows = w_.rows(*table_, name, ids_);
    const ValueId x = w_.scaled(rows, c_.embedding_scale);
    return c_.norms_embedding ? norm(x, "token_embd_norm") : x;
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

  ValueId layer(ValueId x, std::size_t i) {
    w_.scope(fmt::format("layer.{}", i));
    const auto joined = [&](ValueId to, ValueId more) {
      return w_.add("Add", to, w_.scaled(more, c_.residual_scale));
    };
    switch (c_.residual) {
      case Residual::kPre:
        x = joined(
            x, mixture_of_tokens(i == 0 && c_.norms_embedding ? x : norm(x, "attn_norm", i), i));
        return joined(x, mlp(norm(x, second_norm(i), i), i));
      case Residual::kSingle: {
        const ValueId normal = norm(x, "attn_norm", i);
        return joined(x, attends(i) || mixes(i) ? mixture_of_tokens(normal, i) : mlp(normal, i));
      }
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

  ValueId mixture_of_tokens(ValueId x, std::size_t i) {
    return attends(i) ? attention(x, i) : mixed(x, i, states_[i]);
  }

  /// GGUF's converter of gpt-oss names the norm in front of the MLP by where it stands.
  const char* second_norm(std::size_t i) const {
    return weights_.has(weights_.name("ffn_norm.weight", i)) ? "ffn_norm" : "post_attention_norm";
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
      const ValueId by_head = w_.reshape(all, {batch_, sequence_, Dim(c_.heads), Dim(3 * size)});
      const auto third = [&](std::int64_t n) {
        return w_.reshape(w_.part(by_head, 3, n * size, size), {batch_, sequence_, Dim(q)});
      };
      return {third(0), third(1), third(2)};
    }
    if (c_.gates_attention) {
      const ValueId both = linear(x, "attn_q", i, 2 * q, c_.hidden, c_.qkv_bias, queries_first());
      gate_ = w_.part(both, 2, q, q);
      return {w_.part(both, 2, 0, q), linear(x, "attn_k", i, kv, c_.hidden, c_.qkv_bias),
              linear(x, "attn_v", i, kv, c_.hidden, c_.qkv_bias)};
    }
    return {linear(x, "attn_q", i, q, c_.hidden, c_.qkv_bias, order_of(c_.heads)),
            linear(x, "attn_k", i, kv, c_.hidden, c_.qkv_bias, order_of(c_.kv_heads)),
            linear(x, "attn_v", i, kv, c_.hidden, c_.qkv_bias)};
  }

  /// Queries or keys by heads [1, heads, sequence, size], normalised as the model has it.
  ValueId normalised_heads(ValueId x, const char* what, std::size_t i, std::int64_t heads) {
    if (c_.head_norms == HeadNorms::kWidth)
      return split(norm(x, what, i, heads * c_.head_size), heads, c_.head_size);
    x = split(x, heads, c_.head_size);
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

  /// Queries, keys and values by heads, rotated.
  std::array<ValueId, 3> heads_of(ValueId x, std::size_t i) {
    const auto rotary = c_.layers[i].rotary;
    if (c_.latent.rank > 0) return latent_heads(x, angles_.at(0), i);
    auto [q, k, v] = projections(x, i);
    q = normalised_heads(q, "attn_q_norm", i, c_.heads);
    k = normalised_heads(k, "attn_k_norm", i, c_.kv_heads);
    v = split(v, c_.kv_heads, c_.head_size);
    if (c_.clip > 0)
      for (ValueId* each : {&q, &k, &v})
        *each = w_.b.add("Clip", {*each, w_.number(-c_.clip), w_.number(c_.clip)});
    if (rotary) {
      const auto& [cos, sin] = angles_[static_cast<std::size_t>(*rotary)];
      q = w_.rotated(q, cos, sin);
      k = w_.rotated(k, cos, sin);
    }
    return {q, k, v};
  }

  ValueId attention(ValueId x, std::size_t i) {
    const auto [q, k, v] = heads_of(x, i);
    const ValueId sinks =
        c_.has_sinks ? vector(weights_.name("attn_sinks.weight", i), c_.heads) : ValueId();
    ValueId y;
    if (is_of_texts()) {
      y = w_.attended(q, k, v, mask(c_.layers[i].window), c_.score_scale, c_.score_cap, sinks,
                      GraphWriter::kLowest);
    } else {
      auto& [keys, values] = caches_[i];
      keys = w_.put_rows(keys, k, position_);
      values = w_.put_rows(values, v, position_);
      y = w_.attended(q, keys, values, mask(c_.layers[i].window), c_.score_scale, c_.score_cap,
                      sinks);
    }
    const std::int64_t width = c_.heads * c_.value_size;
    ValueId merged = w_.reshape(w_.transpose(y, {0, 2, 1, 3}), {batch_, sequence_, Dim(width)});
    if (c_.gates_attention) merged = w_.add("Mul", merged, w_.b.add("Sigmoid", {gate_}));
    return linear(merged, "attn_output", i, c_.hidden, width, c_.output_bias);
  }

  Dim batch_{1}, sequence_, capacity_;
  ValueId ids_, padding_, position_, row_, places_, key_;
  bool has_attention_ = true;
  ValueId gate_;                                // of the latest layer with attention
  std::vector<States> states_;                  // of layers without
  std::vector<std::array<ValueId, 2>> caches_;  // keys and values; invalid: no attention
  std::vector<Angles> angles_;
  std::map<std::int64_t, ValueId> masks_;  // by window
  std::optional<StoredTensor> table_;
};

}  // namespace

ir::Graph decoder_graph(const DecoderConfig& config, DecoderWeights& weights, DType type) {
  return DecoderWriter(config, weights, type).write();
}

}  // namespace sinter::frontend
