// SPDX-License-Identifier: Apache-2.0
#include "fusion/recurrences/token_step.h"

#include <algorithm>
#include <set>

#include "fusion/recurrences/sequences.h"
#include "fusion/regions/rebuild.h"

namespace sinter::fusion {
namespace {

// How far behind a state what reads it for its own update, or for a result, may lie.
constexpr int kReach = 12;

}  // namespace

/// Terms end where nothing of the state is, unless all dimensions of a state are mixed there.
bool TokenSteps::is_leaf(const ElementAt& element) {
  const ElementAt last = terms_.source(element);
  if (target_ && last.value == *target_) return !is_zero_;
  if (!reads_out_ && last.value != after_ && terms_.is(last, "Add") != nullptr &&
      graph_.users(last.value).size() > 1)
    return true;  // another state
  if (target_ && reached_.contains(last.value)) return false;
  if (reads_out_) return true;
  if (is_outer_product(last)) return false;
  for (std::size_t d = 1; d < index_.size(); ++d)
    if (index_[d].as_symbol() && !depends_on(last, index_[d])) return true;
  return false;
}

/// Neither operand has all dimensions of the product.
bool TokenSteps::is_outer_product(const ElementAt& element) const {
  const Node* node = graph_.producer(element.value);
  if (node == nullptr || (node->op->name != "Mul" && node->op->name != "MatMul")) return false;
  const Shape& shape = graph_.type(element.value).shape;
  return std::ranges::none_of(node->inputs,
                              [&](ValueId input) { return graph_.type(input).shape == shape; }) &&
         (node->op->name == "Mul" || graph_.type(node->inputs[0]).shape.back() == Dim(1));
}

ProductTerm TokenSteps::product(const ElementAt& element) {
  ProductTerm term = terms_.product(element);
  for (ElementAt& factor : term.factors) factor = narrowed(terms_.source(factor));
  return term;
}

/// Whether the value repeats along the dimensions in which `symbol` is.
bool TokenSteps::repeats(const ElementAt& element, const Dim& symbol, int depth) const {
  const ElementAt last = terms_.source(element);
  if (!depends_on(last, symbol)) return true;
  const Node* node = graph_.producer(last.value);
  if (node == nullptr || node->op->kind != OpKind::kPointwise || depth > 8) return false;
  for (std::size_t i = 0; i < node->inputs.size(); ++i)
    if (!repeats(terms_.operand(last, i), symbol, depth + 1)) return false;
  return true;
}
/// At the first of elements that are all the same.
ElementAt TokenSteps::narrowed(ElementAt element) const {
  for (const Dim& symbol : index_)
    if (depends_on(element, symbol) && repeats(element, symbol, 0))
      element = at(element, symbol, Dim(0));
  return element;
}

/// Values that depend on `value`, as far as they matter.
void TokenSteps::reach(ValueId value, NodeId last) {
  reached_.clear();
  std::vector<ValueId> now{value};
  for (int i = 0; i < kReach && !now.empty(); ++i) {
    std::vector<ValueId> next;
    for (const ValueId each : now)
      for (const NodeId user : graph_.users(each)) {
        if (last.valid() && last < user) continue;
        for (const ValueId out : graph_.node(user).outputs)
          if (reached_.insert(out).second) next.push_back(out);
      }
    now = std::move(next);
  }
}

bool TokenSteps::find_before(TokenStep& step, const std::vector<ElementAt>& parts) {
  const Shape& shape = graph_.type(after_).shape;
  for (const ElementAt& part : parts) {
    ProductTerm term = product(part);
    std::erase_if(term.factors, [&](const ElementAt& f) { return terms_.is(f, "Exp") != nullptr; });
    if (!term.sums.empty()) continue;
    if (term.factor == 0 && term.factors.empty()) {
      // The zeros are a constant behind the factors.
      std::vector<ElementAt> open{part};
      while (!open.empty()) {
        const ElementAt last = terms_.source(open.back());
        open.pop_back();
        if (splat_value(graph_, last.value) == 0.0) {
          target_ = last.value;
          is_zero_ = true;
          return true;
        }
        if (terms_.is(last, "Mul") == nullptr) continue;
        open.push_back(terms_.operand(last, 0));
        open.push_back(terms_.operand(last, 1));
      }
      continue;
    }
    if (term.factor != 1 || term.factors.size() != 1 || term.factors[0].index != index_ ||
        graph_.type(term.factors[0].value).shape != shape ||
        graph_.is_constant(term.factors[0].value))
      continue;
    step.before = target_ = term.factors[0].value;
    return true;
  }
  return false;
}

bool TokenSteps::reads_state(const ProductTerm& term) const {
  // Zeros leave nothing but a factor.
  return is_zero_ ? term.factor == 0
                  : std::ranges::any_of(term.factors, [&](const ElementAt& factor) {
                      return factor.value == *target_;
                    });
}

std::optional<TokenStep> TokenSteps::match(const Node& node) {
  const TensorType& type = graph_.type(node.outputs[0]);
  if (type.shape.size() < 3 || type.shape.size() > 4 || !is_float(type.dtype)) return std::nullopt;
  TokenStep step;
  step.node = &node;
  step.after = after_ = node.outputs[0];
  auto& symbols = symbols_[type.shape];
  if (symbols.empty()) symbols = terms_.any_of(after_).index;
  step.symbols = index_ = symbols;
  target_.reset();
  is_zero_ = reads_out_ = false;
  const std::vector<ElementAt> parts = terms_.addends({after_, index_});
  if (parts.size() < 2 || parts.size() > 3 || !find_before(step, parts)) return std::nullopt;
  reach(*target_, graph_.value(after_).producer);
  std::vector<ProductTerm> kept, written, erased;
  std::vector<ValueId> held;
  for (const ElementAt& part : parts) {
    ProductTerm term = product(part);
    if (!reads_state(term)) {
      written.push_back(std::move(term));
    } else if (term.sums.empty()) {
      kept.push_back(std::move(term));
    } else {
      held.push_back(terms_.source(part).value);
      erased.push_back(std::move(term));
    }
  }
  if (kept.size() != 1 || written.size() != 1 || !written[0].sums.empty()) return std::nullopt;
  const auto power = take_factor(
      kept[0].factors, [&](const ElementAt& f) { return terms_.is(f, "Exp") != nullptr; });
  if (kept[0].factors.size() != (is_zero_ ? 0 : 1)) return std::nullopt;
  if (power) {
    ProductTerm exponent = product(terms_.operand(*power, 0));
    if (!exponent.sums.empty()) return std::nullopt;
    step.decay = StepOperand{exponent.factor, std::move(exponent.factors)};
  }
  step.rule = "linear";
  if (!erased.empty() ? !take_erased(step, erased[0]) : !take_delta(step, written[0]))
    return std::nullopt;
  if (step.rule == "linear") {
    // Without decays every sum of two products would be one.
    if (!step.decay) return std::nullopt;
  }
  if (step.rule != "delta") step.written = {written[0].factor, written[0].factors};
  held_.insert(held_.end(), held.begin(), held.end());
  return step;
}

std::optional<std::size_t> TokenSteps::key_axis_of(const ElementAt& element,
                                                   const Dim& summed) const {
  std::optional<std::size_t> found;
  if (element.index.size() != index_.size()) return std::nullopt;
  for (std::size_t d = 0; d < index_.size(); ++d) {
    if (element.index[d] == index_[d]) continue;
    if (found || element.index[d] != summed) return std::nullopt;
    found = d;
  }
  return found;
}

/// beta key (value - what the state holds for the key)', or no difference at all.
bool TokenSteps::take_delta(TokenStep& step, ProductTerm& written) {
  const auto difference = take_factor(written.factors, [&](const ElementAt& f) {
    return terms_.is(f, "Sub") != nullptr && reached_.contains(f.value);
  });
  if (!difference)
    return std::ranges::none_of(written.factors,
                                [&](const ElementAt& f) { return reached_.contains(f.value); });
  const ElementAt held_at = terms_.operand(*difference, 1);
  ProductTerm value = product(terms_.operand(*difference, 0)), held = product(held_at);
  if (!value.sums.empty() || reads_state(value) || !reads_state(held) || held.sums.size() != 1 ||
      (held.factor != 1 && !is_zero_))
    return false;
  const Dim summed = Dim::symbol(held.sums[0].first);
  if (!is_zero_) {
    const auto state =
        take_factor(held.factors, [&](const ElementAt& f) { return f.value == *target_; });
    step.key_axis = state ? key_axis_of(*state, summed) : std::nullopt;
  }
  const auto power =
      take_factor(held.factors, [&](const ElementAt& f) { return terms_.is(f, "Exp") != nullptr; });
  // The key of zeros: what the keys are summed with is written, too.
  for (std::size_t d = 1; d < index_.size() && is_zero_ && !step.key_axis; ++d)
    for (const ElementAt& factor : written.factors)
      if (depends_on(factor, index_[d]) &&
          is_same({1, {at(factor, index_[d], summed)}}, {1, held.factors}))
        step.key_axis = d;
  if (!step.key_axis) return false;
  const Dim& key = index_[*step.key_axis];
  if (power.has_value() != step.decay.has_value()) return false;
  if (power) {
    const ProductTerm exponent = product(terms_.operand(at(*power, summed, key), 0));
    if (!is_same(*step.decay, {exponent.factor, exponent.factors})) return false;
  }
  StepOperand keys;
  for (ElementAt& factor : held.factors) keys.factors.push_back(at(factor, summed, key));
  // What is written has the same keys, and a rate.
  step.beta = StepOperand{written.factor, {}};
  for (const ElementAt& factor : written.factors)
    (depends_on(factor, key) ? step.written : *step.beta).factors.push_back(factor);
  if (!is_same(step.written, keys)) return false;
  step.value = {value.factor, std::move(value.factors)};
  step.rule = "delta";
  held_.push_back(terms_.source(held_at).value);
  return true;
}

/// b (a' before).
bool TokenSteps::take_erased(TokenStep& step, const ProductTerm& erased) {
  if (erased.sums.size() != 1 || is_zero_) return false;
  auto factors = erased.factors;
  const Dim summed = Dim::symbol(erased.sums[0].first);
  const auto state = take_factor(factors, [&](const ElementAt& f) { return f.value == *target_; });
  step.key_axis = state ? key_axis_of(*state, summed) : std::nullopt;
  if (!step.key_axis) return false;
  step.erase_a = StepOperand{};
  step.erase_b = StepOperand{erased.factor, {}};
  for (const ElementAt& factor : factors)
    if (depends_on(factor, summed))
      step.erase_a->factors.push_back(at(factor, summed, index_[*step.key_axis]));
    else
      step.erase_b->factors.push_back(factor);
  step.rule = "general_delta";
  return true;
}

// ---- what reads a state

bool TokenSteps::complete(TokenStep& step) {
  index_ = step.symbols;
  after_ = step.after;
  target_ = step.after;
  is_zero_ = false;
  reads_out_ = true;
  reach(step.after, NodeId());
  std::vector<ValueId> open{step.after};
  for (std::size_t i = 0; i < open.size() && i < 32; ++i)
    for (const NodeId user : graph_.users(open[i])) {
      const Node& node = graph_.node(user);
      if (node.outputs.size() != 1) continue;
      const ValueId out = node.outputs[0];
      const std::string_view op = node.op->name;
      const bool is_sum = op == "MatMul" || op == "ReduceSum";
      if (!is_sum && op != "Mul" && op != "Cast" && node.op->kind != OpKind::kView) continue;
      if (std::ranges::find(held_, out) != held_.end()) continue;
      if (find_read_out(step, out)) return set_roles(step);
      open.push_back(out);
    }
  return false;
}

bool TokenSteps::find_read_out(TokenStep& step, ValueId value) {
  ElementAt element = terms_.any_of(value);
  ProductTerm term = product(element);
  if (term.sums.size() != 1) return false;
  const auto state =
      take_factor(term.factors, [&](const ElementAt& f) { return f.value == after_; });
  if (!state || term.factors.empty()) return false;
  // Each of its dimensions is one of the result, but the keys, that are summed.
  std::optional<std::size_t> key_axis;
  std::vector<std::pair<Dim, Dim>> names;
  for (std::size_t d = 0; d < index_.size(); ++d) {
    const Dim& now = state->index[d];
    if (now == index_[d] && now.is_constant()) continue;
    if (!now.as_symbol()) return false;
    if (now == Dim::symbol(term.sums[0].first)) {
      if (key_axis) return false;
      key_axis = d;
    } else if (std::ranges::find(element.index, now) == element.index.end()) {
      return false;
    }
    names.emplace_back(now, index_[d]);
  }
  if (!key_axis || (step.key_axis && step.key_axis != key_axis)) return false;
  StepOperand query{term.factor, std::move(term.factors)};
  for (const auto& [from, to] : names) {
    for (ElementAt& factor : query.factors) factor = at(factor, from, to);
    element = at(element, from, to);
  }
  for (const Dim& dim : element.index)
    if (!dim.is_constant() && std::ranges::find(index_, dim) == index_.end()) return false;
  step.key_axis = key_axis;
  step.out = {value, element.index, std::move(query)};
  return true;
}

bool TokenSteps::set_roles(TokenStep& step) const {
  const std::size_t rank = index_.size(), none = 4, k = *step.key_axis;
  if (step.rule == "delta") {
    step.key = step.written;
  } else {
    step.key = StepOperand{};
    step.value = StepOperand{step.written.factor, {}};
    for (const ElementAt& factor : step.written.factors)
      (depends_on(factor, index_[k]) ? step.key : step.value).factors.push_back(factor);
  }
  // Values are the dimension that nothing else depends on.
  const auto is_of_values = [&](std::size_t d) {
    for (const auto* const operand : {&step.decay, &step.beta, &step.erase_a, &step.erase_b})
      if (*operand)
        for (const ElementAt& factor : (*operand)->factors)
          if (depends_on(factor, index_[d])) return false;
    for (const auto* const operand : {&step.key, &step.out.query})
      for (const ElementAt& factor : operand->factors)
        if (depends_on(factor, index_[d])) return false;
    return true;
  };
  step.order = {0, none, k, none};
  for (std::size_t d = rank - 1; d >= 1; --d)
    if (d != k && step.order[3] == none && is_of_values(d))
      step.order[3] = d;
    else if (d != k)
      step.order[1] = step.order[1] == none ? d : rank;
  if (k == 0 || step.order[1] == rank || (rank == 4 && step.order[3] == none)) return false;
  const auto symbol = [&](std::size_t role) {
    return step.order[role] == none ? Dim(0) : index_[step.order[role]];
  };
  step.index = {symbol(0), symbol(1), symbol(2), symbol(3)};
  return true;
}

}  // namespace sinter::fusion
