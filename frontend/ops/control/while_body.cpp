// SPDX-License-Identifier: Apache-2.0
#include "frontend/ops/control/while_body.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "frontend/ops/control/unroll.h"

namespace sinter::frontend {

using ir::Node;

namespace {

/// Builds the body's graph from nodes of the surrounding graph.
class BodyExtractor {
 public:
  /// `takes_all`: all nodes added since the first placeholder belong to the body; otherwise only
  /// those that depend on a placeholder.
  BodyExtractor(const ir::GraphBuilder& outer, std::span<const ValueId> placeholders,
                bool takes_all)
      : outer_(outer), body_("body"), takes_all_(takes_all) {
    for (const auto& [symbol, range] : outer.ranges()) body_.range(symbol, range);
    for (const ValueId placeholder : placeholders) {
      inputs_.push_back(placeholder);
      inner_.emplace(placeholder, body_.input({}, outer.type(placeholder)));
    }
  }

  ir::Graph run(std::span<const ValueId> outputs) {
    for (const auto& [first, node] : ancestors(outputs))
      if (takes_all_ || depends(node->inputs) || depends(node->extents)) copy(*node);
    for (const ValueId output : outputs) body_.output({}, import(output));
    return body_.finish();
  }

  /// The outer values of the body's inputs.
  const std::vector<ValueId>& inputs() const { return inputs_; }

 private:
  bool depends(const std::vector<ValueId>& values) const {
    return std::ranges::any_of(values, [&](ValueId value) { return inner_.contains(value); });
  }

  /// Nodes that may depend on a placeholder, in topological order, by first output.
  std::map<ValueId, const Node*> ancestors(std::span<const ValueId> outputs) const {
    std::map<ValueId, const Node*> found;
    std::vector<ValueId> open(outputs.begin(), outputs.end());
    while (!open.empty()) {
      const ValueId value = open.back();
      open.pop_back();
      const Node* node = outer_.producer(value);
      // Ids increase in creation order.
      if (node == nullptr || value < inputs_.front() || inner_.contains(value) ||
          !found.emplace(node->outputs.front(), node).second)
        continue;
      open.insert(open.end(), node->inputs.begin(), node->inputs.end());
      open.insert(open.end(), node->extents.begin(), node->extents.end());
    }
    return found;
  }

  void copy(const Node& node) {
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(import(input));
    const ir::GraphBuilder::OriginScope scope(body_, node.origins);
    const auto outputs = body_.add_multi(node.op->name, inputs, node.attrs, node.body);
    for (std::size_t i = 0; i < outputs.size(); ++i) inner_.emplace(node.outputs[i], outputs[i]);
  }

  /// True for values that a kernel can generate without reading memory: an Iota, a size, an
  /// expanded scalar.
  bool is_generated(ValueId value) const {
    if (const ir::Tensor* constant = outer_.constant_of(value))
      return constant->element_count() == 1;
    const Node* node = outer_.producer(value);
    if (node == nullptr) return false;
    const bool is_cheap = node->op->kind == ir::OpKind::kView ||
                          node->op->kind == ir::OpKind::kPointwise ||
                          node->op->generate() != nullptr;
    return is_cheap &&
           std::ranges::all_of(node->inputs, [&](ValueId input) { return is_generated(input); });
  }

  /// True for 8-bit constants minus their zero points, as int32: integer products take the
  /// constants as they are, and pack them once.
  bool is_difference(ValueId value) const {
    if (outer_.constant_of(value) != nullptr) return true;
    const Node* node = outer_.producer(value);
    if (node == nullptr) return false;
    const bool is_exact = outer_.type(value).dtype == DType::kInt32 &&
                          (node->op->name == "Sub" || node->op->name == "Cast");
    if (!is_exact && node->op->kind != ir::OpKind::kView) return false;
    return std::ranges::all_of(node->inputs, [&](ValueId input) { return is_difference(input); });
  }

  /// Maps a value into the body: constants, their differences and generated values are repeated
  /// there, other loop-invariant values become inputs.
  ValueId import(ValueId value) {
    if (const auto known = inner_.find(value); known != inner_.end()) return known->second;
    ValueId inner;
    if (auto constant = outer_.shared_constant(value)) {
      inner = body_.constant(std::move(constant));
    } else if (is_generated(value) || is_difference(value)) {
      copy(*outer_.producer(value));
      return inner_.at(value);
    } else {
      inner = body_.input({}, outer_.type(value));
      inputs_.push_back(value);
    }
    inner_.emplace(value, inner);
    return inner;
  }

  const ir::GraphBuilder& outer_;
  ir::GraphBuilder body_;
  bool takes_all_;
  std::map<ValueId, ValueId> inner_;
  std::vector<ValueId> inputs_;
};

}  // namespace

ExtractedBody extract_body(const ir::GraphBuilder& builder, std::span<const ValueId> placeholders,
                           std::span<const ValueId> outputs, bool takes_all) {
  BodyExtractor extractor(builder, placeholders, takes_all);
  ExtractedBody result;
  result.body = std::make_shared<const ir::Graph>(extractor.run(outputs));
  result.captured.assign(
      extractor.inputs().begin() + static_cast<std::ptrdiff_t>(placeholders.size()),
      extractor.inputs().end());
  return result;
}

WhileBody::WhileBody(NodeContext& node)
    : node_(node), index_(node.builder().placeholder({DType::kInt64, {}})) {}

ValueId WhileBody::state(ValueId initial) {
  states_.push_back({initial, node_.builder().placeholder(node_.type(initial)), {}});
  return states_.back().before;
}

ValueId WhileBody::number_of(const Dim& trips, bool backwards) {
  return backwards ? node_.add("Sub", {node_.folder().scalar_of(trips - Dim(1)), index_}) : index_;
}

ValueId WhileBody::element(ValueId sequence, std::int64_t axis, const Dim& trips, bool backwards) {
  return node_.add("Gather", {sequence, number_of(trips, backwards)}, {{"axis", axis}});
}

void WhileBody::collect(ValueId value, const Dim& trips, bool backwards) {
  const Shape shape = node_.shape(value);
  for (const Dim& dim : shape)
    for (const std::string& symbol : dim.symbols())
      if (const ValueId extent = node_.builder().extent(symbol); extent.valid() && made(extent))
        node_.unsupported(
            "each iteration finds how large is what it adds to an output, {}: pad it to one size",
            node_.type(value));
  Shape all = shape;
  all.insert(all.begin(), trips);
  const ValueId initial = node_.expand(node_.constant(node_.dtype(value), 0), all);
  const ValueId before = node_.builder().placeholder(node_.type(initial));
  std::vector<ValueId> operands{before, value, number_of(trips, backwards)};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    Shape along(shape.size() - d, Dim(1));
    along.front() = shape[d];
    operands.push_back(node_.reshape(node_.folder().iota(shape[d], DType::kInt64), along));
  }
  collected_.push_back({initial, before, node_.add("Scatter", operands)});
}

bool WhileBody::made(ValueId value) const {
  return index_ < value && node_.builder().producer(value) != nullptr;
}

std::vector<const Node*> WhileBody::nodes_of(std::span<const ValueId> outputs) const {
  std::set<const Node*> seen;
  std::vector<ValueId> open(outputs.begin(), outputs.end());
  while (!open.empty()) {
    const ValueId value = open.back();
    open.pop_back();
    if (!made(value)) continue;
    const Node* node = node_.builder().producer(value);
    if (seen.insert(node).second) open.insert(open.end(), node->inputs.begin(), node->inputs.end());
  }
  return {seen.begin(), seen.end()};
}

std::vector<ValueId> WhileBody::finish_branch(ValueId condition, std::span<const ValueId> otherwise,
                                              std::span<const ValueId> values) {
  for (const ValueId value : otherwise) state(value);
  takes_all_ = true;
  return finish({Dim(1), condition, node_.constant(DType::kBool, 0)}, values);
}

WhileBody::End WhileBody::counted_on_data(End end) {
  const ir::Ranges& ranges = node_.builder().ranges();
  if (!end.trips || !ir::is_from_data({&*end.trips, 1}, ranges)) return end;
  const ValueId count = node_.folder().scalar_of(*end.trips);
  const auto is_below = [&](ValueId number, ValueId other) {
    const ValueId below = node_.add("Less", {number, count});
    return other.valid() ? node_.add("And", {node_.reshape(other, {}), below}) : below;
  };
  const ValueId one = node_.constant(DType::kInt64, 1);
  return {ir::largest(*end.trips, ranges), is_below(node_.constant(DType::kInt64, 0), end.first),
          is_below(node_.add("Add", {index_, one}), end.next)};
}

std::vector<ValueId> WhileBody::finish(End end, std::span<const ValueId> after) {
  end = counted_on_data(std::move(end));
  std::vector<State> states = std::move(states_);
  for (std::size_t i = 0; i < states.size(); ++i) {
    states[i].after = after[i];
    const ir::TensorType before = node_.type(states[i].initial), now = node_.type(after[i]);
    if (before.dtype != now.dtype)
      node_.invalid("carried value {} is {}, but {} after an iteration", i, before, now);
    if (before != now)
      node_.unsupported(
          "carried value {} is {}, but {} after an iteration: a loop whose number of "
          "iterations is not a constant carries values of one shape; pad it to its "
          "longest",
          i, before, now);
  }
  states.insert(states.end(), collected_.begin(), collected_.end());
  const bool checked = end.first.valid();
  if (checked) {
    const ValueId flag = node_.builder().placeholder({DType::kBool, {}});
    states.insert(states.begin(),
                  {node_.reshape(end.first, {}), flag, node_.reshape(end.next, {})});
  }
  std::vector<ValueId> placeholders{index_}, outputs, inputs{node_.constant(DType::kInt64, 0)};
  for (const State& state : states) {
    inputs.push_back(state.initial);
    placeholders.push_back(state.before);
    outputs.push_back(state.after);
  }
  ExtractedBody extracted = extract_body(node_.builder(), placeholders, outputs, takes_all_);
  inputs.insert(inputs.end(), extracted.captured.begin(), extracted.captured.end());
  std::vector<Dim> trips;
  if (end.trips) trips.push_back(*end.trips);
  std::vector<ValueId> results =
      node_.builder().add_multi("While", inputs,
                                {{"trips", trips},
                                 {"states", static_cast<std::int64_t>(states.size())},
                                 {"checked", static_cast<std::int64_t>(checked)}},
                                std::move(extracted.body));
  if (checked) results.erase(results.begin());
  return results;
}

namespace {

std::optional<IterationResult> unrolled(
    NodeContext& node, std::int64_t count, std::vector<ValueId> states,
    const std::vector<bool>& backwards,
    const std::function<std::optional<IterationResult>(const Iteration&)>& body) {
  std::vector<std::vector<ValueId>> collected(backwards.size());
  for (std::int64_t i = 0; i < count; ++i) {
    const auto element = [&](ValueId sequence, std::int64_t axis, bool from_end) {
      return frontend::element(node, sequence, axis, from_end ? count - 1 - i : i);
    };
    auto result = body({node.folder().scalar_of(i), states, fmt::format("[{}]", i), element});
    if (!result) return std::nullopt;
    states = std::move(result->states);
    for (std::size_t k = 0; k < collected.size(); ++k) collected[k].push_back(result->collected[k]);
  }
  IterationResult all{std::move(states), {}};
  for (std::size_t k = 0; k < collected.size(); ++k) {
    if (backwards[k]) std::reverse(collected[k].begin(), collected[k].end());
    all.collected.push_back(stack(node, collected[k], node.type(collected[k].front()), 0));
  }
  return all;
}

}  // namespace

std::optional<IterationResult> iterate(
    NodeContext& node, const Dim& count, std::vector<ValueId> states,
    const std::vector<bool>& backwards,
    const std::function<std::optional<IterationResult>(const Iteration&)>& body) {
  if (count == Dim(0)) node.unsupported("its sequences have no elements; they must have one");
  if (count.is_constant() && count.value() <= kMostUnrolled)
    return unrolled(node, count.value(), std::move(states), backwards, body);
  WhileBody loop(node);
  Iteration iteration{
      loop.index(), {}, {}, [&](ValueId sequence, std::int64_t axis, bool from_end) {
        return loop.element(sequence, axis, count, from_end);
      }};
  for (const ValueId state : states) iteration.states.push_back(loop.state(state));
  const auto result = body(iteration);
  if (!result) return std::nullopt;
  for (std::size_t k = 0; k < backwards.size(); ++k)
    loop.collect(result->collected[k], count, backwards[k]);
  const std::vector<ValueId> after = loop.finish({count, {}, {}}, result->states);
  const auto middle = after.begin() + static_cast<std::ptrdiff_t>(states.size());
  return IterationResult{{after.begin(), middle}, {middle, after.end()}};
}

}  // namespace sinter::frontend
