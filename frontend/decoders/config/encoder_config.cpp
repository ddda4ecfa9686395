// SPDX-License-Identifier: Apache-2.0
#include "frontend/decoders/config/encoder_config.h"

#include <algorithm>

#include "frontend/decoders/config/read_config.h"
#include "ir/text/shown.h"
#include "runtime/format_error.h"

namespace sinter::frontend {
namespace {

constexpr EncoderHead kRobertaHead = {"classifier.dense", "classifier.out_proj"};

constexpr TensorName kDistilNames[] = {
    {"q", "attention.q_lin"},
    {"k", "attention.k_lin"},
    {"v", "attention.v_lin"},
    {"out", "attention.out_lin"},
    {"attention_norm", "sa_layer_norm"},
    {"up", "ffn.lin1"},
    {"down", "ffn.lin2"},
    {"mlp_norm", "output_layer_norm"},
};
constexpr TensorName kDistilKeys[] = {
    {"hidden_size", "dim"},
    {"intermediate_size", "hidden_dim"},
    {"num_hidden_layers", "n_layers"},
    {"num_attention_heads", "n_heads"},
    {"hidden_act", "activation"},
};
constexpr TensorName kMpnetNames[] = {
    {"q", "attention.attn.q"},
    {"k", "attention.attn.k"},
    {"v", "attention.attn.v"},
    {"out", "attention.attn.o"},
    {"attention_norm", "attention.LayerNorm"},
};

constexpr EncoderRow kRows[] = {
    {.name = "bert", .prefix = "bert."},
    {.name = "roberta", .prefix = "roberta.", .counts_tokens = true, .head = kRobertaHead},
    {.name = "xlm-roberta", .prefix = "roberta.", .counts_tokens = true, .head = kRobertaHead},
    {.name = "camembert", .prefix = "roberta.", .counts_tokens = true, .head = kRobertaHead},
    {.name = "distilbert",
     .prefix = "distilbert.",
     .has_types = false,
     .head = {"pre_classifier", "classifier", false, true},
     .layer_prefix = "transformer.layer.",
     .names = kDistilNames,
     .keys = kDistilKeys},
    {.name = "mpnet",
     .prefix = "mpnet.",
     .has_types = false,
     .counts_tokens = true,
     .is_relative = true,
     .head = kRobertaHead,
     .names = kMpnetNames},
};

}  // namespace

std::span<const EncoderRow> encoder_rows() { return kRows; }

const EncoderRow* find_encoder(std::string_view name) {
  const auto* row = std::ranges::find(kRows, name, &EncoderRow::name);
  return row == std::end(kRows) ? nullptr : row;
}

EncoderConfig read_encoder_config(const EncoderRow& row, const ConfigKeys& keys) {
  const auto key = [&](std::string_view name) {
    const auto own = std::ranges::find(row.keys, name, &TensorName::first);
    return own == row.keys.end() ? name : own->second;
  };
  EncoderConfig c;
  c.hidden = keys.size(key("hidden_size"), kMostSize);
  c.heads = keys.size(key("num_attention_heads"), kMostHeads);
  if (c.hidden % c.heads != 0)
    throw invalid_model_error("'{}' is {}, which does not divide the hidden size {}",
                              key("num_attention_heads"), c.heads, c.hidden);
  c.intermediate = keys.size(key("intermediate_size"), kMostSize);
  c.layers = keys.size(key("num_hidden_layers"), kMostLayers);
  c.vocabulary = keys.size("vocab_size", kMostTokens);
  c.positions = keys.size("max_position_embeddings", kMostTokens);
  if (row.has_types) c.types = keys.size_or("type_vocab_size", 2, kMostSize);
  if (row.counts_tokens) {
    c.padding = keys.integer("pad_token_id").value_or(1);
    if (*c.padding < 0 || *c.padding >= c.vocabulary || c.tokens() < 1)
      throw invalid_model_error("'pad_token_id' is {}, of {} tokens and {} positions", *c.padding,
                                c.vocabulary, c.positions);
  }
  if (row.is_relative) {
    c.buckets = keys.size_or("relative_attention_num_buckets", 32, kMostSize);
    if (c.buckets < 4 || c.buckets % 4 != 0)
      throw invalid_model_error("'relative_attention_num_buckets' is {}: expected a multiple of 4",
                                c.buckets);
  }
  c.epsilon = keys.number("layer_norm_eps").value_or(c.epsilon);
  if (c.epsilon < 0) throw invalid_model_error("'layer_norm_eps' is negative");
  if (const auto name = keys.text(key("hidden_act")))
    c.activation = activation_of(key("hidden_act"), *name);
  const std::string kind = keys.text("position_embedding_type").value_or("absolute");
  if (kind != "absolute")
    throw unsupported_error("'position_embedding_type' is '{}', which is not known. {}",
                            ir::shown(kind), kOtherWay);
  if (keys.flag("is_decoder").value_or(false))
    throw unsupported_error("'is_decoder' is true: of '{}' encoders are known. {}", row.name,
                            kOtherWay);
  for (const std::string& name : keys.texts("architectures").value_or(std::vector<std::string>()))
    c.has_head |= name.ends_with("ForSequenceClassification");
  check_unread(keys, row.name, c.notes);
  return c;
}

}  // namespace sinter::frontend
