// SPDX-License-Identifier: Apache-2.0
// The graph of a decoder, of the operators that the ONNX importer makes.
#pragma once

#include "frontend/decoders/config/decoder_config.h"
#include "frontend/decoders/decoder_weights.h"
#include "ir/graph.h"

namespace sinter::frontend {

/// Inputs: input_ids [1, sequence]; position [1], the number of tokens before them; past_key_i and
/// past_value_i [1, kv heads, capacity, size] of each layer. Outputs: logits [1, vocabulary] of
/// the last token, and present_key_i, present_value_i, the caches with the new rows. Where angles
/// depend on a text's length there is also attention_mask [1, total], ones for all tokens.
/// Of whole texts (TextConfig::use) there are no caches: input_ids and attention_mask [batch,
/// sequence] in; last_hidden_state [batch, sequence, hidden], logits [batch, labels] or scores
/// [batch, 1] out.
/// `type` is that of activations and caches.
ir::Graph decoder_graph(const DecoderConfig& config, DecoderWeights& weights, DType type);

}  // namespace sinter::frontend
