// SPDX-License-Identifier: Apache-2.0
// Values of tokens (queries, keys, gates, ..), from whose chunks a recurrence is spelled.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "fusion/recurrences/terms.h"
#include "fusion/regions/rebuild.h"

namespace sinter::fusion {

/// A value [batch, tokens, heads, channels] or [batch, tokens, heads], in some order of dimensions.
/// Consecutive heads of the recurrence may share one.
struct Sequence {
  ValueId value;
  std::vector<std::size_t> order;  // the dimensions of batch, tokens, heads and channels
  std::int64_t heads = 0;
  Dim tokens;  // behind fewer than all chunks have stand zeros
  friend bool operator==(const Sequence&, const Sequence&) = default;
};

/// Tokens chunk * length + row.
struct Chunks {
  Dim batch, count, heads;  // how many
  std::int64_t length = 0;
};

class Sequences {
 public:
  Sequences(const Graph& graph, Chunks chunks)
      : graph_(graph),
        chunks_(std::move(chunks)),
        terms_(graph, [this](const ElementAt& element) { return is_of_token(element); }) {}

  Terms& terms() { return terms_; }
  const Chunks& chunks() const { return chunks_; }
  Dim tokens() const { return chunks_.count * Dim(chunks_.length); }
  /// Symbols of the batch and head of which elements are looked at.
  void set_symbols(Dim batch, Dim head) {
    batch_ = std::move(batch);
    head_ = std::move(head);
  }

  /// Terms end at elements of `value`, too; at none if it is invalid.
  void stop_at(ValueId value) { stop_ = value; }

  /// The value furthest behind views of `element` that is a sequence, at token (chunk, row) and at
  /// channel `channel` or, if that is nothing, without channels; behind zeros that fill up its
  /// last chunk, too. `element` itself has `tokens`.
  std::optional<Sequence> find(ElementAt element, const Dim& chunk, const Dim& row,
                               const std::optional<Dim>& channel, Dim tokens) const;
  std::optional<Sequence> find(ElementAt element, const Dim& chunk, const Dim& row,
                               const std::optional<Dim>& channel) const {
    return find(std::move(element), chunk, row, channel, tokens());
  }
  /// Whether that is `known`; learns it if nothing is known.
  bool is(const ElementAt& element, const Dim& chunk, const Dim& row,
          const std::optional<Dim>& channel, std::optional<Sequence>& known) const;

  /// The inclusive running sum whose element `element` is, at `row` of its axis: the element of
  /// what is summed up to there.
  std::optional<ElementAt> running_sum(const ElementAt& element, const Dim& row) const;

  bool is_exp(const ElementAt& factor) const { return terms_.is(factor, "Exp") != nullptr; }
  const Graph& graph() const { return graph_; }

 private:
  bool is_of_token(const ElementAt& element) const;
  bool is_made_of_chunk(const ElementAt& element) const;
  bool is_own_of_chunk(const ElementAt& element, std::string_view op) const;
  bool is_token(const Dim& index) const;
  std::optional<Sequence> as_sequence(const ElementAt& element, const Dim& token,
                                      const std::optional<Dim>& channel, const Dim& tokens) const;
  std::optional<ElementAt> before_padding(const ElementAt& element, const Dim& token) const;

  const Graph& graph_;
  Chunks chunks_;
  Terms terms_;
  Dim batch_, head_;
  ValueId stop_;
};

/// What replaces a recurrence, with its update rule, the size of its keys and its outputs' type.
struct FoundRecurrence {
  Piece piece;
  std::string_view rule;
  Dim keys;
  DType type;
};

/// Whether an index of `element` depends on `symbol`.
bool depends_on(const ElementAt& element, const Dim& symbol);
/// Takes the only factor for which `fits` is true out of `factors`.
std::optional<ElementAt> take_factor(std::vector<ElementAt>& factors,
                                     const std::function<bool(const ElementAt&)>& fits);

/// A state [batch, heads, keys, values], in some order of dimensions.
struct StateValue {
  ValueId value;
  std::vector<std::size_t> order;  // of batch, heads, keys and values
  friend bool operator==(const StateValue&, const StateValue&) = default;
};
/// `element` as the state at `index`: batch, head, key and value.
std::optional<StateValue> state_at(const ElementAt& element, const std::vector<Dim>& index);

/// Query, key, value, decay and, for the delta rule, beta; the state before the first token, if it
/// is not zero. Of the tokens of all chunks those that all sequences are zero for are left out:
/// they leave the state as it is, and read zeros.
struct Layer {
  std::vector<Sequence> sequences;
  std::optional<StateValue> state;
  Dim tokens;  // of all chunks
};
/// A piece with the layer as a LinearAttention. The first of `writes` gets the outputs [batch,
/// tokens, heads, values] in the order `out`, the others the last state [batch, heads, keys,
/// values] in the order `state`, each reshaped.
Piece layer_piece(const Graph& graph, const Node& node, Layer layer, std::vector<ValueId> writes,
                  Ints out, Ints state);

}  // namespace sinter::fusion
