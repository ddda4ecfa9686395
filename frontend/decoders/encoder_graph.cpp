// SPDX-License-Identifier: Apache-2.0
#include "frontend/decoders/encoder_graph.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "frontend/decoders/decoder_weights.h"
#include "frontend/decoders/graph_writer.h"
#include "frontend/model/import_options.h"
#include "runtime/format_error.h"

namespace sinter::frontend {
namespace {

using ir::Dim;
using ir::Ints;
using ir::Shape;
using ir::ValueId;

constexpr TensorName kBertNames[] = {
    {"words", "embeddings.word_embeddings"},
    {"positions", "embeddings.position_embeddings"},
    {"types", "embeddings.token_type_embeddings"},
    {"norm", "embeddings.LayerNorm"},
    {"distances", "encoder.relative_attention_bias"},
    {"q", "attention.self.query"},
    {"k", "attention.self.key"},
    {"v", "attention.self.value"},
    {"out", "attention.output.dense"},
    {"attention_norm", "attention.output.LayerNorm"},
    {"up", "intermediate.dense"},
    {"down", "output.dense"},
    {"mlp_norm", "output.LayerNorm"},
};

/// Tensors that vectors of tokens do not need: heads of training, and what poolers make of them.
constexpr std::string_view kLeftOut[] = {"cls.",
                                         "lm_head.",
                                         "vocab_transform.",
                                         "pooler.",
                                         "vocab_layer_norm.",
                                         "vocab_projector.",
                                         "embeddings.position_ids"};

class EncoderWriter {
 public:
  EncoderWriter(const EncoderRow& row, const EncoderConfig& config, CheckedWeights& weights)
      : row_(row), c_(config), weights_(weights), w_("encoder", weights.activation_type()) {
    const std::string words = fmt::format("{}embeddings.word_embeddings.weight", row.prefix);
    if (weights.has(words)) prefix_ = row.prefix;
  }

  ir::Graph write() {
    declare();
    w_.scope("embeddings");
    ValueId x = embeddings();
    if (row_.is_relative) bias_ = biases_of_distances();
    for (std::int64_t i = 0; i < c_.layers; ++i) x = layer(x, i);
    w_.scope("head");
    if (c_.has_head)
      w_.b.output("logits", logits(x));
    else
      w_.b.output("last_hidden_state", x);
    ir::Graph graph = w_.b.finish();
    std::vector<std::string> left_out;
    for (const std::string_view name : kLeftOut) {
      left_out.emplace_back(name);
      left_out.push_back(std::string(row_.prefix) + std::string(name));
    }
    weights_.refuse_others(left_out);
    return graph;
  }

 private:
  void declare() {
    ir::Range range;
    range.max = c_.tokens();
    w_.b.range("sequence", range);
    range.max = kDefaultMaxDim;
    w_.b.range("batch", range);
    batch_ = Dim::symbol("batch");
    sequence_ = Dim::symbol("sequence");
    const ir::TensorType type{DType::kInt64, {batch_, sequence_}};
    ids_ = w_.b.input("input_ids", type);
    const ValueId mask = w_.b.input("attention_mask", type);
    if (c_.types > 1) types_ = w_.b.input("token_type_ids", type);
    w_.scope("mask");
    mask_ = w_.reshape(w_.add("Greater", mask, w_.b.scalar(DType::kInt64, 0)),
                       {batch_, Dim(1), Dim(1), sequence_});
  }

  /// The name of a tensor, in the layer `layer` if that is given.
  std::string name(std::string_view what, std::int64_t layer = -1) const {
    std::string_view own = what;
    for (const std::span<const TensorName> names :
         {std::span<const TensorName>(kBertNames), row_.names})
      for (const auto& [ours, theirs] : names)
        if (ours == what) own = theirs;
    return layer < 0 ? fmt::format("{}{}", prefix_, own)
                     : fmt::format("{}{}{}.{}", prefix_, row_.layer_prefix, layer, own);
  }

  ValueId vector(const std::string& name, std::int64_t size) {
    return w_.cast(w_.b.constant(weights_.take_plain(name, {size}), name), w_.type());
  }

  ValueId linear(ValueId x, const std::string& name, std::int64_t rows, std::int64_t columns) {
    const std::string matrix = name + ".weight";
    return w_.add("Add", w_.product(x, weights_.take(matrix, {rows, columns}), matrix),
                  vector(name + ".bias", rows));
  }

  ValueId norm(ValueId x, const std::string& name) {
    // BERT's first checkpoints spell them so.
    const bool is_old = !weights_.has(name + ".weight") && weights_.has(name + ".gamma");
    return w_.b.add("LayerNorm",
                    {x, vector(name + (is_old ? ".gamma" : ".weight"), c_.hidden),
                     vector(name + (is_old ? ".beta" : ".bias"), c_.hidden)},
                    {{"axis", std::int64_t{2}}, {"epsilon", c_.epsilon}});
  }

  ValueId rows(std::string_view what, std::int64_t count, ValueId ids) {
    const std::string table = name(what) + ".weight";
    return w_.rows(weights_.take(table, {count, c_.hidden}), table, ids);
  }

  ValueId embeddings() {
    ValueId x = rows("words", c_.vocabulary, ids_);
    if (c_.types > 0)
      x = w_.add("Add", x,
                 rows("types", c_.types, c_.types > 1 ? types_ : w_.b.scalar(DType::kInt64, 0)));
    x = w_.add("Add", x, rows("positions", c_.positions, positions()));
    return norm(x, name("norm"));
  }

  ValueId positions() {
    if (!c_.padding) return w_.iota(sequence_, 0, 1);
    const ValueId padding = w_.b.scalar(DType::kInt64, static_cast<double>(*c_.padding));
    const ValueId is_token =
        w_.cast(w_.b.add("Not", {w_.add("Equal", ids_, padding)}), DType::kInt64);
    const ValueId count =
        w_.b.add("Scan", {is_token}, {{"axis", std::int64_t{1}}, {"combine", std::string("sum")}});
    return w_.add("Add", w_.add("Mul", count, is_token), padding);
  }

  /// Of T5: a bucket for each short distance, and for each range of long ones.
  std::int64_t bucket(std::int64_t distance) const {
    constexpr float kFar = 128;
    const std::int64_t half = c_.buckets / 2, exact = half / 2;
    const std::int64_t first = distance > 0 ? half : 0, size = std::abs(distance);
    if (size < exact) return first + size;
    // In float32, as the model was trained.
    const float share = std::log(static_cast<float>(size) / static_cast<float>(exact)) /
                        std::log(kFar / static_cast<float>(exact));
    const auto more = static_cast<std::int64_t>(share * static_cast<float>(half - exact));
    return first + std::min(exact + more, half - 1);
  }

  /// [1, heads, sequence, sequence].
  ValueId biases_of_distances() {
    w_.scope("distances");
    const std::string table = name("distances") + ".weight";
    const StoredTensor stored = weights_.take(table, {c_.buckets, c_.heads});
    const std::int64_t most = c_.tokens() - 1;
    std::vector<std::int64_t> buckets;
    for (std::int64_t distance = -most; distance <= most; ++distance)
      buckets.push_back(bucket(distance));
    const ValueId all =
        w_.b.constant(ir::Tensor::of(DType::kInt64, Ints{std::ssize(buckets)}, buckets));
    const ValueId distances = w_.add("Sub",
                                     w_.add("Add", w_.iota(sequence_, 1, 2),
                                            w_.b.scalar(DType::kInt64, static_cast<double>(most))),
                                     w_.iota(sequence_, 0, 2));
    const ValueId chosen = w_.b.add("Gather", {all, distances}, {{"axis", std::int64_t{0}}});
    return w_.reshape(w_.transpose(w_.rows(stored, table, chosen), {2, 0, 1}),
                      {Dim(1), Dim(c_.heads), sequence_, sequence_});
  }

  ValueId layer(ValueId x, std::int64_t i) {
    w_.scope(fmt::format("layer.{}", i));
    x = norm(w_.add("Add", attention(x, i), x), name("attention_norm", i));
    const ValueId inner =
        w_.activated(linear(x, name("up", i), c_.intermediate, c_.hidden), c_.activation);
    const ValueId y = linear(inner, name("down", i), c_.hidden, c_.intermediate);
    return norm(w_.add("Add", y, x), name("mlp_norm", i));
  }

  ValueId attention(ValueId x, std::int64_t i) {
    const std::int64_t size = c_.hidden / c_.heads;
    const auto part = [&](std::string_view what) {
      const ValueId all = linear(x, name(what, i), c_.hidden, c_.hidden);
      return w_.transpose(w_.reshape(all, {batch_, sequence_, Dim(c_.heads), Dim(size)}),
                          {0, 2, 1, 3});
    };
    const ValueId q = part("q"), k = part("k"), v = part("v");
    const double scale = 1 / std::sqrt(static_cast<double>(size));
    const ValueId y = w_.attended_by_heads(q, k, v, scale, mask_, bias_);
    const ValueId merged =
        w_.reshape(w_.transpose(y, {0, 2, 1, 3}), {batch_, sequence_, Dim(c_.hidden)});
    return linear(merged, name("out", i), c_.hidden, c_.hidden);
  }

  ValueId logits(ValueId x) {
    const EncoderHead& head = row_.head;
    const auto first = fmt::format("{}{}", head.has_prefix ? prefix_ : "", head.first);
    const std::string second = std::string(head.second) + ".weight";
    x = w_.b.add("Gather", {x, w_.b.scalar(DType::kInt64, 0)}, {{"axis", std::int64_t{1}}});
    x = w_.b.add(head.is_relu ? "Relu" : "Tanh", {linear(x, first, c_.hidden, c_.hidden)});
    // The file says how many labels there are.
    const auto shape = weights_.has(second) ? weights_.shape(second) : Ints{};
    return linear(x, std::string(head.second), shape.empty() ? 1 : shape[0], c_.hidden);
  }

  const EncoderRow& row_;
  const EncoderConfig& c_;
  CheckedWeights& weights_;
  GraphWriter w_;
  std::string prefix_;
  Dim batch_, sequence_;
  ValueId ids_, types_, mask_, bias_;
};

}  // namespace

ir::Graph encoder_graph(const EncoderRow& row, const EncoderConfig& config,
                        std::shared_ptr<const TensorFile> file,
                        std::shared_ptr<ir::ReadLog> reads) {
  CheckedWeights weights(row.name, std::move(file), false, std::move(reads));
  return EncoderWriter(row, config, weights).write();
}

}  // namespace sinter::frontend
