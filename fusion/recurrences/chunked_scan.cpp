// SPDX-License-Identifier: Apache-2.0
#include "fusion/recurrences/chunked_scan.h"

#include <algorithm>
#include <limits>

namespace sinter::fusion {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// With chunks c of Q tokens l, heads h, and C, B and X the queries, keys and values:
///
///   y[c, l, h, p] = sum_s<=l sum_n C[l, n] B[s, n] exp(G_l - G_s) X[s, p]
///                 + sum_n C[l, n] exp(G_l) H[c, n, p]
///   H[c] = sum_z<=c exp(sum of G_(Q-1) of the chunks z..c-1) (0, S[0], S[1], ..)[z]
///   S[z, n, p] = sum_s B[z, s, n] exp(G_(Q-1) - G_s) X[z, s, p]
///
/// where G_l is the sum of a chunk's decays up to its token l: the recurrence of LinearAttention by
/// heads, unrolled over the tokens of a chunk and over chunks.
class ChunkedScan {
 public:
  ChunkedScan(const Graph& graph, const Node& node, Chunks chunks)
      : graph_(graph), node_(node), sequences_(graph, std::move(chunks)) {}

  std::optional<FoundRecurrence> match() {
    const ElementAt element = terms_.any_of(node_.outputs[0]);
    batch_ = element.index[0];
    chunk_ = element.index[1];
    row_ = element.index[2];
    head_ = element.index[3];
    channel_ = element.index[4];
    sequences_.set_symbols(batch_, head_);
    const auto parts = terms_.addends(element);
    if (parts.size() != 2) return {};
    for (const std::size_t own : {0, 1}) {
      const ProductTerm within = terms_.product(parts[own]);
      if (!is_within(within)) continue;
      if (!is_before(terms_.product(parts[1 - own]))) return {};
      const Shape& query = graph_.type(query_->value).shape;
      return FoundRecurrence{piece(), "linear", query[query_->order[3]]};
    }
    return {};
  }
  const std::string& why() const { return why_; }

 private:
  bool no(const char* why) {
    why_ = why;
    return false;
  }
  bool is_exp(const ElementAt& factor) const { return terms_.is(factor, "Exp") != nullptr; }
  Dim last_row() const { return Dim(sequences_.chunks().length - 1); }

  /// `element` is the decay of token (chunk, row).
  bool is_decay(const ElementAt& element, const Dim& chunk, const Dim& row) {
    return sequences_.is(element, chunk, row, std::nullopt, decay_) &&
           decay_->heads == sequences_.chunks().heads.value();
  }
  /// `element` is the sum of the decays of `chunk` up to token `row`.
  bool is_sum_of_decays(const ElementAt& element, const Dim& chunk, const Dim& row) {
    const auto summed = sequences_.running_sum(element, row);
    if (!summed) return false;
    // The sum's row may be a constant, of which the token is one: any stands for it.
    return is_decay(row.is_constant() ? with_row(*summed, element, row) : *summed, chunk,
                    row.is_constant() ? row_ : row);
  }
  ElementAt with_row(ElementAt summed, const ElementAt& element, const Dim& row) const {
    const Node& scan = *graph_.producer(terms_.source(element).value);
    const auto axis = static_cast<std::size_t>(scan.attrs.get_int("axis"));
    if (summed.index[axis] == row) summed.index[axis] = row_;
    return summed;
  }

  /// `element` is the sum, over rows j with column < j <= row, of `summand(j)`, and -inf above the
  /// diagonal: a running sum of what lies below the diagonal.
  template <typename Summand>
  bool is_segment_sum(const ElementAt& element, const Dim& row, const Dim& column,
                      const Summand& summand) {
    const auto outer = terms_.triangle(element, row, column);
    if (!outer || outer->k != 0 || !terms_.is_number(outer->other, -kInfinity)) return false;
    const auto summed = sequences_.running_sum(outer->kept, row);
    const auto inner = summed ? terms_.triangle(*summed, row, column) : std::nullopt;
    return inner && inner->k == 1 && terms_.is_number(inner->other, 0) &&
           !depends_on(terms_.source(inner->kept), column) && summand(inner->kept, row);
  }

  /// What the chunk's own tokens give.
  bool is_within(const ProductTerm& term) {
    if (term.factor != 1 || term.sums.size() != 2 || term.factors.size() != 4) return false;
    auto factors = term.factors;
    const auto power = take_factor(
        factors, [&](const ElementAt& factor) { return terms_.is(factor, "Exp") != nullptr; });
    const auto value =
        take_factor(factors, [&](const ElementAt& factor) { return depends_on(factor, channel_); });
    const auto query =
        take_factor(factors, [&](const ElementAt& factor) { return depends_on(factor, row_); });
    if (!power || !value || !query) return false;
    const ElementAt& key = factors[0];
    Dim column, size;
    for (const auto& [name, extent] : term.sums)
      (depends_on(*value, Dim::symbol(name)) ? column : size) = Dim::symbol(name);
    if (!column.as_symbol() || !size.as_symbol() || !depends_on(key, column) ||
        !depends_on(key, size))
      return false;
    const ElementAt exponent = terms_.operand(*power, 0);
    if (!is_segment_sum(exponent, row_, column, [&](const ElementAt& summand, const Dim& row) {
          return is_decay(summand, chunk_, row);
        }))
      return no("the decays between a chunk's tokens are no sums of one for each token and head");
    query_ = sequences_.find(*query, chunk_, row_, size);
    key_ = sequences_.find(key, chunk_, column, size);
    value_ = sequences_.find(*value, chunk_, column, channel_);
    if (!query_ || !key_ || !value_)
      return no("its queries, keys or values are no values of tokens, by head");
    if (value_->heads != sequences_.chunks().heads.value()) return no("heads share values");
    return true;
  }

  /// What the state before the chunk gives.
  bool is_before(const ProductTerm& term) {
    auto factors = term.factors;
    if (term.factor != 1 || term.sums.size() != 2 || factors.size() != 4)
      return no("what it adds is not read from a state before the chunk");
    // exp(G_l), and the decays between chunks.
    const auto token_power = take_factor(factors, [&](const ElementAt& factor) {
      return is_exp(factor) && depends_on(factor, row_);
    });
    const auto chunk_power = take_factor(
        factors, [&](const ElementAt& factor) { return terms_.is(factor, "Exp") != nullptr; });
    const auto query =
        take_factor(factors, [&](const ElementAt& factor) { return depends_on(factor, row_); });
    if (!token_power || !chunk_power || !query)
      return no("what it adds is not read from a state before the chunk");
    Dim other, size;
    for (const auto& [name, extent] : term.sums)
      (depends_on(*query, Dim::symbol(name)) ? size : other) = Dim::symbol(name);
    if (!sequences_.is(*query, chunk_, row_, size, query_))
      return no("the state is read with other queries");
    if (!is_sum_of_decays(terms_.operand(*token_power, 0), chunk_, row_))
      return no("the state does not decay as the chunk's own tokens do");
    const ElementAt between = terms_.operand(*chunk_power, 0);
    const bool decays =
        is_segment_sum(between, chunk_, other, [&](const ElementAt& summand, const Dim& chunk) {
          return is_total_of_chunk_before(summand, chunk);
        });
    if (!decays) return no("states do not decay from chunk to chunk by the sums of its tokens");
    return are_states(factors[0], other, size);
  }

  /// The sum of all decays of chunk - 1, and 0 of the first: a Pad in front.
  bool is_total_of_chunk_before(const ElementAt& element, const Dim& chunk) {
    const ElementAt last = terms_.source(element);
    const Node* pad = terms_.is(last, "Pad");
    if (pad == nullptr || pad->attrs.get_float("fill") != 0) return false;
    const auto& begins = pad->attrs.get_dims("begins");
    const auto& ends = pad->attrs.get_dims("ends");
    ElementAt inner{pad->inputs[0], last.index};
    for (std::size_t d = 0; d < begins.size(); ++d) {
      const bool is_chunk = inner.index[d] == chunk;
      if (ends[d] != Dim(0) || begins[d] != Dim(is_chunk ? 1 : 0)) return false;
      if (!is_chunk) continue;
      // An earlier chunk's: any chunk stands for it.
      inner.index[d] = chunk_;
    }
    return is_sum_of_decays(inner, chunk_, last_row());
  }

  /// A Concat of a zero state and those that each chunk adds.
  bool are_states(const ElementAt& element, const Dim& chunk, const Dim& size) {
    const ElementAt last = terms_.source(element);
    const Node* concat = terms_.is(last, "Concat");
    if (concat == nullptr || concat->inputs.size() != 2)
      return no("states of chunks are not behind a first one");
    const auto axis = static_cast<std::size_t>(concat->attrs.get_int("axis"));
    if (last.index[axis] != chunk || graph_.type(concat->inputs[0]).shape[axis] != Dim(1))
      return no("states of chunks are not behind a first one");
    ElementAt first{concat->inputs[0], last.index}, added{concat->inputs[1], last.index};
    first.index[axis] = Dim(0);
    added.index[axis] = chunk_;
    if (!terms_.is_number(first, 0)) return no("the first state is not zero");
    const ProductTerm term = terms_.product(added);
    auto factors = term.factors;
    const auto power = take_factor(
        factors, [&](const ElementAt& factor) { return terms_.is(factor, "Exp") != nullptr; });
    const auto key =
        take_factor(factors, [&](const ElementAt& factor) { return depends_on(factor, size); });
    if (term.factor != 1 || term.sums.size() != 1 || !power || !key || factors.size() != 1)
      return no("what a chunk adds to the state is no sum over its tokens");
    const Dim column = Dim::symbol(term.sums[0].first);
    if (!sequences_.is(*key, chunk_, column, size, key_) ||
        !sequences_.is(factors[0], chunk_, column, channel_, value_))
      return no("the state is written with other keys or values");
    const ElementAt exponent = terms_.source(terms_.operand(*power, 0));
    if (terms_.is(exponent, "Sub") == nullptr ||
        !is_sum_of_decays(terms_.operand(exponent, 0), chunk_, last_row()) ||
        !is_sum_of_decays(terms_.operand(exponent, 1), chunk_, column))
      return no("what a token writes does not decay up to the chunk's end");
    return true;
  }

  Piece piece() const {
    Piece piece;
    piece.writes = {node_.outputs[0]};
    const std::vector<Sequence> sequences{*query_, *key_, *value_, *decay_};
    for (const Sequence& each : sequences) piece.reads.push_back(each.value);
    piece.emit = [sequences, type = graph_.type(node_.outputs[0]), origins = node_.origins](
                     GraphBuilder& b, std::span<const ValueId> given) {
      GraphBuilder::OriginScope scope(b, origins);
      const auto results = add_linear_attention(b, sequences, given, type.dtype, 1);
      return std::vector{b.add("Reshape", {results[0]}, {{"shape", type.shape}})};
    };
    return piece;
  }

  const Graph& graph_;
  const Node& node_;
  Sequences sequences_;
  Terms& terms_ = sequences_.terms();
  Dim batch_, chunk_, row_, head_, channel_;
  std::optional<Sequence> query_, key_, value_, decay_;
  std::string why_;
};

}  // namespace

std::optional<FoundRecurrence> chunked_scan(const Graph& graph, const Node& node,
                                            std::string& why) {
  if (node.op->name != "Add") return std::nullopt;
  const Shape& shape = graph.type(node.outputs[0]).shape;
  if (shape.size() != 5 || !shape[2].is_constant() || shape[2].value() < 2 ||
      !shape[3].is_constant())
    return std::nullopt;
  ChunkedScan scan(graph, node, {shape[0], shape[1], shape[3], shape[2].value()});
  auto piece = scan.match();
  why = scan.why();
  return piece;
}

}  // namespace sinter::fusion
