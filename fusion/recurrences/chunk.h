// SPDX-License-Identifier: Apache-2.0
// What the terms of a chunk are made of, whatever the update rule and however it is spelled. With
// G_l the sum of a chunk's decays up to its token l, by head or by channel of the keys:
//
//   scores   sum_n rows[l, n] keys[s, n] exp(G_l[n] - G_s[n]) for s <= l - k, else 0
//   read     sum_n rows[l, n] exp(G_l[n]) S[n, p]
//   written  keys[s, n] exp(G_(Q-1)[n] - G_s[n]) u[s, p]
//   kept     exp(G_(Q-1)[n]) S[n, p]
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "fusion/recurrences/sequences.h"

namespace sinter::fusion {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Chunk {
 public:
  Chunk(const Graph& graph, Chunks chunks) : sequences_(graph, std::move(chunks)) {}

  Terms& terms() { return sequences_.terms(); }
  Sequences& sequences() { return sequences_; }
  const Chunks& chunks() const { return sequences_.chunks(); }
  /// Symbols of any batch, head and token of a chunk.
  void set_symbols(const Dim& batch, const Dim& head, const Dim& row) {
    sequences_.set_symbols(batch, head);
    row_ = row;
  }
  Dim last_row() const { return Dim(chunks().length - 1); }
  const std::optional<Sequence>& decay() const { return decay_; }
  const std::string& why() const { return why_; }
  /// False, with the reason.
  bool no(std::string why) {
    why_ = std::move(why);
    return false;
  }

  bool is_exp(const ElementAt& factor) const { return sequences_.is_exp(factor); }
  /// `element` is G of `chunk` at `row`: learns or compares the decays. `size` is the channel of
  /// the keys.
  bool is_sum(const ElementAt& element, const Dim& chunk, const Dim& row, const Dim& size);
  /// `element` is G_row - G_column.
  bool is_difference(const ElementAt& element, const Dim& chunk, const Dim& row, const Dim& column,
                     const Dim& size);
  /// `element` is the sum of summand(j) over rows j with column < j <= row: a running sum of what
  /// lies below the diagonal. Up to row 0 it is empty, whatever the summands are.
  template <typename Summand>
  bool is_segment_sum(const ElementAt& element, const Dim& row, const Dim& column,
                      const Summand& summand) {
    const auto summed = sequences_.running_sum(element, row);
    const auto inner = summed ? terms().triangle(*summed, row, column) : std::nullopt;
    return inner && inner->k == 1 && terms().is_number(inner->other, 0) &&
           !depends_on(terms().source(inner->kept), column) && summand(inner->kept, row);
  }

  /// `term` with the masks of its factors taken off.
  struct Masked {
    ProductTerm term;
    std::optional<std::int64_t> k;  // zero above: kept where row >= column + k
    std::optional<ElementAt> exponent;
  };
  Masked unmasked(ProductTerm term, const Dim& row, const Dim& column);

  /// `term`, times `sign`, is what `rows` at `row` score with `keys` at `column`. `what` names it.
  bool are_scores(const ProductTerm& term, const char* what, double sign, std::int64_t k,
                  const Dim& chunk, const Dim& row, const Dim& column,
                  std::optional<Sequence>& rows, std::optional<Sequence>& keys);
  /// `term` is what `rows` read from a state: its factor, and the key's channel. Nothing stands for
  /// a state of zeros.
  struct Read {
    std::optional<ElementAt> state;
    Dim size;
  };
  std::optional<Read> read(ProductTerm term, const Dim& chunk, const Dim& row,
                           std::optional<Sequence>& rows);
  /// `factors`, without u, are what writes u of `column` into row `size` of the state behind the
  /// chunk.
  bool is_written(std::vector<ElementAt> factors, const Dim& chunk, const Dim& column,
                  const Dim& size, std::optional<Sequence>& keys);

 private:
  Sequences sequences_;
  Dim row_;
  std::optional<Sequence> decay_;
  std::string why_;
};

}  // namespace sinter::fusion
