// SPDX-License-Identifier: Apache-2.0
// Encoders of texts: what differs between architectures, and what decides one's graph.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/decoders/config/architectures.h"
#include "frontend/decoders/config/config_keys.h"

namespace sinter::frontend {

/// Logits of a text from its first token: second(activation(first x)).
struct EncoderHead {
  std::string_view first, second;
  bool has_prefix = false;  // `first` lies below the model's prefix
  bool is_relu = false;     // else tanh
};

/// Members are named where they differ from BERT's.
struct EncoderRow {
  std::string_view name;       // "model_type" of config.json
  std::string_view prefix;     // of tensors, in files that have a head
  bool has_types = true;       // embeddings of token types
  bool counts_tokens = false;  // positions begin behind the padding token's id, and skip padding
  bool is_relative = false;    // scores have a bias for each distance
  EncoderHead head = {"pooler.dense", "classifier", true};
  std::string_view layer_prefix = "encoder.layer.";
  std::span<const TensorName> names = {};  // those that differ from BERT's
  std::span<const TensorName> keys = {};   // of config.json
};

std::span<const EncoderRow> encoder_rows();
/// The row of a "model_type"; null if it is no encoder's.
const EncoderRow* find_encoder(std::string_view name);

struct EncoderConfig {
  std::int64_t hidden = 0, intermediate = 0, heads = 0, vocabulary = 0, layers = 0;
  std::int64_t positions = 0;           // rows of the table
  std::int64_t types = 0;               // 0: there are none
  std::int64_t buckets = 0;             // of distances
  std::optional<std::int64_t> padding;  // the token, where positions count from it
  double epsilon = 1e-12;
  Activation activation = Activation::kGelu;
  bool has_head = false;
  std::vector<std::string> notes;  // what was ignored

  /// Most tokens of a text.
  std::int64_t tokens() const { return positions - (padding ? *padding + 1 : 0); }
};

/// Throws Error(kInvalidModel) for keys that are missing or contradict each other,
/// Error(kUnsupported) naming a key that changes results and that is not understood.
EncoderConfig read_encoder_config(const EncoderRow& row, const ConfigKeys& keys);

}  // namespace sinter::frontend
