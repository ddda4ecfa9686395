// SPDX-License-Identifier: Apache-2.0
#include "fusion/recurrences/chunked_scan.h"

#include <algorithm>
#include <cmath>

#include "fusion/recurrences/terms.h"

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
/// heads, unrolled over the tokens of a chunk and over chunks.
class ChunkedScan {
 public:
  ChunkedScan(const Graph& graph, const Node& node)
      : graph_(graph),
        node_(node),
        terms_(graph, [this](const Element& element) { return is_of_token(element); }) {}

  std::optional<Piece> match() {
    const ValueId out = node_.outputs[0];
    const Shape& shape = graph_.type(out).shape;
    if (node_.op->name != "Add" || shape.size() != 5 || !shape[2].is_constant()) return {};
    chunks_ = shape[1];
    length_ = shape[2];
    const Element element = terms_.any_of(out);
    batch_ = element.index[0];
    chunk_ = element.index[1];
    row_ = element.index[2];
    head_ = element.index[3];
    channel_ = element.index[4];
    if (!row_.as_symbol()) return {};
    const auto parts = terms_.addends(element);
    if (parts.size() != 2) return {};
    for (const std::size_t own : {0, 1}) {
      const Term within = terms_.product(parts[own]);
      if (!is_within(within)) continue;
      const Term before = terms_.product(parts[1 - own]);
      if (!is_before(before)) return {};
      return piece();
    }
    return {};
  }
  const std::string& why() const { return why_; }

 private:
  bool no(const char* why) {
    why_ = why;
    return false;
  }

  /// A token's own value: [.., tokens, ..] of all chunks, at one token and nothing of another.
  bool is_of_token(const Element& element) const {
    const Shape& shape = graph_.type(element.value).shape;
    if (shape.size() > 4) return false;
    int tokens = 0;
    for (std::size_t d = 0; d < shape.size(); ++d)
      if (shape[d] == chunks_ * length_ && token_of(element.index[d])) ++tokens;
    return tokens == 1;
  }
  /// The chunk and the row of Q * chunk + row, if `index` is that.
  std::optional<std::pair<Dim, Dim>> token_of(const Dim& index) const {
    Dim chunk, row;
    for (const Dim::Term& term : index.terms()) {
      if (term.factors.size() != 1 || term.factors[0]->kind != ir::DimAtom::Kind::kSymbol)
        return std::nullopt;
      const Dim symbol = Dim::symbol(term.factors[0]->name);
      if (term.coefficient == 1 && length_ != Dim(1) && row == Dim(0))
        row = symbol;
      else if (Dim(term.coefficient) == length_ && chunk == Dim(0))
        chunk = symbol;
      else
        return std::nullopt;
    }
    if (row == Dim(0)) return std::nullopt;
    return std::pair(chunk, row);
  }

  /// A sequence: its value behind views, [batch, tokens, heads / group, channels] in some order.
  struct Sequence {
    Element element;
    std::vector<std::size_t> order;  // the dimensions of batch, tokens, heads and channels
    std::int64_t heads = 0;
  };

  /// The value furthest behind views of `element` that is a sequence at token (chunk, row), of
  /// channel `channel` or, if that is nothing, without channels.
  std::optional<Sequence> sequence(Element element, const Dim& chunk, const Dim& row,
                                   const std::optional<Dim>& channel) const {
    const Dim token = length_ * chunk + row;
    std::optional<Sequence> found;
    for (;;) {
      if (auto now = as_sequence(element, token, channel)) found = std::move(now);
      const Node* node = graph_.producer(element.value);
      if (node == nullptr || node->op->kind != OpKind::kView) break;
      auto next = terms_.behind(element);
      if (!next) break;
      element = std::move(*next);
    }
    return found;
  }
  std::optional<Sequence> as_sequence(const Element& element, const Dim& token,
                                      const std::optional<Dim>& channel) const {
    const Shape& shape = graph_.type(element.value).shape;
    const std::size_t rank = channel ? 4 : 3;
    if (shape.size() != rank) return std::nullopt;
    Sequence result{element, std::vector<std::size_t>(rank, rank), 0};
    std::vector<bool> used(rank, false);
    const auto take = [&](std::size_t role, const auto& fits) {
      for (std::size_t d = 0; d < rank; ++d)
        if (!used[d] && fits(d)) {
          used[d] = true;
          result.order[role] = d;
          return true;
        }
      return false;
    };
    const Dim& heads = graph_.type(node_.outputs[0]).shape[3];
    const bool fits =
        take(1,
             [&](std::size_t d) {
               return element.index[d] == token && shape[d] == chunks_ * length_;
             }) &&
        (!channel || take(3, [&](std::size_t d) { return element.index[d] == *channel; })) &&
        take(2,
             [&](std::size_t d) {
               if (!shape[d].is_constant() || !heads.is_constant()) return false;
               if (shape[d].value() < 1 || heads.value() % shape[d].value() != 0) return false;
               result.heads = shape[d].value();
               const Dim group(heads.value() / result.heads);
               return element.index[d] ==
                      (result.heads == 1 ? Dim(0) : ir::floor_div(head_, group, terms_.ranges()));
             }) &&
        take(0, [&](std::size_t d) {
          return element.index[d] == batch_ && shape[d] == graph_.type(node_.outputs[0]).shape[0];
        });
    if (!fits) return std::nullopt;
    return result;
  }

  static bool has(const Element& element, const Dim& symbol) {
    const auto name = symbol.as_symbol();
    return name && std::ranges::any_of(element.index, [&](const Dim& dim) {
             const auto symbols = dim.symbols();
             return std::ranges::find(symbols, *name) != symbols.end();
           });
  }
  /// Takes the only factor of `factors` for which `fits` is true out of them.
  template <typename Fits>
  static std::optional<Element> take(std::vector<Element>& factors, const Fits& fits) {
    const auto found = std::ranges::find_if(factors, fits);
    if (found == factors.end() || std::find_if(found + 1, factors.end(), fits) != factors.end())
      return std::nullopt;
    Element result = std::move(*found);
    factors.erase(found);
    return result;
  }

  /// `element` is the sum of the decays of `chunk` up to token `row`; learns or compares them.
  bool is_sum_of_decays(const Element& element, const Dim& chunk, const Dim& row) {
    const Element last = terms_.source(element);
    const Node* scan = running_sum(last);
    if (scan == nullptr) return false;
    const auto axis = static_cast<std::size_t>(scan->attrs.get_int("axis"));
    return last.index[axis] == row && is_decay({scan->inputs[0], last.index}, chunk, row);
  }
  const Node* running_sum(const Element& element) const {
    const Node* scan = terms_.is(element, "Scan");
    const bool fits = scan != nullptr && scan->attrs.get_string("combine") == "sum" &&
                      scan->attrs.get_int("exclusive") == 0 && scan->attrs.get_int("reverse") == 0;
    return fits ? scan : nullptr;
  }
  /// `element` is the decay of token (chunk, row).
  bool is_decay(const Element& element, const Dim& chunk, const Dim& row) {
    auto found = sequence(element, chunk, row, std::nullopt);
    if (!found || found->heads != heads()) return false;
    if (!decay_) {
      decay_ = std::move(found);
      return true;
    }
    return decay_->element.value == found->element.value && decay_->order == found->order;
  }
  std::int64_t heads() const { return graph_.type(node_.outputs[0]).shape[3].value(); }

  /// `element` is the sum, over rows j with column < j <= row, of `summand(j)`, and -inf above the
  /// diagonal: a running sum of what lies below the diagonal.
  template <typename Summand>
  bool is_segment_sum(const Element& element, const Dim& row, const Dim& column,
                      const Summand& summand) {
    const auto outer = terms_.triangle(element, row, column);
    if (!outer || outer->k != 0 || !terms_.is_number(outer->other, -INFINITY)) return false;
    const Element sum = terms_.source(outer->kept);
    const Node* scan = running_sum(sum);
    if (scan == nullptr) return false;
    const auto axis = static_cast<std::size_t>(scan->attrs.get_int("axis"));
    if (sum.index[axis] != row) return false;
    const auto inner = terms_.triangle({scan->inputs[0], sum.index}, row, column);
    return inner && inner->k == 1 && terms_.is_number(inner->other, 0) &&
           !has(terms_.source(inner->kept), column) && summand(inner->kept, row);
  }

  /// What the chunk's own tokens give.
  bool is_within(const Term& term) {
    if (term.factor != 1 || term.sums.size() != 2 || term.factors.size() != 4) return false;
    auto factors = term.factors;
    const auto power =
        take(factors, [&](const Element& factor) { return terms_.is(factor, "Exp") != nullptr; });
    const auto value = take(factors, [&](const Element& factor) { return has(factor, channel_); });
    const auto query = take(factors, [&](const Element& factor) { return has(factor, row_); });
    if (!power || !value || !query) return false;
    const Element& key = factors[0];
    Dim column, size;
    for (const auto& [name, extent] : term.sums)
      (has(*value, Dim::symbol(name)) ? column : size) = Dim::symbol(name);
    if (!column.as_symbol() || !size.as_symbol() || !has(key, column) || !has(key, size))
      return false;
    const Element exponent = terms_.operand(*power, 0);
    if (!is_segment_sum(exponent, row_, column, [&](const Element& summand, const Dim& row) {
          return is_decay(summand, chunk_, row);
        }))
      return no("the decays between a chunk's tokens are no sums of one for each token and head");
    query_ = sequence(*query, chunk_, row_, size);
    key_ = sequence(key, chunk_, column, size);
    value_ = sequence(*value, chunk_, column, channel_);
    if (!query_ || !key_ || !value_)
      return no("its queries, keys or values are no values of tokens, by head");
    if (value_->heads != heads()) return no("heads share values");
    return true;
  }

  /// Whether `element` is that of `known`, at other symbols.
  bool is_same_sequence(const Element& element, const Dim& chunk, const Dim& row,
                        const std::optional<Dim>& channel,
                        const std::optional<Sequence>& known) const {
    const auto found = sequence(element, chunk, row, channel);
    return found && found->element.value == known->element.value && found->order == known->order &&
           found->heads == known->heads;
  }

  /// What the state before the chunk gives.
  bool is_before(const Term& term) {
    auto factors = term.factors;
    if (term.factor != 1 || term.sums.size() != 2 || factors.size() != 4)
      return no("what it adds is not read from a state before the chunk");
    // exp(G_l), and the decays between chunks.
    const auto token_power = take(factors, [&](const Element& factor) {
      return terms_.is(factor, "Exp") != nullptr && has(factor, row_);
    });
    const auto chunk_power =
        take(factors, [&](const Element& factor) { return terms_.is(factor, "Exp") != nullptr; });
    const auto query = take(factors, [&](const Element& factor) { return has(factor, row_); });
    if (!token_power || !chunk_power || !query)
      return no("what it adds is not read from a state before the chunk");
    Dim other, size;
    for (const auto& [name, extent] : term.sums)
      (has(*query, Dim::symbol(name)) ? size : other) = Dim::symbol(name);
    if (!is_same_sequence(*query, chunk_, row_, size, query_))
      return no("the state is read with other queries");
    if (!is_sum_of_decays(terms_.operand(*token_power, 0), chunk_, row_))
      return no("the state does not decay as the chunk's own tokens do");
    const Element between = terms_.operand(*chunk_power, 0);
    const bool decays =
        is_segment_sum(between, chunk_, other, [&](const Element& summand, const Dim& chunk) {
          return is_total_of_chunk_before(summand, chunk);
        });
    if (!decays) return no("states do not decay from chunk to chunk by the sums of its tokens");
    return are_states(factors[0], other, size);
  }

  /// The sum of all decays of chunk - 1, and 0 of the first: a Pad in front.
  bool is_total_of_chunk_before(const Element& element, const Dim& chunk) {
    const Element last = terms_.source(element);
    const Node* pad = terms_.is(last, "Pad");
    if (pad == nullptr || pad->attrs.get_float("fill") != 0) return false;
    const auto& begins = pad->attrs.get_dims("begins");
    const auto& ends = pad->attrs.get_dims("ends");
    Element inner{pad->inputs[0], last.index};
    for (std::size_t d = 0; d < begins.size(); ++d) {
      const bool is_chunk = inner.index[d] == chunk;
      if (ends[d] != Dim(0) || begins[d] != Dim(is_chunk ? 1 : 0)) return false;
      if (!is_chunk) continue;
      // An earlier chunk's: any chunk stands for it.
      inner.index[d] = chunk_;
    }
    return is_sum_of_decays(inner, chunk_, length_ - Dim(1));
  }

  /// A Concat of a zero state and those that each chunk adds.
  bool are_states(const Element& element, const Dim& chunk, const Dim& size) {
    const Element last = terms_.source(element);
    const Node* concat = terms_.is(last, "Concat");
    if (concat == nullptr || concat->inputs.size() != 2)
      return no("states of chunks are not behind a first one");
    const auto axis = static_cast<std::size_t>(concat->attrs.get_int("axis"));
    if (last.index[axis] != chunk || graph_.type(concat->inputs[0]).shape[axis] != Dim(1))
      return no("states of chunks are not behind a first one");
    Element first{concat->inputs[0], last.index}, added{concat->inputs[1], last.index};
    first.index[axis] = Dim(0);
    added.index[axis] = chunk_;
    if (!terms_.is_number(first, 0)) return no("the first state is not zero");
    const Term term = terms_.product(added);
    auto factors = term.factors;
    const auto power =
        take(factors, [&](const Element& factor) { return terms_.is(factor, "Exp") != nullptr; });
    const auto key = take(factors, [&](const Element& factor) { return has(factor, size); });
    if (term.factor != 1 || term.sums.size() != 1 || !power || !key || factors.size() != 1)
      return no("what a chunk adds to the state is no sum over its tokens");
    const Dim column = Dim::symbol(term.sums[0].first);
    if (!is_same_sequence(*key, chunk_, column, size, key_) ||
        !is_same_sequence(factors[0], chunk_, column, channel_, value_))
      return no("the state is written with other keys or values");
    const Element exponent = terms_.source(terms_.operand(*power, 0));
    if (terms_.is(exponent, "Sub") == nullptr ||
        !is_sum_of_decays(terms_.operand(exponent, 0), chunk_, length_ - Dim(1)) ||
        !is_sum_of_decays(terms_.operand(exponent, 1), chunk_, column))
      return no("what a token writes does not decay up to the chunk's end");
    return true;
  }

  Piece piece() const {
    Piece piece;
    piece.writes = {node_.outputs[0]};
    std::vector<std::vector<std::size_t>> orders;
    for (const Sequence* each : {&*query_, &*key_, &*value_, &*decay_}) {
      piece.reads.push_back(each->element.value);
      orders.push_back(each->order);
    }
    const TensorType type = graph_.type(node_.outputs[0]);
    const std::vector<std::string> origins = node_.origins;
    piece.emit = [orders, type, origins](GraphBuilder& b, std::span<const ValueId> given) {
      GraphBuilder::OriginScope scope(b, origins);
      std::vector<ValueId> inputs;
      for (std::size_t i = 0; i < given.size(); ++i) {
        ValueId value = given[i];
        if (!std::ranges::is_sorted(orders[i])) {
          const Ints perm(orders[i].begin(), orders[i].end());
          value = b.add("Transpose", {value}, {{"perm", perm}});
        }
        if (i < 3 && b.type(value).dtype != type.dtype)
          value = b.add("Cast", {value}, {{"to", type.dtype}});
        inputs.push_back(value);
      }
      const auto results = b.add_multi("LinearAttention", inputs,
                                       {{"rule", std::string("linear")},
                                        {"scale", 1.0},
                                        {"decay", std::int64_t{1}},
                                        {"state", std::int64_t{0}}});
      return std::vector{b.add("Reshape", {results[0]}, {{"shape", type.shape}})};
    };
    return piece;
  }

  const Graph& graph_;
  const Node& node_;
  Dim chunks_, length_;
  Terms terms_;
  Dim batch_, chunk_, row_, head_, channel_;
  std::optional<Sequence> query_, key_, value_, decay_;
  std::string why_;
};

}  // namespace

std::optional<Piece> chunked_scan(const Graph& graph, const Node& node, std::string& why) {
  if (node.op->name != "Add") return std::nullopt;
  ChunkedScan scan(graph, node);
  auto piece = scan.match();
  why = scan.why();
  return piece;
}

}  // namespace sinter::fusion
