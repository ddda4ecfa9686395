// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "fusion/recurrences/chunk.h"
#include "fusion/recurrences/chunked_layers.h"

namespace sinter::fusion {
namespace {

/// With chunks c of Q tokens l, heads h, and C, B and X the queries, keys and values:
///
///   y[c, l, h, p] = sum_s<=l sum_n C[l, n] B[s, n] exp(G_l - G_s) X[s, p]
///                 + sum_n C[l, n] exp(G_l) H[c, n, p]
///   H[c] = sum_z<=c exp(sum of G_(Q-1) of the chunks z..c-1) (0, S[0], S[1], ..)[z]
///   S[z, n, p] = sum_s B[z, s, n] exp(G_(Q-1) - G_s) X[z, s, p]
///
/// where G_l is the sum of a chunk's decays up to its token l: the recurrence of LinearAttention by
/// heads, unrolled over the tokens of a chunk and over chunks. A single chunk has H[0] = the first
/// state, spelled so or as it is.
class ChunkedScan {
 public:
  ChunkedScan(const Graph& graph, const Node& node, Chunks chunks)
      : graph_(graph), node_(node), chunk_(graph, std::move(chunks)) {}

  std::optional<FoundRecurrence> match() {
    const ElementAt element = terms_.any_of(node_.outputs[0]);
    batch_ = element.index[0];
    at_ = element.index[1];
    row_ = element.index[2];
    head_ = element.index[3];
    channel_ = element.index[4];
    chunk_.set_symbols(batch_, head_, row_);
    const auto parts = terms_.addends(element);
    if (parts.size() != 2) return {};
    for (const std::size_t own : {0, 1}) {
      if (!is_within(terms_.product(parts[own]))) continue;
      if (!is_before(terms_.product(parts[1 - own]))) return {};
      const Shape& query = graph_.type(query_->value).shape;
      Layer layer{{*query_, *key_, *value_, *chunk_.decay()}, first_, sequences_.tokens()};
      std::vector<ValueId> writes{node_.outputs[0]};
      for (const ValueId last : last_states()) writes.push_back(last);
      return FoundRecurrence{layer_piece(graph_, node_, std::move(layer), std::move(writes),
                                         {0, 1, 2, 3}, {0, 1, 3, 2}),
                             "linear", query[query_->order[3]],
                             graph_.type(node_.outputs[0]).dtype};
    }
    return {};
  }
  const std::string& why() const { return chunk_.why(); }

 private:
  bool no(const char* why) { return chunk_.no(why); }
  bool is_exp(const ElementAt& factor) const { return chunk_.is_exp(factor); }

  /// What the chunk's own tokens give.
  bool is_within(ProductTerm term) {
    if (term.factor != 1 || term.sums.size() != 2 || term.factors.size() != 4) return false;
    const auto value = take_factor(
        term.factors, [&](const ElementAt& factor) { return depends_on(factor, channel_); });
    const auto column = std::ranges::find_if(term.sums, [&](const auto& sum) {
      return value && depends_on(*value, Dim::symbol(sum.first));
    });
    if (!value || column == term.sums.end()) return false;
    // Something of two tokens of a chunk.
    const Dim token = Dim::symbol(column->first);
    const bool has_decay = std::ranges::any_of(term.factors, [&](const ElementAt& factor) {
      return is_exp(factor) && depends_on(factor, row_) && depends_on(factor, token);
    });
    if (!has_decay) return false;
    term.sums.erase(column);
    if (!chunk_.are_scores(term, "what a chunk's tokens score", 1, 0, at_, row_, token, query_,
                           key_))
      return false;
    value_ = sequences_.find(*value, at_, token, channel_);
    if (!value_) return no("its values are no values of tokens, by head");
    return value_->heads == chunk_.chunks().heads.value() || no("heads share values");
  }

  /// What the state before the chunk gives.
  bool is_before(ProductTerm term) {
    if (chunk_.chunks().count == Dim(1) && term.sums.size() == 1) return is_before_all(term);
    // The decays between chunks, of a state that is a sum over chunks.
    const auto between = take_factor(term.factors, [&](const ElementAt& factor) {
      return is_exp(factor) && !depends_on(factor, row_);
    });
    const auto other = std::ranges::find_if(term.sums, [&](const auto& sum) {
      return between && depends_on(*between, Dim::symbol(sum.first));
    });
    if (!between || other == term.sums.end())
      return no("what it adds is not read from a state before the chunk");
    const Dim from = Dim::symbol(other->first);
    term.sums.erase(other);
    const auto read = chunk_.read(std::move(term), at_, row_, query_);
    if (!read) return false;
    if (!read->state || !decays_between_chunks(*between, at_, from))
      return no("states do not decay from chunk to chunk by the sums of its tokens");
    return are_states(*read->state, from, read->size);
  }
  /// What the first state gives, without sums over chunks: learns it.
  bool is_before_all(const ProductTerm& term) {
    const auto read = chunk_.read(term, at_, row_, query_);
    if (!read) return false;
    if (read->state)
      first_ = state_at(terms_.source(*read->state), {batch_, head_, read->size, channel_});
    return !read->state || first_ || no("the first state is no state of its heads");
  }
  /// exp of the sum of all decays of the chunks from..chunk - 1.
  bool decays_between_chunks(const ElementAt& power, const Dim& chunk, const Dim& from) {
    const auto outer = terms_.triangle(terms_.operand(power, 0), chunk, from);
    return outer && outer->k == 0 && terms_.is_number(outer->other, -kInfinity) &&
           chunk_.is_segment_sum(outer->kept, chunk, from,
                                 [&](const ElementAt& summand, const Dim& at_chunk) {
                                   return is_total_of_chunk_before(summand, at_chunk);
                                 });
  }

  /// The sum of all decays of chunk - 1, and 0 of the first: a Pad in front.
  bool is_total_of_chunk_before(const ElementAt& element, const Dim& chunk) {
    if (chunk == Dim(0)) return true;  // of the only chunk: the sum up to it is empty
    if (chunk.is_constant())           // not the first: behind the Pad
      return chunk_.is_sum(element, chunk - Dim(1), chunk_.last_row(), {});
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
      inner.index[d] = at_;
    }
    return chunk_.is_sum(inner, at_, chunk_.last_row(), {});
  }

  /// A Concat of the first state and those that each chunk adds: learns it.
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
    added.index[axis] = at_;
    if (!terms_.is_number(first, 0)) {
      first_ = state_at(terms_.source(first), {batch_, head_, size, channel_});
      if (!first_) return no("the first state is no state of its heads");
    }
    ProductTerm term = terms_.product(added);
    if (term.factor != 1 || term.sums.size() != 1)
      return no("what a chunk adds to the state is no sum over its tokens");
    const Dim column = Dim::symbol(term.sums[0].first);
    const auto value = take_factor(
        term.factors, [&](const ElementAt& factor) { return depends_on(factor, channel_); });
    if (!value || !sequences_.is(*value, at_, column, channel_, value_))
      return no("the state is written with other keys or values");
    states_ = last.value;
    return chunk_.is_written(term.factors, at_, column, size, key_);
  }

  /// Values [batch, heads, values, keys] behind the last chunk's state.
  std::vector<ValueId> last_states() {
    if (!states_.valid()) return {};
    std::vector<ValueId> found, open{states_};
    // Behind the Concat: products with the decays between chunks, their sum, views of it.
    for (std::size_t i = 0; i < open.size() && open.size() < 64; ++i) {
      for (const NodeId user : graph_.users(open[i])) {
        const Node& node = graph_.node(user);
        if (node.outputs.size() != 1 || node.outputs[0] == node_.outputs[0]) continue;
        open.push_back(node.outputs[0]);
        if (node.op->kind != OpKind::kView && node.op->take() == nullptr) continue;
        if (is_last_state(node.outputs[0])) found.push_back(node.outputs[0]);
      }
    }
    return found;
  }
  bool is_last_state(ValueId value) {
    const Shape& shape = graph_.type(value).shape;
    const Shape& states = graph_.type(states_).shape;
    if (shape.size() != 4 || states.size() != 5) return false;
    const Dim size = terms_.symbol(shape[3]);
    ProductTerm term = terms_.product({value, {batch_, head_, channel_, size}});
    if (term.factor != 1 || term.factors.size() != 2 || term.sums.size() != 1) return false;
    const Dim from = Dim::symbol(term.sums[0].first);
    const auto power = take_factor(term.factors, [&](const ElementAt& f) { return is_exp(f); });
    const ElementAt all = terms_.source(term.factors[0]);
    return power && all.value == states_ &&
           all.index == std::vector<Dim>{batch_, from, head_, channel_, size} &&
           decays_between_chunks(*power, chunk_.chunks().count, from);
  }

  const Graph& graph_;
  const Node& node_;
  Chunk chunk_;
  Sequences& sequences_ = chunk_.sequences();
  Terms& terms_ = sequences_.terms();
  Dim batch_, at_, row_, head_, channel_;  // at_: the chunk
  std::optional<Sequence> query_, key_, value_;
  std::optional<StateValue> first_;
  ValueId states_;  // the Concat
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
