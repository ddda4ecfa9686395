// SPDX-License-Identifier: Apache-2.0
#include "frontend/decoders/speech_graph.h"

#include <array>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "frontend/decoders/config/read_config.h"
#include "frontend/decoders/decoder_weights.h"
#include "frontend/decoders/graph_writer.h"
#include "runtime/format_error.h"

namespace sinter::frontend {
namespace {

using ir::Dim;
using ir::Ints;
using ir::Shape;
using ir::ValueId;

struct SpeechSide {
  std::int64_t layers = 0, heads = 0, inner = 0, positions = 0;
};

struct SpeechConfig {
  std::int64_t width = 0, bands = 0, vocabulary = 0;
  SpeechSide encoder, decoder;
  Activation activation = Activation::kGelu;
  bool scales_embedding = false;
};

SpeechConfig read_speech_config(const ConfigKeys& keys, std::vector<std::string>& notes) {
  SpeechConfig c;
  c.width = keys.size("d_model", kMostSize);
  c.bands = keys.size("num_mel_bins", kMostSize);
  c.vocabulary = keys.size("vocab_size", kMostTokens);
  for (const auto& [name, side] :
       {std::pair{"encoder", &c.encoder}, std::pair{"decoder", &c.decoder}}) {
    const std::string stem = name;  // clang 14 does not capture bindings
    const auto key = [&](const char* what) { return fmt::format("{}_{}", stem, what); };
    side->layers = keys.size(key("layers"), kMostLayers);
    side->heads = keys.size(key("attention_heads"), kMostHeads);
    side->inner = keys.size(key("ffn_dim"), kMostSize);
    if (c.width % side->heads != 0)
      throw invalid_model_error("'{}' is {}, which does not divide the width {}",
                                key("attention_heads"), side->heads, c.width);
    for (const char* idle : {"layerdrop", "start_token_id"}) (void)keys.number(key(idle));
  }
  c.encoder.positions = keys.size("max_source_positions", kMostTokens);
  c.decoder.positions = keys.size("max_target_positions", kMostTokens);
  if (const auto name = keys.text("activation_function"))
    c.activation = activation_of("activation_function", *name);
  c.scales_embedding = keys.flag("scale_embedding").value_or(false);
  (void)keys.flag("is_encoder_decoder");
  if (!keys.flag("tie_word_embeddings").value_or(true))
    throw unsupported_error(
        "'tie_word_embeddings' is false: its logits have weights of their own. {}", kOtherWay);
  // Layers of the encoder again.
  (void)keys.integer("num_hidden_layers");
  // What text is made with, and how it is trained.
  for (const char* name :
       {"apply_spec_augment", "begin_suppress_tokens", "classifier_proj_size", "forced_decoder_ids",
        "mask_feature_length", "mask_feature_min_masks", "mask_feature_prob", "mask_time_length",
        "mask_time_min_masks", "mask_time_prob", "max_length", "median_filter_width",
        "suppress_tokens", "use_weighted_layer_sum", "init_std", "dropout", "activation_dropout"})
    (void)keys.has(name);
  check_unread(keys, kSpeechModel, notes);
  return c;
}

class SpeechWriter {
 public:
  SpeechWriter(const SpeechConfig& config, CheckedWeights& weights, bool is_encoder)
      : c_(config),
        side_(is_encoder ? config.encoder : config.decoder),
        weights_(weights),
        w_(is_encoder ? "encoder" : "decoder", weights.activation_type()),
        stem_(is_encoder ? "model.encoder" : "model.decoder") {}

  ir::Graph encoder() {
    const Dim frames(2 * side_.positions);
    const ValueId sound =
        w_.b.input("input_features", {DType::kFloat32, {Dim(1), Dim(c_.bands), frames}});
    w_.scope("convolutions");
    ValueId x = convolved(w_.cast(sound, w_.type()), ".conv1", c_.bands, 1);
    x = w_.transpose(convolved(x, ".conv2", c_.width, 2), {0, 2, 1});
    x = w_.add("Add", x, table(".embed_positions.weight", side_.positions));
    for (std::int64_t i = 0; i < side_.layers; ++i) {
      w_.scope(fmt::format("layer.{}", i));
      const std::string layer = layer_name(i);
      const ValueId own = norm(x, layer + ".self_attn_layer_norm");
      const auto [q, k, v] = projections(own, layer + ".self_attn");
      x = w_.add("Add", x, joined(w_.attended_by_heads(q, k, v, scale()), layer + ".self_attn"));
      x = feed_forward(x, layer);
    }
    x = norm(x, stem_ + ".layer_norm");
    w_.scope("cross");
    for (std::int64_t i = 0; i < c_.decoder.layers; ++i)
      for (const char* what : {"key", "value"})
        w_.b.output(
            fmt::format("cross_{}_{}", what, i),
            by_heads(
                linear(x, fmt::format("model.decoder.layers.{}.encoder_attn.{}_proj", i, what[0]),
                       c_.width, c_.width),
                c_.decoder.heads));
    const std::vector<std::string> other = {"model.decoder.", "proj_out."};
    return finished(other);
  }

  ir::Graph decoder() {
    const Dim sequence = ranged("sequence"), capacity = ranged("capacity");
    const ValueId ids = w_.b.input("input_ids", {DType::kInt64, {Dim(1), sequence}});
    const ValueId position = w_.b.input("position", {DType::kInt64, {Dim(1)}});
    const auto declared = [&](const char* kind, const Dim& rows) {
      std::vector<std::array<ValueId, 2>> all;
      const Shape shape{Dim(1), Dim(side_.heads), rows, Dim(c_.width / side_.heads)};
      for (std::int64_t i = 0; i < side_.layers; ++i)
        all.push_back({w_.b.input(fmt::format("{}_key_{}", kind, i), {w_.type(), shape}),
                       w_.b.input(fmt::format("{}_value_{}", kind, i), {w_.type(), shape})});
      return all;
    };
    const auto crossed = declared("cross", Dim(c_.encoder.positions));
    auto caches = declared("past", capacity);
    w_.scope("embedding");
    const ValueId places = w_.add("Add", w_.iota(sequence, 0, 1), position);
    const ValueId mask =
        w_.add("LessOrEqual", w_.iota(capacity, 0, 1), w_.reshape(places, {sequence, Dim(1)}));
    const std::string words = stem_ + ".embed_tokens.weight";
    const StoredTensor embedding = weights_.take(words, {c_.vocabulary, c_.width});
    ValueId x = w_.scaled(w_.rows(embedding, words, ids),
                          c_.scales_embedding ? std::sqrt(static_cast<double>(c_.width)) : 1);
    const std::string rows = stem_ + ".embed_positions.weight";
    x = w_.add("Add", x, w_.rows(weights_.take(rows, {side_.positions, c_.width}), rows, places));
    std::vector<std::string> other = {"model.encoder."};
    for (std::int64_t i = 0; i < side_.layers; ++i) {
      w_.scope(fmt::format("layer.{}", i));
      const std::string layer = layer_name(i), own = layer + ".self_attn",
                        cross = layer + ".encoder_attn";
      auto& [keys, values] = caches[static_cast<std::size_t>(i)];
      const auto [q, k, v] = projections(norm(x, own + "_layer_norm"), own);
      keys = w_.put_rows(keys, k, position);
      values = w_.put_rows(values, v, position);
      x = w_.add("Add", x, joined(w_.attended(q, keys, values, mask, scale(), 0), own));
      const ValueId asked =
          by_heads(linear(norm(x, cross + "_layer_norm"), cross + ".q_proj", c_.width, c_.width),
                   side_.heads);
      const auto& [cross_keys, cross_values] = crossed[static_cast<std::size_t>(i)];
      x = w_.add("Add", x,
                 joined(w_.attended_by_heads(asked, cross_keys, cross_values, scale()), cross));
      x = feed_forward(x, layer);
      for (const char* name : {".k_proj.", ".v_proj."}) other.push_back(cross + name);
    }
    w_.scope("head");
    x = w_.b.add("Gather", {x, w_.b.scalar(DType::kInt64, -1)}, {{"axis", std::int64_t{1}}});
    w_.b.output("logits", w_.product(norm(x, stem_ + ".layer_norm"), embedding, words));
    for (std::size_t i = 0; i < caches.size(); ++i)
      for (std::size_t j = 0; j < 2; ++j)
        w_.b.output(fmt::format("present_{}_{}", j == 0 ? "key" : "value", i), caches[i][j]);
    if (weights_.has("proj_out.weight")) other.emplace_back("proj_out.");  // the embedding
    return finished(other);
  }

 private:
  ir::Graph finished(const std::vector<std::string>& other) {
    ir::Graph graph = w_.b.finish();
    weights_.refuse_others(other);
    return graph;
  }

  Dim ranged(const char* symbol) {
    ir::Range range;
    range.max = side_.positions;
    w_.b.range(symbol, range);
    return Dim::symbol(symbol);
  }

  std::string layer_name(std::int64_t i) const { return fmt::format("{}.layers.{}", stem_, i); }
  double scale() const { return 1 / std::sqrt(static_cast<double>(c_.width / side_.heads)); }

  ValueId vector(const std::string& name, std::int64_t size) {
    return w_.cast(w_.b.constant(weights_.take_plain(name, {size}), name), w_.type());
  }

  ValueId table(const std::string& name, std::int64_t rows) {
    const std::string whole = stem_ + name;
    return w_.cast(w_.b.constant(weights_.take_plain(whole, {rows, c_.width}), whole), w_.type());
  }

  /// Keys have no bias.
  ValueId linear(ValueId x, const std::string& name, std::int64_t rows, std::int64_t columns) {
    const std::string matrix = name + ".weight", bias = name + ".bias";
    const ValueId y = w_.product(x, weights_.take(matrix, {rows, columns}), matrix);
    return weights_.has(bias) ? w_.add("Add", y, vector(bias, rows)) : y;
  }

  ValueId norm(ValueId x, const std::string& name) {
    const auto axis = static_cast<std::int64_t>(w_.shape(x).size() - 1);
    constexpr double kEpsilon = 1e-5;
    return w_.b.add("LayerNorm",
                    {x, vector(name + ".weight", c_.width), vector(name + ".bias", c_.width)},
                    {{"axis", axis}, {"epsilon", kEpsilon}});
  }

  ValueId convolved(ValueId x, const char* what, std::int64_t channels, std::int64_t stride) {
    constexpr std::int64_t kTaps = 3;
    const std::string name = stem_ + what + ".weight";
    const ValueId kernel = w_.cast(
        w_.b.constant(weights_.take_plain(name, {c_.width, channels, kTaps}), name), w_.type());
    const ValueId y = w_.b.add("Conv", {x, kernel, vector(stem_ + what + ".bias", c_.width)},
                               {{"strides", Ints{stride}},
                                {"dilations", Ints{1}},
                                {"pads_begin", Ints{1}},
                                {"pads_end", Ints{1}}});
    return w_.activated(y, Activation::kGelu);
  }

  ValueId by_heads(ValueId x, std::int64_t heads) {
    return w_.transpose(w_.reshape(x, {Dim(1), w_.shape(x)[1], Dim(heads), Dim(c_.width / heads)}),
                        {0, 2, 1, 3});
  }

  std::array<ValueId, 3> projections(ValueId x, const std::string& name) {
    std::array<ValueId, 3> all;
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i] = by_heads(linear(x, fmt::format("{}.{}_proj", name, "qkv"[i]), c_.width, c_.width),
                        side_.heads);
    return all;
  }

  ValueId joined(ValueId y, const std::string& name) {
    const ValueId rows = w_.transpose(y, {0, 2, 1, 3});
    return linear(w_.reshape(rows, {Dim(1), w_.shape(rows)[1], Dim(c_.width)}), name + ".out_proj",
                  c_.width, c_.width);
  }

  ValueId feed_forward(ValueId x, const std::string& layer) {
    const ValueId inner =
        linear(norm(x, layer + ".final_layer_norm"), layer + ".fc1", side_.inner, c_.width);
    return w_.add(
        "Add", x,
        linear(w_.activated(inner, c_.activation), layer + ".fc2", c_.width, side_.inner));
  }

  const SpeechConfig& c_;
  const SpeechSide& side_;
  CheckedWeights& weights_;
  GraphWriter w_;
  std::string stem_;
};

}  // namespace

ir::Graph speech_graph(const ConfigKeys& keys, std::shared_ptr<const TensorFile> file,
                       std::shared_ptr<ir::ReadLog> reads, bool is_encoder, bool computes_wide,
                       std::vector<std::string>& notes) {
  const SpeechConfig config = read_speech_config(keys, notes);
  CheckedWeights weights(kSpeechModel, std::move(file), computes_wide, std::move(reads));
  SpeechWriter writer(config, weights, is_encoder);
  return is_encoder ? writer.encoder() : writer.decoder();
}

}  // namespace sinter::frontend
