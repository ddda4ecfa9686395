// SPDX-License-Identifier: Apache-2.0
// Parts of a decoder's layers: its weights, and operators on them.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "frontend/decoders/config/decoder_config.h"
#include "frontend/decoders/decoder_weights.h"
#include "frontend/decoders/graph_writer.h"

namespace sinter::frontend {

class LayerWriter {
 protected:
  using Ints = ir::Ints;
  using ValueId = ir::ValueId;
  /// Cosines and sines [1, 1, sequence, pairs].
  using Angles = std::array<ValueId, 2>;

  LayerWriter(const DecoderConfig& config, DecoderWeights& weights, DType type)
      : c_(config), weights_(weights), w_("decoder", type) {}

  /// A vector in the type of activations, or as f32.
  ValueId vector(const std::string& name, std::int64_t size, bool is_wide = false,
                 const Ints& order = {});
  /// x times the transpose of weights [rows, columns], and their bias. `has_bias`: nothing, if the
  /// file says it. `order`: of the rows.
  ValueId linear(ValueId x, std::string_view what, std::size_t layer, std::int64_t rows,
                 std::int64_t columns, std::optional<bool> has_bias, const Ints& order = {});
  /// Over the last dimension, with the weights `what`.
  ValueId norm(ValueId x, std::string_view what, std::optional<std::size_t> layer = {},
               std::int64_t size = 0);
  /// [sequence, size] or [batch, sequence, heads * size] by heads: [batch, heads, sequence, size].
  ValueId split(ValueId x, std::int64_t heads, std::int64_t size);

  /// A mixture of experts in place of the MLP, and what all tokens go through beside it.
  ValueId mixture(ValueId x, std::size_t layer);
  /// Queries, keys and values by heads of multi-head latent attention (arXiv:2405.04434).
  std::array<ValueId, 3> latent_heads(ValueId x, const Angles& angles, std::size_t layer);

  /// What a layer without attention keeps from step to step.
  struct States {
    ValueId rows;   // of the convolution: [1, channels, taps - 1]; invalid: there is attention
    ValueId state;  // f32 [1, heads, key size, value size]; invalid: of a short convolution alone
  };
  States declare_states(std::size_t layer);
  /// x [1, sequence, hidden] as DecoderConfig::mixer says; replaces the states.
  ValueId mixed(ValueId x, std::size_t layer, States& states);

  /// The output of a graph of whole texts, by their use: `last_hidden_state`, `logits` or `scores`.
  /// x: [batch, sequence, hidden]; `mask`: int64 [batch, sequence], 1 for tokens that count.
  void write_text_output(ValueId x, ValueId mask);

  const DecoderConfig& c_;
  DecoderWeights& weights_;
  GraphWriter w_;

 private:
  std::int64_t conv_channels() const;
  ValueId numbers(std::string_view what, std::size_t layer, const ir::Shape& shape);
  ValueId causal_conv(ValueId x, std::string_view what, std::size_t layer, ValueId& rows);
  ValueId negative_rates(std::size_t layer, const ir::Shape& shape);
  ValueId by_states(ValueId x, std::int64_t heads, std::int64_t size);
  ValueId gated_norm(ValueId x, ValueId gate, std::size_t layer, std::int64_t parts);
  ValueId short_conv(ValueId x, std::size_t layer, States& states);
  ValueId mamba(ValueId x, std::size_t layer, States& states);
  ValueId mamba2(ValueId x, std::size_t layer, States& states);
  ValueId gated_delta(ValueId x, std::size_t layer, States& states);
  struct DeltaParts;  // of a token's projections
  DeltaParts delta_parts(ValueId x, std::size_t layer);
  ValueId pooled(ValueId x, ValueId mask, TextPooling pooling);
  ValueId plain_linear(ValueId x, std::string_view what, std::int64_t rows);
  ValueId labels(ValueId x, ValueId mask);
  ValueId answer(ValueId x, ValueId mask);
  std::array<ValueId, 2> heads_of(ValueId few, std::size_t layer);
  struct Experts;  // rows of tokens, sorted by expert
  Experts route(ValueId tokens, std::size_t layer);
  ValueId product(const Experts& rows, ValueId of, const char* what, std::size_t layer,
                  std::int64_t n, std::int64_t k);
  ValueId gated(const Experts& rows, ValueId own, std::size_t layer);
  ValueId shared_expert(ValueId tokens, std::size_t layer);
};

}  // namespace sinter::frontend
