// SPDX-License-Identifier: Apache-2.0
#include "fusion/recurrences/loop_layers.h"

#include <algorithm>
#include <map>
#include <memory>

#include "fusion/recurrences/lifted_body.h"
#include "fusion/recurrences/step_emission.h"
#include "ir/affine.h"

namespace sinter::fusion {
namespace {

/// A While whose body is one step of a state, and values that each iteration stores.
class LoopLayer {
 public:
  LoopLayer(const Graph& graph, const Node& loop)
      : graph_(graph), loop_(loop), body_(*loop.body), steps_(body_) {}

  std::optional<FoundChain> match() {
    const auto& trips = loop_.attrs.get_dims("trips");
    if (trips.size() != 1 || loop_.attrs.get_int("checked") != 0 ||
        !ir::proves_le(Dim(1), trips[0], graph_.ranges()))
      return std::nullopt;
    trips_ = trips[0];
    const auto states = static_cast<std::size_t>(loop_.attrs.get_int("states"));
    for (std::size_t i = 0; i < states; ++i) {
      const ValueId after = body_.outputs()[i];
      if (const auto value = stored(i)) {
        values_.emplace_back(i, *value);
      } else if (is_counter(i)) {
        counters_.push_back(i);
      } else if (!step_ && is_step(i, after)) {
        state_ = i;
      } else {
        return std::nullopt;
      }
    }
    if (!step_) return std::nullopt;
    // What every iteration has: its number, and the step's result.
    std::vector<ValueId> given{body_.inputs()[0], step_->out.value};
    for (const std::size_t i : counters_) given.push_back(body_.inputs()[i + 1]);
    auto lifted = std::make_shared<LiftedBody>(body_, trips_);
    for (std::size_t i = states + 1; i < body_.inputs().size(); ++i)
      lifted->invariant(body_.inputs()[i]);
    lifted->plan(given);
    for (const auto& [i, value] : values_)
      if (!lifted->has(value) || !lifted->differs(value)) return std::nullopt;
    auto chain = with_sizes(body_, {*step_});
    if (!chain) return std::nullopt;
    for (const ValueId read : reads(chain->steps[0]))
      if (!lifted->has(read)) return std::nullopt;
    return FoundChain{&loop_, recurrence(std::move(*chain), std::move(lifted))};
  }

 private:
  ValueId before(std::size_t state) const { return body_.inputs()[state + 1]; }

  /// The value that an iteration stores at its number, along the first dimension of state `i`.
  std::optional<ValueId> stored(std::size_t i) const {
    const Node* scatter = body_.producer(body_.outputs()[i]);
    if (scatter == nullptr || scatter->op->name != "Scatter" || scatter->inputs[0] != before(i) ||
        scatter->attrs.get_string("combine") != "none" || scatter->inputs.size() < 3 ||
        scatter->inputs[2] != body_.inputs()[0])
      return std::nullopt;
    const Shape& all = body_.type(before(i)).shape;
    const Shape& value = body_.type(scatter->inputs[1]).shape;
    if (all.size() != value.size() + 1 || scatter->inputs.size() != all.size() + 2 ||
        all[0] != trips_ || body_.users(before(i)).size() != 1)
      return std::nullopt;
    // All of it: each element goes to its own place.
    ir::Ranges ranges = body_.ranges();
    const std::vector<Dim> index = ir::index_symbols(value, ranges);
    for (std::size_t d = 0; d < value.size(); ++d) {
      const ValueId places = scatter->inputs[d + 3];
      const Shape& shape = body_.type(places).shape;
      std::vector<Dim> at;
      for (std::size_t k = 0; k < shape.size(); ++k)
        at.push_back(shape[k] == Dim(1) ? Dim(0) : index[value.size() - shape.size() + k]);
      const auto place = ir::index_of_value(body_, places, at, ranges);
      const bool fits = place && (*place == index[d] || (value[d] == Dim(1) && *place == Dim(0)));
      if (all[d + 1] != value[d] || !fits) return std::nullopt;
    }
    return scatter->inputs[1];
  }

  /// A state that counts the iterations from a number on.
  bool is_counter(std::size_t i) const {
    const Node* add = body_.producer(body_.outputs()[i]);
    if (!is_integer(body_.type(before(i)).dtype) || add == nullptr || add->op->name != "Add")
      return false;
    for (const std::size_t k : {0, 1})
      if (add->inputs[k] == before(i) && splat_value(body_, add->inputs[1 - k]) == 1.0) return true;
    return false;
  }

  bool is_step(std::size_t i, ValueId after) {
    const Node* add = body_.producer(after);
    if (add == nullptr || add->op->name != "Add") return false;
    auto step = steps_.match(*add);
    if (!step || step->before != before(i) || !steps_.complete(*step)) return false;
    step_ = std::move(step);
    return true;
  }

  static std::vector<ValueId> reads(const TokenStep& step) {
    std::vector<ValueId> result;
    const auto add = [&](const StepOperand& operand) {
      for (const ElementAt& factor : operand.factors) result.push_back(factor.value);
    };
    for (const auto* const operand : {&step.decay, &step.beta, &step.erase_a, &step.erase_b})
      if (*operand) add(**operand);
    for (const auto* const operand : {&step.key, &step.value, &step.out.query}) add(*operand);
    return result;
  }

  FoundRecurrence recurrence(StepChain chain, std::shared_ptr<const LiftedBody> lifted) const {
    Piece piece;
    piece.writes.assign(loop_.outputs.begin(), loop_.outputs.end());
    piece.reads = loop_.inputs;
    const Dim keys = chain.keys;
    const std::string_view rule = chain.steps[0].rule;
    const DType type = body_.type(chain.steps[0].out.value).dtype;
    piece.emit = [chain = std::move(chain), lifted, loop = &loop_, trips = trips_, values = values_,
                  counters = counters_,
                  state = state_](GraphBuilder& b, std::span<const ValueId> given) {
      const GraphBuilder::OriginScope scope(b, loop->origins);
      const Graph& body = *loop->body;
      std::map<ValueId, ValueId> bound;
      const ValueId number = b.add("Iota", {}, {{"shape", Shape{trips}}});
      bound.emplace(body.inputs()[0], number);
      for (std::size_t i = given.size(); i-- > loop->outputs.size() + 1;)
        bound.emplace(body.inputs()[i], given[i]);
      std::vector<ValueId> written(loop->outputs.size());
      for (const std::size_t i : counters) {
        const DType type = b.type(given[i + 1]).dtype;
        const auto of_type = [&](ValueId value) {
          return b.type(value).dtype == type ? value : b.add("Cast", {value}, {{"to", type}});
        };
        // Like the first in its dimensions, of which each has one element.
        Shape shape = b.type(given[i + 1]).shape;
        shape.insert(shape.begin(), trips);
        bound.emplace(
            body.inputs()[i + 1],
            b.add("Add", {b.add("Reshape", {of_type(number)}, {{"shape", shape}}), given[i + 1]}));
        const ValueId count = b.add("Size", {}, {{"value", std::vector<Dim>{trips}}});
        written[i] = b.add("Add", {given[i + 1], of_type(count)});
      }
      const TokenSource source{[&](ValueId value) { return lifted->emit(b, bound, value); },
                               [&](ValueId value) { return lifted->differs(value); }, trips};
      const StepEmission emission(body, chain, b, source);
      const TokenStep& step = chain.steps[0];
      const TensorType out = body.type(step.out.value);
      const auto results = emission.run(out.dtype, given[state + 1]);
      TensorType all = out;
      all.shape.insert(all.shape.begin(), trips);
      bound.emplace(step.out.value, emission.results(results[0], 0, all));
      written[state] = emission.state_out(results[1], body.type(step.after));
      for (const auto& [i, value] : values) written[i] = lifted->emit(b, bound, value);
      return written;
    };
    return {std::move(piece), rule, keys, type};
  }

  const Graph& graph_;
  const Node& loop_;
  const Graph& body_;
  TokenSteps steps_;
  Dim trips_;
  std::optional<TokenStep> step_;
  std::size_t state_ = 0;
  std::vector<std::size_t> counters_;
  std::vector<std::pair<std::size_t, ValueId>> values_;  // states, and what they store
};

}  // namespace

std::vector<FoundChain> loop_layers(const Graph& graph) {
  std::vector<FoundChain> result;
  for (const Node& node : graph.nodes()) {
    if (node.op->kind != OpKind::kWhile || node.body == nullptr) continue;
    if (auto found = LoopLayer(graph, node).match()) result.push_back(std::move(*found));
  }
  return result;
}

}  // namespace sinter::fusion
