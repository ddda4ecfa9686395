// SPDX-License-Identifier: Apache-2.0
#include "fusion/recurrences/chunked_delta.h"

#include <algorithm>

#include "ir/affine.h"

namespace sinter::fusion {
namespace {

/// With chunks c of Q tokens l, heads h, and q, k, v the queries, keys and values:
///
///   D[l, s] = exp(G_l - G_s) for s <= l, else 0
///   A[l, s] = -(beta_l k_l' k_s D[l, s]) for s < l, else 0
///   T = I + A with row i += row i times the rows before it, for i = 1, 2, ..: (I - A)^-1
///   u = T (beta v) - T (beta k exp(G)) S
///   y_l = q_l' exp(G_l) S + sum_s<=l q_l' k_s D[l, s] u_s
///   S' = exp(G_(Q-1)) S + sum_s exp(G_(Q-1) - G_s) k_s u_s'
///
/// where G_l is the sum of a chunk's decays up to its token l: the delta rule, in its WY form.
class ChunkedDelta {
 public:
  ChunkedDelta(const Graph& graph, const Node& node, Chunks chunks)
      : graph_(graph), node_(node), sequences_(graph, std::move(chunks)) {}

  std::optional<FoundRecurrence> match() {
    const std::int64_t count = sequences_.chunks().count.value();
    std::vector<ElementAt> updates;
    ElementAt all = terms_.any_of(node_.outputs[0]);
    batch_ = all.index[0];
    head_ = all.index[1];
    channel_ = all.index[4];
    sequences_.set_symbols(batch_, head_);
    row_ = all.index[3];
    // From the last chunk to the first.
    for (std::int64_t c = count - 1; c >= 0; --c) {
      all.index[2] = Dim(c);
      const auto stored = written(all, 2, Dim(c));
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
    return FoundRecurrence{std::move(*found), "delta", query[query_->order[3]]};
  }
  const std::string& why() const { return why_; }

 private:
  bool no(std::string why) {
    why_ = std::move(why);
    return false;
  }
  /// Of all chunks, which states are not.
  bool is_solved(const ElementAt& factor) const {
    return terms_.is(factor, "Add") != nullptr && factor.index.size() == 5;
  }
  bool is_exp(const ElementAt& factor) const { return terms_.is(factor, "Exp") != nullptr; }

  /// The number at `index` of an integer value: a position, the same everywhere, or a constant that
  /// counts along its dimensions.
  std::optional<Dim> number(const ElementAt& element) const {
    if (auto found = ir::index_of_value(graph_, element.value, element.index, terms_.ranges()))
      return found;
    const ElementAt last = terms_.source(element);
    const auto& constant = graph_.value(last.value).constant;
    if (constant == nullptr || !is_integer(constant->dtype()) || constant->element_count() == 0)
      return std::nullopt;
    const Ints& shape = constant->shape();
    Dim result(constant->at_int(0));
    std::vector<std::int64_t> slopes(shape.size(), 0);
    std::int64_t stride = constant->element_count();
    for (std::size_t d = 0; d < shape.size(); ++d) {
      stride /= shape[d];
      if (shape[d] > 1) slopes[d] = constant->at_int(stride) - constant->at_int(0);
      result += Dim(slopes[d]) * last.index[d];
    }
    for (std::int64_t i = 0; i < constant->element_count(); ++i) {
      std::int64_t rest = i, expected = constant->at_int(0);
      for (std::size_t d = shape.size(); d-- > 0; rest /= shape[d])
        expected += slopes[d] * (rest % shape[d]);
      if (constant->at_int(i) != expected) return std::nullopt;
    }
    return result;
  }

  /// If `element`, which lies at `place` of dimension `axis`, is what a Scatter writes there: the
  /// element of the updates, and that of the data. The Scatter writes whole slices of the axis.
  std::optional<std::pair<ElementAt, ElementAt>> written(const ElementAt& element, std::size_t axis,
                                                         const Dim& place) const {
    const Node* scatter = terms_.is(element, "Scatter");
    if (scatter == nullptr || scatter->attrs.get_string("combine") != "none") return std::nullopt;
    const Shape& data = graph_.type(scatter->inputs[0]).shape;
    const Shape& updates = graph_.type(scatter->inputs[1]).shape;
    if (updates.size() != data.size() || scatter->inputs.size() != data.size() + 2)
      return std::nullopt;
    ElementAt update{scatter->inputs[1], element.index};
    for (std::size_t d = 0; d < data.size(); ++d) {
      const bool is_axis = d == axis;
      if (is_axis ? updates[d] != Dim(1) : updates[d] != data[d]) return std::nullopt;
      if (is_axis) update.index[d] = Dim(0);
    }
    for (std::size_t d = 0; d < data.size(); ++d) {
      const auto at = number(index_element(*scatter, d, update));
      if (!at || *at != (d == axis ? place : element.index[d])) return std::nullopt;
    }
    return std::pair(update, ElementAt{scatter->inputs[0], element.index});
  }
  ElementAt index_element(const Node& scatter, std::size_t d, const ElementAt& update) const {
    const Shape& shape = graph_.type(scatter.inputs[d + 2]).shape;
    ElementAt result{scatter.inputs[d + 2], {}};
    const std::size_t missing = update.index.size() - shape.size();
    for (std::size_t i = 0; i < shape.size(); ++i)
      result.index.push_back(shape[i] == Dim(1) ? Dim(0) : update.index[missing + i]);
    return result;
  }

  // ---- decays

  /// G of `chunk` at `row`.
  bool is_sum(const ElementAt& element, const Dim& chunk, const Dim& row) {
    auto summed = sequences_.running_sum(element, row);
    if (!summed) return false;
    if (row.is_constant()) {
      const Node& scan = *graph_.producer(terms_.source(element).value);
      summed->index[static_cast<std::size_t>(scan.attrs.get_int("axis"))] = row_;
    }
    return sequences_.is(*summed, chunk, row.is_constant() ? row_ : row, std::nullopt, decay_) &&
           decay_->heads == sequences_.chunks().heads.value();
  }
  bool is_difference(const ElementAt& element, const Dim& chunk, const Dim& row,
                     const Dim& column) {
    const ElementAt last = terms_.source(element);
    return terms_.is(last, "Sub") != nullptr && is_sum(terms_.operand(last, 0), chunk, row) &&
           is_sum(terms_.operand(last, 1), chunk, column);
  }
  /// D[row, column].
  bool is_decay_between(const ElementAt& element, const Dim& chunk, const Dim& row,
                        const Dim& column) {
    const auto outer = terms_.triangle(element, row, column);
    if (!outer || outer->k != 0 || !terms_.is_number(outer->other, 0)) return false;
    const ElementAt power = terms_.source(outer->kept);
    if (!is_exp(power)) return false;
    const ElementAt exponent = terms_.operand(power, 0);
    // Above the diagonal anything may be left out.
    const auto inner = terms_.triangle(exponent, row, column);
    return is_difference(inner && inner->k <= 0 ? inner->kept : exponent, chunk, row, column);
  }

  // ---- the triangular system

  /// T[row, column], of all chunks: learns or compares the sum of the identity and solved rows.
  bool is_solution(const ElementAt& element, const Dim& chunk, const Dim& row, const Dim& column) {
    if (terms_.is(element, "Add") == nullptr || element.index.size() != 5 ||
        element.index[0] != batch_ || element.index[1] != head_ || element.index[2] != chunk ||
        element.index[3] != row || element.index[4] != column)
      return false;
    if (solution_) return *solution_ == element.value;
    for (const std::size_t i : {0, 1}) {
      if (!is_identity(terms_.operand(element, i), row, column)) continue;
      if (!are_solved(terms_.operand(element, 1 - i))) return false;
      solution_ = element.value;
      return true;
    }
    return false;
  }
  bool is_identity(const ElementAt& element, const Dim& row, const Dim& column) const {
    const ElementAt last = terms_.source(element);
    const auto& constant = graph_.value(last.value).constant;
    const std::int64_t q = sequences_.chunks().length;
    if (constant == nullptr || last.index.size() < 2 || constant->element_count() != q * q ||
        last.index[last.index.size() - 2] != row || last.index.back() != column)
      return false;
    for (std::int64_t i = 0; i < q * q; ++i)
      if (constant->at(i) != (i / q == i % q ? 1 : 0)) return false;
    return true;
  }

  /// Rows 1, 2, .. are each replaced by themselves plus their product with the rows before.
  bool are_solved(const ElementAt& element) {
    const std::int64_t q = sequences_.chunks().length;
    ElementAt all = terms_.source(element);
    const Dim chunk = all.index[2], column = all.index[4];
    for (std::int64_t i = q - 1; i > 0; --i) {
      all.index[3] = Dim(i);
      const auto stored = written(all, 3, Dim(i));
      if (!stored) return no("the rows of its triangular system are not replaced one by one");
      if (!is_solved_row(stored->first, stored->second, i)) return false;
      all = terms_.source(stored->second);
    }
    all.index[3] = row_;
    return is_system(all, chunk, row_, column);
  }
  /// Row i of the rows `before`: its first i elements, and the product of these with the rows.
  bool is_solved_row(const ElementAt& update, const ElementAt& before, std::int64_t i) {
    const ElementAt row = terms_.source(update);
    const Node* scatter = terms_.is(row, "Scatter");
    if (scatter == nullptr || scatter->attrs.get_string("combine") != "none")
      return no("a row of its triangular system is not replaced up to its diagonal");
    // The elements from the diagonal on stay.
    const ElementAt kept = terms_.source({scatter->inputs[0], row.index});
    if (kept.value != before.value || kept.index != before.index)
      return no("a row of its triangular system does not keep what is above the diagonal");
    const Shape& updates = graph_.type(scatter->inputs[1]).shape;
    const Shape& data = graph_.type(scatter->inputs[0]).shape;
    if (updates.size() != data.size() || scatter->inputs.size() != data.size() + 2)
      return no("a row of its triangular system is not replaced up to its diagonal");
    // Those before it are written, each at its own place.
    const Dim place = terms_.symbol(Dim(i));
    ElementAt written{scatter->inputs[1], row.index};
    for (std::size_t d = 0; d < data.size(); ++d) {
      if (row.index[d] != before.index[4]) {
        if (updates[d] != data[d]) return no("a row of its system is not replaced as a whole");
        continue;
      }
      if (updates[d] != Dim(i)) return no("a row of its system is replaced beyond its diagonal");
      written.index[d] = place;
    }
    for (std::size_t d = 0; d < data.size(); ++d) {
      const auto at = number(index_element(*scatter, d, written));
      if (!at || *at != written.index[d]) return no("a row of its system is replaced elsewhere");
    }
    // The rows before are what is looked for, whatever they are made of.
    sequences_.stop_at(before.value);
    const bool is_solved = is_row_and_product(written, before, i, place);
    sequences_.stop_at({});
    return is_solved ||
           no("a row of its system is not itself and its product with the rows before");
  }
  bool is_row_and_product(const ElementAt& written, const ElementAt& before, std::int64_t i,
                          const Dim& place) {
    const auto parts = terms_.addends(written);
    if (parts.size() != 2) return false;
    const auto is_row = [&](const ElementAt& element, const Dim& at_row, const Dim& at_column) {
      ElementAt wanted = before;
      wanted.index[3] = at_row;
      wanted.index[4] = at_column;
      return element.value == wanted.value && element.index == wanted.index;
    };
    for (const std::size_t own : {0, 1}) {
      const ProductTerm sum = terms_.product(parts[1 - own]);
      if (!is_row(parts[own], Dim(i), place)) continue;
      if (sum.factor != 1 || sum.factors.size() != 2 || sum.sums.size() > 1) break;
      if (sum.sums.empty() != (i == 1) || (i > 1 && sum.sums[0].second != Dim(i))) break;
      const Dim j = i == 1 ? Dim(0) : Dim::symbol(sum.sums[0].first);
      for (const std::size_t first : {0, 1})
        if (is_row(sum.factors[first], Dim(i), j) && is_row(sum.factors[1 - first], j, place))
          return true;
      break;
    }
    return false;
  }
  /// A[row, column].
  bool is_system(const ElementAt& element, const Dim& chunk, const Dim& row, const Dim& column) {
    const ProductTerm term = terms_.product(element);
    const auto below = term.factor == -1 && term.factors.size() == 1 && term.sums.empty()
                           ? terms_.triangle(term.factors[0], row, column)
                           : std::nullopt;
    if (!below || below->k != 1 || !terms_.is_number(below->other, 0))
      return no("its triangular system is not strictly lower");
    return is_decayed_product(below->kept, "its triangular system", chunk, row, column,
                              scaled_key_);
  }
  /// rows[row] . k[column] times the decay from column to row.
  bool is_decayed_product(const ElementAt& element, const std::string& what, const Dim& chunk,
                          const Dim& row, const Dim& column, std::optional<Sequence>& rows) {
    const ProductTerm term = terms_.product(element);
    auto factors = term.factors;
    const auto decay = take_factor(
        factors, [&](const ElementAt& factor) { return terms_.is(factor, "Where") != nullptr; });
    const auto key =
        take_factor(factors, [&](const ElementAt& f) { return depends_on(f, column); });
    if (term.factor != 1 || term.sums.size() != 1 || !decay || !key || factors.size() != 1)
      return no(what + " is no product of rows, keys and decays");
    const Dim size = Dim::symbol(term.sums[0].first);
    if (!sequences_.is(*key, chunk, column, size, key_) ||
        !sequences_.is(factors[0], chunk, row, size, rows))
      return no(what + " is a product of other rows or keys");
    return is_decay_between(*decay, chunk, row, column) ||
           no(what + " does not decay as its tokens do");
  }

  // ---- one chunk

  bool is_chunk(const ElementAt& update, const Dim& chunk) {
    const auto parts = terms_.addends(update);
    if (parts.size() != 2) return false;
    for (const std::size_t own : {0, 1}) {
      const ProductTerm within = terms_.product(parts[own]);
      if (within.sums.size() != 1 || within.factors.size() != 2 || within.factor != 1) continue;
      auto factors = within.factors;
      const auto scores = take_factor(
          factors, [&](const ElementAt& factor) { return terms_.is(factor, "Where") != nullptr; });
      if (!scores) continue;
      const Dim column = Dim::symbol(within.sums[0].first);
      return is_read(terms_.product(parts[1 - own]), chunk) && are_scores(*scores, chunk, column) &&
             is_written(factors[0], chunk, column) && next_state(chunk);
    }
    return false;
  }

  /// q_row' exp(G_row) S.
  bool is_read(const ProductTerm& term, const Dim& chunk) {
    auto factors = term.factors;
    const bool is_zero = term.factor == 0;
    const auto power = take_factor(factors, [&](const ElementAt& f) { return is_exp(f); });
    const auto query =
        take_factor(factors, [&](const ElementAt& f) { return depends_on(f, row_); });
    if ((!is_zero && term.factor != 1) || term.sums.size() != 1 || !power || !query ||
        factors.size() != (is_zero ? 0 : 1))
      return no("what a chunk gives is not read from the state before it");
    const Dim size = Dim::symbol(term.sums[0].first);
    if (!sequences_.is(*query, chunk, row_, size, query_))
      return no("the state is read with other queries");
    if (!is_sum(terms_.operand(*power, 0), chunk, row_))
      return no("the state does not decay as the chunk's own tokens do");
    return is_state(is_zero ? std::nullopt : std::optional(factors[0]), size);
  }
  /// Element [size, channel] of the state before the chunk; of the first chunk's zeros, nothing.
  bool is_state(const std::optional<ElementAt>& element, const Dim& size) {
    if (!state_) return element ? no("its first state is not zero") : true;
    const bool fits = element && element->value == *state_ &&
                      element->index == std::vector<Dim>{batch_, head_, size, channel_};
    return fits || no("it reads another state than the one before it leaves");
  }

  bool are_scores(const ElementAt& element, const Dim& chunk, const Dim& column) {
    const auto below = terms_.triangle(element, row_, column);
    if (!below || below->k != 0 || !terms_.is_number(below->other, 0))
      return no("tokens of a chunk see later ones");
    return is_decayed_product(below->kept, "what a chunk's tokens score", chunk, row_, column,
                              query_);
  }

  /// u at `row`: learns its value.
  bool is_written(const ElementAt& element, const Dim& chunk, const Dim& row) {
    const ElementAt last = terms_.source(element);
    if (terms_.is(last, "Sub") == nullptr)
      return no("what a chunk writes is no difference of values and what the state holds");
    written_ = last.value;
    const ProductTerm value = terms_.product(terms_.operand(last, 0));
    if (value.factor != 1 || value.sums.size() != 1 || value.factors.size() != 2)
      return no("what a chunk writes is not solved for its values");
    {
      const Dim j = Dim::symbol(value.sums[0].first);
      auto factors = value.factors;
      const auto solution = take_factor(factors, [&](const ElementAt& f) { return is_solved(f); });
      if (!solution || !is_solution(*solution, chunk, row, j))
        return why_.empty() ? no("what a chunk writes is not solved for its values") : false;
      if (!sequences_.is(factors[0], chunk, j, channel_, scaled_value_))
        return no("its values are no values of tokens");
    }
    const ProductTerm held = terms_.product(terms_.operand(last, 1));
    const bool is_zero = held.factor == 0;
    auto factors = held.factors;
    const auto solution = take_factor(factors, [&](const ElementAt& f) { return is_solved(f); });
    const auto power =
        take_factor(factors, [&](const ElementAt& factor) { return is_exp(factor); });
    if ((!is_zero && held.factor != 1) || held.sums.size() != 2 || !solution || !power)
      return no("what the state holds is not solved for");
    Dim j, size;
    for (const auto& [name, extent] : held.sums)
      (depends_on(*solution, Dim::symbol(name)) ? j : size) = Dim::symbol(name);
    const auto key = take_factor(factors, [&](const ElementAt& f) { return depends_on(f, j); });
    if (!key || factors.size() != (is_zero ? 0 : 1) || !is_solution(*solution, chunk, row, j) ||
        !sequences_.is(*key, chunk, j, size, scaled_key_) ||
        !is_sum(terms_.operand(*power, 0), chunk, j))
      return no("what the state holds is not solved for with the keys of its tokens");
    return is_state(is_zero ? std::nullopt : std::optional(factors[0]), size);
  }

  /// The state behind the chunk: an Add of [batch, heads, size, channels] that reads what it
  /// writes. Behind the last chunk nothing need read it.
  bool next_state(const Dim& chunk) {
    std::optional<ValueId> found;
    for (const NodeId product : graph_.users(written_))
      for (const ValueId out : graph_.node(product).outputs)
        for (const NodeId sum : graph_.users(out)) {
          const Node& node = graph_.node(sum);
          if (node.op->name == "Add" && is_next_state(node.outputs[0], chunk))
            found = node.outputs[0];
        }
    const bool is_last = chunk == sequences_.chunks().count - Dim(1);
    if (!found && !is_last) return no("no state follows from what a chunk writes");
    state_ = found;
    return true;
  }
  bool is_next_state(ValueId value, const Dim& chunk) {
    const ElementAt element = terms_.any_of(value);
    if (element.index.size() != 4) return false;
    ElementAt own = at(at(element, element.index[0], batch_), element.index[1], head_);
    own = at(own, own.index[3], channel_);
    const Dim size = own.index[2], last(sequences_.chunks().length - 1);
    bool keeps = false, writes = false;
    for (const ElementAt& part : {terms_.operand(own, 0), terms_.operand(own, 1)}) {
      const ProductTerm term = terms_.product(part);
      auto factors = term.factors;
      const auto power = take_factor(factors, [&](const ElementAt& f) { return is_exp(f); });
      if (!power) return false;
      const ElementAt exponent = terms_.operand(*power, 0);
      if (term.sums.empty()) {
        keeps =
            is_sum(exponent, chunk, last) &&
            (term.factor == 0 ? factors.empty() && !state_
                              : term.factor == 1 && factors.size() == 1 && state_ &&
                                    factors[0].value == *state_ && factors[0].index == own.index);
        continue;
      }
      if (term.sums.size() != 1 || term.factor != 1 || factors.size() != 2) return false;
      const Dim j = Dim::symbol(term.sums[0].first);
      const auto update =
          take_factor(factors, [&](const ElementAt& factor) { return factor.value == written_; });
      writes = update && update->index == std::vector<Dim>{batch_, head_, j, channel_} &&
               sequences_.is(factors[0], chunk, j, size, key_) &&
               is_difference(exponent, chunk, last, j);
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
    const std::int64_t length = sequences_.chunks().length;
    sequences_.set_symbols(b, h);
    // Any token: chunk * length + row.
    const Dim chunk = terms_.symbol(sequences_.chunks().count), row = terms_.symbol(Dim(length));
    for (const std::size_t i : {0, 1}) {
      const ElementAt rate = at(terms_.operand(element, i), t, chunk * Dim(length) + row),
                      rest = at(terms_.operand(element, 1 - i), t, chunk * Dim(length) + row);
      auto beta = sequences_.find(rate, chunk, row, std::nullopt);
      auto value = sequences_.find(rest, chunk, row, n);
      if (!beta || !value || beta->heads != sequences_.chunks().heads.value()) continue;
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
    if (value->heads != sequences_.chunks().heads.value()) {
      no("heads share values");
      return {};
    }
    Piece piece;
    piece.writes = {node_.outputs[0]};
    if (state_) piece.writes.push_back(*state_);
    const std::vector<Sequence> sequences{*query_, *key_, *value, *decay_, *beta_};
    for (const Sequence& each : sequences) piece.reads.push_back(each.value);
    std::vector<TensorType> types;
    for (const ValueId write : piece.writes) types.push_back(graph_.type(write));
    piece.emit = [sequences, types, origins = node_.origins](GraphBuilder& b,
                                                             std::span<const ValueId> given) {
      GraphBuilder::OriginScope scope(b, origins);
      auto results = add_linear_attention(b, sequences, given, types[0].dtype, 1);
      const ValueId rows = b.add("Transpose", {results[0]}, {{"perm", Ints{0, 2, 1, 3}}});
      results[0] = b.add("Reshape", {rows}, {{"shape", types[0].shape}});
      results.resize(types.size());
      if (types.size() > 1 && b.type(results[1]).dtype != types[1].dtype)
        results[1] = b.add("Cast", {results[1]}, {{"to", types[1].dtype}});
      return results;
    };
    return piece;
  }

  const Graph& graph_;
  const Node& node_;
  Sequences sequences_;
  Terms& terms_ = sequences_.terms();
  Dim batch_, row_, head_, channel_;
  std::optional<Sequence> query_, key_, decay_, beta_, scaled_key_, scaled_value_;
  std::optional<ValueId> solution_, state_;
  ValueId written_;
  std::string why_;
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
