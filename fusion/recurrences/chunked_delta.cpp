// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "fusion/recurrences/chunk.h"
#include "fusion/recurrences/chunked_layers.h"
#include "fusion/recurrences/unit_lower.h"

namespace sinter::fusion {
namespace {

/// With chunks c of Q tokens l, heads h, and q, k, v the queries, keys and values:
///
///   D[l, s] = exp(G_l - G_s) for s <= l, else 0
///   A[l, s] = -(beta_l k_l' k_s D[l, s]) for s < l, else 0
///   u = T (beta v) - T (beta k exp(G)) S with T = (I - A)^-1
///   y_l = q_l' exp(G_l) S + sum_s<=l q_l' k_s D[l, s] u_s
///   S' = exp(G_(Q-1)) S + sum_s exp(G_(Q-1) - G_s) k_s u_s'
///
/// where G_l is the sum of a chunk's decays up to its token l, by head or by channel of the keys
/// (then each element of the products with D has its own): the delta rule, in its WY form.
class ChunkedDelta {
 public:
  ChunkedDelta(const Graph& graph, const Node& node, Chunks chunks)
      : graph_(graph), node_(node), chunk_(graph, std::move(chunks)), unit_lower_(sequences_) {}

  std::optional<FoundRecurrence> match() {
    const std::int64_t count = chunk_.chunks().count.value();
    std::vector<ElementAt> updates;
    ElementAt all = terms_.any_of(node_.outputs[0]);
    batch_ = all.index[0];
    head_ = all.index[1];
    row_ = all.index[3];
    channel_ = all.index[4];
    chunk_.set_symbols(batch_, head_, row_);
    // From the last chunk to the first.
    for (std::int64_t c = count - 1; c >= 0; --c) {
      all.index[2] = Dim(c);
      const auto stored = written_slice(terms_, all, 2, Dim(c));
      if (!stored) return {};
      updates.push_back(stored->first);
      all = stored->second;
    }
    std::ranges::reverse(updates);
    // The first chunk says what there is.
    for (std::int64_t c = 0; c < count; ++c)
      if (!is_chunk(updates[static_cast<std::size_t>(c)], Dim(c))) return {};
    auto found = piece();
    if (!found) return {};
    const Shape& query = graph_.type(query_->value).shape;
    return FoundRecurrence{std::move(*found), "delta", query[query_->order[3]],
                           graph_.type(node_.outputs[0]).dtype};
  }
  const std::string& why() const { return chunk_.why(); }

 private:
  bool no(std::string why) { return chunk_.no(std::move(why)); }
  /// Of all chunks, which states are not.
  bool is_solved(const ElementAt& factor) const {
    return terms_.is(factor, "Add") != nullptr && factor.index.size() == 5;
  }

  /// T[row, column], of all chunks: learns or compares it.
  bool is_solution(const ElementAt& element, const Dim& chunk, const Dim& row, const Dim& column) {
    if (element.index != std::vector<Dim>{batch_, head_, chunk, row, column}) return false;
    if (solution_) return *solution_ == element.value;
    std::string fault;
    const auto system = unit_lower_.system_of(element, chunk_.chunks().length, fault);
    if (!system) return fault.empty() ? false : no(fault);
    if (!chunk_.are_scores(terms_.product(*system), "its triangular system", -1, 1, chunk, row,
                           column, scaled_key_, key_))
      return false;
    solution_ = element.value;
    return true;
  }

  // ---- one chunk

  bool is_chunk(const ElementAt& update, const Dim& chunk) {
    const auto parts = terms_.addends(update);
    if (parts.size() != 2) return false;
    for (const std::size_t own : {0, 1}) {
      ProductTerm within = terms_.product(parts[own]);
      const auto u = take_factor(within.factors, [&](const ElementAt& factor) {
        return depends_on(factor, channel_) && terms_.is(factor, "Sub") != nullptr;
      });
      const auto column = std::ranges::find_if(within.sums, [&](const auto& sum) {
        return u && depends_on(*u, Dim::symbol(sum.first));
      });
      if (!u || column == within.sums.end()) continue;
      const Dim token = Dim::symbol(column->first);
      within.sums.erase(column);
      const auto read = chunk_.read(terms_.product(parts[1 - own]), chunk, row_, query_);
      return read && is_state(read->state, read->size) &&
             chunk_.are_scores(within, "what a chunk's tokens score", 1, 0, chunk, row_, token,
                               query_, key_) &&
             is_written(*u, chunk, token) && next_state(chunk);
    }
    return false;
  }

  /// Element [size, channel] of the state before the chunk; of zeros, nothing. Learns the first.
  bool is_state(const std::optional<ElementAt>& element, const Dim& size) {
    std::optional<StateValue> state;
    if (element) state = state_at(*element, {batch_, head_, size, channel_});
    if (element && !state) return no("it reads what is no state of its heads");
    if (!knows_first_) {
      knows_first_ = true;
      first_ = state_ = state;
    }
    return state == state_ || no("it reads another state than the one before it leaves");
  }

  /// u at `row`: learns its value.
  bool is_written(const ElementAt& element, const Dim& chunk, const Dim& row) {
    const ElementAt last = terms_.source(element);
    if (terms_.is(last, "Sub") == nullptr)
      return no("what a chunk writes is no difference of values and what the state holds");
    written_ = last.value;
    ProductTerm value = terms_.product(terms_.operand(last, 0));
    const auto solution =
        take_factor(value.factors, [&](const ElementAt& f) { return is_solved(f); });
    if (value.factor != 1 || value.sums.size() != 1 || value.factors.size() != 1 || !solution)
      return no("what a chunk writes is not solved for its values");
    const Dim j = Dim::symbol(value.sums[0].first);
    if (!is_solution(*solution, chunk, row, j))
      return why().empty() ? no("what a chunk writes is not solved for its values") : false;
    if (!sequences_.is(value.factors[0], chunk, j, channel_, scaled_value_))
      return no("its values are no values of tokens");
    return is_held(terms_.product(terms_.operand(last, 1)), chunk, row);
  }
  /// What the state holds for the keys of u's row.
  bool is_held(ProductTerm held, const Dim& chunk, const Dim& row) {
    const auto solution =
        take_factor(held.factors, [&](const ElementAt& f) { return is_solved(f); });
    const auto j = std::ranges::find_if(held.sums, [&](const auto& sum) {
      return solution && depends_on(*solution, Dim::symbol(sum.first));
    });
    if (!solution || j == held.sums.end()) return no("what the state holds is not solved for");
    const Dim token = Dim::symbol(j->first);
    held.sums.erase(j);
    const auto read = chunk_.read(std::move(held), chunk, token, scaled_key_);
    return read && is_solution(*solution, chunk, row, token) && is_state(read->state, read->size);
  }

  /// The state behind the chunk: an Add of [batch, heads, size, channels] that reads what it
  /// writes. Behind the last chunk nothing need read it.
  bool next_state(const Dim& chunk) {
    std::optional<StateValue> found;
    for (const NodeId product : graph_.users(written_))
      for (const ValueId out : graph_.node(product).outputs)
        for (const NodeId sum : graph_.users(out)) {
          const Node& node = graph_.node(sum);
          if (node.op->name == "Add" && is_next_state(node.outputs[0], chunk))
            found = StateValue{node.outputs[0], {0, 1, 2, 3}};
        }
    const bool is_last = chunk == chunk_.chunks().count - Dim(1);
    if (!found && !is_last) return no("no state follows from what a chunk writes");
    state_ = found;
    return true;
  }
  bool is_next_state(ValueId value, const Dim& chunk) {
    const ElementAt element = terms_.any_of(value);
    if (element.index.size() != 4) return false;
    const Dim size = element.index[2];
    const ElementAt own{value, {batch_, head_, size, channel_}};
    bool keeps = false, writes = false;
    for (const ElementAt& part : {terms_.operand(own, 0), terms_.operand(own, 1)}) {
      ProductTerm term = terms_.product(part);
      auto& factors = term.factors;
      if (!term.sums.empty()) {
        if (term.sums.size() != 1 || term.factor != 1) return false;
        const Dim j = Dim::symbol(term.sums[0].first);
        const auto update =
            take_factor(factors, [&](const ElementAt& factor) { return factor.value == written_; });
        writes = update && update->index == std::vector<Dim>{batch_, head_, j, channel_} &&
                 chunk_.is_written(factors, chunk, j, size, key_);
        continue;
      }
      const auto power = take_factor(factors, [&](const ElementAt& f) { return chunk_.is_exp(f); });
      if (!power || !chunk_.is_sum(terms_.operand(*power, 0), chunk, chunk_.last_row(), size))
        return false;
      keeps = term.factor == 0 ? factors.empty() && !state_
                               : term.factor == 1 && factors.size() == 1 && state_ &&
                                     state_at(factors[0], own.index) == state_;
    }
    return keeps && writes;
  }

  // ---- what the operator reads

  /// `scaled` = `plain` * beta: learns or compares beta. Nothing is known of `plain` before if it
  /// is the values.
  bool is_by_beta(const Sequence& scaled, std::optional<Sequence>& plain) {
    const ElementAt element = terms_.any_of(scaled.value);
    const Node* mul = terms_.is(element, "Mul");
    if (mul == nullptr) return no("keys or values are not multiplied by beta");
    const Dim b = element.index[scaled.order[0]], t = element.index[scaled.order[1]],
              h = element.index[scaled.order[2]], n = element.index[scaled.order[3]];
    const std::int64_t length = chunk_.chunks().length;
    sequences_.set_symbols(b, h);
    // Any token: chunk * length + row.
    const Dim chunk = terms_.symbol(chunk_.chunks().count), row = terms_.symbol(Dim(length));
    for (const std::size_t i : {0, 1}) {
      const ElementAt rate = at(terms_.operand(element, i), t, chunk * Dim(length) + row),
                      rest = at(terms_.operand(element, 1 - i), t, chunk * Dim(length) + row);
      auto beta = sequences_.find(rate, chunk, row, std::nullopt, scaled.tokens);
      auto value = sequences_.find(rest, chunk, row, n, scaled.tokens);
      if (!beta || !value || beta->heads != chunk_.chunks().heads.value()) continue;
      if ((beta_ && *beta_ != *beta) || (plain && *plain != *value)) continue;
      beta_ = beta;
      plain = value;
      return true;
    }
    return no("keys or values are not multiplied by one beta for each token and head");
  }

  std::optional<Piece> piece() {
    std::optional<Sequence> value;
    if (!is_by_beta(*scaled_key_, key_) || !is_by_beta(*scaled_value_, value)) return {};
    if (value->heads != chunk_.chunks().heads.value()) {
      no("heads share values");
      return {};
    }
    Layer layer{{*query_, *key_, *value, *chunk_.decay(), *beta_}, first_, sequences_.tokens()};
    std::vector<ValueId> writes{node_.outputs[0]};
    if (state_) writes.push_back(state_->value);
    return layer_piece(graph_, node_, std::move(layer), std::move(writes), {0, 2, 1, 3},
                       {0, 1, 2, 3});
  }

  const Graph& graph_;
  const Node& node_;
  Chunk chunk_;
  Sequences& sequences_ = chunk_.sequences();
  Terms& terms_ = sequences_.terms();
  UnitLower unit_lower_;
  Dim batch_, row_, head_, channel_;
  std::optional<Sequence> query_, key_, beta_, scaled_key_, scaled_value_;
  std::optional<StateValue> first_, state_;
  bool knows_first_ = false;
  std::optional<ValueId> solution_;
  ValueId written_;
};

}  // namespace

std::optional<FoundRecurrence> chunked_delta(const Graph& graph, const Node& node,
                                             std::string& why) {
  if (node.op->name != "Scatter") return std::nullopt;
  const Shape& shape = graph.type(node.outputs[0]).shape;
  // The last of them: no other Scatter writes into its result.
  const auto& users = graph.users(node.outputs[0]);
  const bool is_last = std::ranges::none_of(
      users, [&](NodeId user) { return graph.node(user).op->name == "Scatter"; });
  if (shape.size() != 5 || !is_last || !shape[1].is_constant() || !shape[2].is_constant() ||
      !shape[3].is_constant() || shape[3].value() < 2 || shape[2].value() < 1)
    return std::nullopt;
  ChunkedDelta delta(graph, node, {shape[0], shape[2], shape[1], shape[3].value()});
  auto piece = delta.match();
  why = delta.why();
  return piece;
}

}  // namespace sinter::fusion
