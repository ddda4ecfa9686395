// SPDX-License-Identifier: Apache-2.0
#include "fusion/recurrences/sequences.h"

#include <algorithm>

#include "fusion/recurrences/operands.h"

namespace sinter::fusion {

bool depends_on(const ElementAt& element, const Dim& symbol) {
  const auto name = symbol.as_symbol();
  return name && std::ranges::any_of(element.index, [&](const Dim& dim) {
           const auto symbols = dim.symbols();
           return std::ranges::find(symbols, *name) != symbols.end();
         });
}

std::optional<ElementAt> take_factor(std::vector<ElementAt>& factors,
                                     const std::function<bool(const ElementAt&)>& fits) {
  const auto found = std::ranges::find_if(factors, fits);
  if (found == factors.end() || std::find_if(found + 1, factors.end(), fits) != factors.end())
    return std::nullopt;
  ElementAt result = std::move(*found);
  factors.erase(found);
  return result;
}

/// chunk * length + row: a symbol of a chunk's rows, and another or a constant that is a multiple
/// of the length.
bool Sequences::is_token(const Dim& index) const {
  int rows = 0, chunks = 0;
  for (const Dim::Term& term : index.terms()) {
    const bool is_symbol =
        term.factors.size() == 1 && term.factors[0]->kind == ir::DimAtom::Kind::kSymbol;
    if (is_symbol && term.coefficient == 1 &&
        ir::upper_bound(Dim::symbol(term.factors[0]->name), terms_.ranges()) ==
            chunks_.length - 1) {
      ++rows;
    } else if (term.coefficient % chunks_.length == 0 && (is_symbol || term.factors.empty())) {
      ++chunks;
    } else {
      return false;
    }
  }
  return rows == 1 && chunks <= 1;
}

/// Whether `element` is a product of what only a chunk has: decays, scores, states.
bool Sequences::is_made_of_chunk(const ElementAt& element) const {
  const ElementAt last = terms_.source(element);
  const Node* node = graph_.producer(last.value);
  if (node == nullptr) return false;
  const std::string_view op = node->op->name;
  if (op == "Mul")
    return is_made_of_chunk(terms_.operand(last, 0)) || is_made_of_chunk(terms_.operand(last, 1));
  if (op == "Neg" || op == "Cast") return is_made_of_chunk(terms_.operand(last, 0));
  return is_own_of_chunk(last, op);
}
/// Projections have fewer dimensions.
bool Sequences::is_own_of_chunk(const ElementAt& element, std::string_view op) const {
  const bool is_large = element.index.size() >= 4;
  return op == "Exp" || (is_large && (op == "Add" || op == "Sub" || op == "MatMul" ||
                                      op == "ReduceSum" || op == "Where"));
}

/// A value of tokens, [.., tokens, ..] of all chunks, at one token and nothing of another.
bool Sequences::is_of_token(const ElementAt& element) const {
  const Shape& shape = graph_.type(element.value).shape;
  if (element.value == stop_) return true;
  if (shape.size() > 4 || graph_.is_constant(element.value)) return false;
  // With one chunk, its own values may look like those of tokens.
  if (chunks_.count == Dim(1)) {
    const ElementAt last = terms_.source(element);
    const Node* node = graph_.producer(last.value);
    const std::string_view op = node == nullptr ? "" : node->op->name;
    if (is_own_of_chunk(last, op)) return false;
    const auto decays = [&](std::size_t i) {
      return terms_.is(terms_.source(terms_.operand(last, i)), "Exp") != nullptr;
    };
    if (op == "Mul" && (decays(0) || decays(1))) return false;
  }
  int found = 0;
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (shape[d] == tokens() && element.index[d] != head_ && is_token(element.index[d])) ++found;
  if (found == 2 && chunks_.count == Dim(1))  // as many channels as tokens, or scores of tokens
    return shape.size() == 4 && !is_made_of_chunk(element);
  return found == 1;
}

std::optional<Sequence> Sequences::as_sequence(const ElementAt& element, const Dim& token,
                                               const std::optional<Dim>& channel,
                                               const Dim& tokens) const {
  const Shape& shape = graph_.type(element.value).shape;
  const std::size_t rank = channel ? 4 : 3;
  if (shape.size() != rank || !chunks_.heads.is_constant()) return std::nullopt;
  Sequence result{element.value, std::vector<std::size_t>(rank, rank), 0, tokens};
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
  const auto is_head = [&](std::size_t d) {
    const std::int64_t heads = chunks_.heads.value();
    if (!shape[d].is_constant() || shape[d].value() < 1 || heads % shape[d].value() != 0)
      return false;
    result.heads = shape[d].value();
    const Dim group(heads / result.heads);
    return element.index[d] ==
           (result.heads == 1 ? Dim(0) : ir::floor_div(head_, group, terms_.ranges()));
  };
  const bool fits =
      take(1, [&](std::size_t d) { return element.index[d] == token && shape[d] == tokens; }) &&
      (!channel || take(3, [&](std::size_t d) { return element.index[d] == *channel; })) &&
      take(
          0,
          [&](std::size_t d) { return element.index[d] == batch_ && shape[d] == chunks_.batch; }) &&
      take(2, is_head);
  return fits ? std::optional(result) : std::nullopt;
}

/// The element of what zeros at the end of the tokens were added to.
std::optional<ElementAt> Sequences::before_padding(const ElementAt& element,
                                                   const Dim& token) const {
  const Node* pad = terms_.is(element, "Pad");
  if (pad == nullptr || pad->attrs.get_float("fill") != 0) return std::nullopt;
  const auto& begins = pad->attrs.get_dims("begins");
  const auto& ends = pad->attrs.get_dims("ends");
  for (std::size_t d = 0; d < begins.size(); ++d)
    if (begins[d] != Dim(0) || (ends[d] != Dim(0) && element.index[d] != token))
      return std::nullopt;
  return ElementAt{pad->inputs[0], element.index};
}

std::optional<Sequence> Sequences::find(ElementAt element, const Dim& chunk, const Dim& row,
                                        const std::optional<Dim>& channel, Dim tokens) const {
  const Dim token = Dim(chunks_.length) * chunk + row;
  std::optional<Sequence> found;
  for (;;) {
    if (auto now = as_sequence(element, token, channel, tokens)) found = std::move(now);
    std::optional<ElementAt> next;
    if (found && found->value == element.value && tokens == this->tokens())
      next = before_padding(element, token);
    if (next)
      tokens = graph_.type(next->value).shape[found->order[1]];
    else
      next = terms_.behind(element);
    if (!next) return found;
    element = std::move(*next);
  }
}

bool Sequences::is(const ElementAt& element, const Dim& chunk, const Dim& row,
                   const std::optional<Dim>& channel, std::optional<Sequence>& known) const {
  auto found = find(element, chunk, row, channel);
  if (!found) return false;
  if (!known)
    known = std::move(found);
  else
    return *found == *known;
  return true;
}

std::optional<ElementAt> Sequences::running_sum(const ElementAt& element, const Dim& row) const {
  const ElementAt last = terms_.source(element);
  const Node* scan = terms_.is(last, "Scan");
  if (scan == nullptr || scan->attrs.get_string("combine") != "sum" ||
      scan->attrs.get_int("exclusive") != 0 || scan->attrs.get_int("reverse") != 0 ||
      last.index[static_cast<std::size_t>(scan->attrs.get_int("axis"))] != row)
    return std::nullopt;
  return ElementAt{scan->inputs[0], last.index};
}

std::optional<StateValue> state_at(const ElementAt& element, const std::vector<Dim>& index) {
  if (element.index.size() != index.size()) return std::nullopt;
  StateValue result{element.value, {}};
  std::vector<bool> used(index.size(), false);
  for (const Dim& wanted : index) {
    std::size_t d = 0;
    while (d < index.size() && (used[d] || element.index[d] != wanted)) ++d;
    if (d == index.size()) return std::nullopt;
    used[d] = true;
    result.order.push_back(d);
  }
  return result;
}

/// [batch, tokens, ..], with zeros behind or up to the last of `tokens`.
ValueId of_tokens(GraphBuilder& b, ValueId value, const Dim& tokens) {
  const Shape& shape = b.type(value).shape;
  if (shape[1] == tokens) return value;
  std::vector<Dim> begins(shape.size(), Dim(0)), ends = begins;
  ends[1] = tokens - shape[1];
  return b.add("Pad", {value}, {{"begins", begins}, {"ends", ends}});
}

Piece layer_piece(const Graph& graph, const Node& node, Layer layer, std::vector<ValueId> writes,
                  Ints out, Ints state) {
  Piece piece;
  for (const Sequence& each : layer.sequences) piece.reads.push_back(each.value);
  if (layer.state) piece.reads.push_back(layer.state->value);
  std::vector<TensorType> types;
  for (const ValueId write : writes) types.push_back(graph.type(write));
  piece.writes = std::move(writes);
  piece.emit = [layer = std::move(layer), types, out = std::move(out), state = std::move(state),
                origins = node.origins](GraphBuilder& b, std::span<const ValueId> given) {
    const GraphBuilder::OriginScope scope(b, origins);
    const std::size_t count = layer.sequences.size();
    const Dim& first = layer.sequences[0].tokens;
    const bool is_same_count = std::ranges::all_of(
        layer.sequences, [&](const Sequence& each) { return each.tokens == first; });
    std::vector<ValueId> inputs;
    for (std::size_t i = 0; i < given.size(); ++i) {
      const auto& order = i < count ? layer.sequences[i].order : layer.state->order;
      ValueId value = transposed(b, given[i], Ints(order.begin(), order.end()));
      if (i < count) value = of_tokens(b, value, is_same_count ? first : layer.tokens);
      inputs.push_back(i < 3 ? of_type(b, value, types[0].dtype) : value);
    }
    const auto results =
        b.add_multi("LinearAttention", inputs,
                    {{"rule", std::string(count > 4 ? "delta" : "linear")},
                     {"scale", 1.0},
                     {"decay", std::int64_t{1}},
                     {"state", static_cast<std::int64_t>(layer.state.has_value())}});
    std::vector<ValueId> written;
    for (std::size_t i = 0; i < types.size(); ++i) {
      const ValueId result = i == 0 ? of_tokens(b, results[0], layer.tokens) : results[1];
      const ValueId value = transposed(b, result, i == 0 ? out : state);
      written.push_back(
          of_type(b, b.add("Reshape", {value}, {{"shape", types[i].shape}}), types[i].dtype));
    }
    return written;
  };
  return piece;
}

}  // namespace sinter::fusion
