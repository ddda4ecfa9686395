// SPDX-License-Identifier: Apache-2.0
#include "frontend/ops/fused_activation.h"

#include <algorithm>

#include "frontend/ops/term.h"

namespace sinter::frontend {

namespace {

struct Activation {
  std::string_view name;
  std::size_t numbers;
  Term (*apply)(const Term& x, const std::vector<double>& numbers);
};

template <const char* kOp>
Term plain(const Term& x, const std::vector<double>&) {
  return x.apply(kOp);
}
constexpr char kRelu[] = "Relu", kTanh[] = "Tanh", kSigmoid[] = "Sigmoid", kSoftplus[] = "Softplus",
               kSoftsign[] = "Softsign";

/// Adds operator `op` on x and constant operands.
Term with_numbers(const char* op, const Term& x, const std::vector<double>& numbers) {
  std::vector<ValueId> inputs{x.value()};
  for (const double number : numbers) inputs.push_back(x.number(number).value());
  return {x.node(), x.node().add(op, std::move(inputs))};
}

/// `below` where x is negative, else x.
Term where_negative(const Term& x, const Term& below) {
  return select(x.with("Less", 0.0), below, x);
}
Term exponential(const Term& x, double alpha, double scale) {
  return ((x / scale).apply("Exp") - 1) * alpha;
}

using Numbers = std::vector<double>;
constexpr Activation kActivations[] = {
    {"Relu", 0, plain<kRelu>},
    {"Tanh", 0, plain<kTanh>},
    {"Sigmoid", 0, plain<kSigmoid>},
    {"Softplus", 0, plain<kSoftplus>},
    {"Softsign", 0, plain<kSoftsign>},
    {"HardSwish", 0,
     [](const Term& x, const Numbers&) {
       return with_numbers("HardSwish", x, {1.0 / 6.0, 0.5});
     }},
    {"LeakyRelu", 1, [](const Term& x, const Numbers& n) { return x.with("LeakyRelu", n[0]); }},
    {"Elu", 1,
     [](const Term& x, const Numbers& n) { return where_negative(x, exponential(x, n[0], 1)); }},
    {"Celu", 1,
     [](const Term& x, const Numbers& n) { return where_negative(x, exponential(x, n[0], n[0])); }},
    {"ThresholdedRelu", 1,
     [](const Term& x, const Numbers& n) {
       return select(x.with("Greater", n[0]), x, x.number(0));
     }},
    {"HardSigmoid", 2,
     [](const Term& x, const Numbers& n) {
       return with_numbers("HardSigmoid", x, {n[0], n[1]});
     }},
    {"Selu", 2,
     [](const Term& x, const Numbers& n) {
       return where_negative(x, exponential(x, n[0], 1)) * n[1];
     }},
    {"Clip", 2,
     [](const Term& x, const Numbers& n) {
       return with_numbers("Clip", x, {n[0], n[1]});
     }},
};

}  // namespace

ValueId fused_activation(NodeContext& node, ValueId x, const std::string& name,
                         const std::vector<double>& numbers) {
  if (name.empty()) return x;
  const auto found = std::find_if(std::begin(kActivations), std::end(kActivations),
                                  [&](const Activation& each) { return each.name == name; });
  if (found == std::end(kActivations)) {
    std::string known;
    for (const Activation& each : kActivations)
      known += (known.empty() ? "" : ", ") + std::string(each.name);
    node.unsupported("activation '{}'; supported are {}: export without fusing activations", name,
                     known);
  }
  if (numbers.size() < found->numbers)
    node.invalid("activation '{}' takes {} numbers, but the node has {}", name, found->numbers,
                 numbers.size());
  return found->apply(Term(node, x), numbers).value();
}

}  // namespace sinter::frontend
