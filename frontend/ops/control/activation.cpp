// SPDX-License-Identifier: Apache-2.0
#include "frontend/ops/control/activation.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "frontend/ops/table/input_names.h"

namespace sinter::frontend {
namespace {

struct ActivationRow {
  std::string_view name;
  int parameters;  // number: 1: alpha, 2: alpha and beta
  double alpha, beta;
};

// Names and defaults in the specification of RNN.
constexpr ActivationRow kActivations[] = {
    {"Relu", 0, 0, 0},         {"Tanh", 0, 0, 0},
    {"Sigmoid", 0, 0, 0},      {"Softsign", 0, 0, 0},
    {"Softplus", 0, 0, 0},     {"Affine", 2, 1, 0},
    {"LeakyRelu", 1, 0.01, 0}, {"ThresholdedRelu", 1, 1, 0},
    {"ScaledTanh", 2, 1, 1},   {"HardSigmoid", 2, 0.2, 0.5},
    {"Elu", 1, 1, 0},
};

}  // namespace

// alpha and beta are lists without gaps: each activation consumes its number of values, as long as
// there are any.
std::vector<Activation> read_activations(NodeContext& node, std::vector<std::string> fallback,
                                         std::size_t directions) {
  std::vector<std::string> names;
  for (std::size_t d = 0; d < directions; ++d)
    names.insert(names.end(), fallback.begin(), fallback.end());
  if (auto given = node.attr_strings("activations")) {
    if (given->size() != names.size())
      node.invalid("attribute 'activations' is [{}]; it must have {} names",
                   fmt::join(*given, ", "), names.size());
    names = std::move(*given);
  }
  const auto alphas = node.attr_floats("activation_alpha").value_or(std::vector<double>());
  const auto betas = node.attr_floats("activation_beta").value_or(std::vector<double>());
  std::size_t next_alpha = 0, next_beta = 0;
  std::vector<Activation> activations;
  for (const std::string& name : names) {
    const auto* row = std::find_if(
        std::begin(kActivations), std::end(kActivations),
        // Case-insensitive: models contain "tanh" and "TanH".
        [&](const ActivationRow& candidate) { return same_name(candidate.name, name); });
    if (row == std::end(kActivations)) node.unsupported("activation '{}' is not known", name);
    Activation activation{std::string(row->name), row->alpha, row->beta};
    if (row->parameters >= 1 && next_alpha < alphas.size()) activation.alpha = alphas[next_alpha++];
    if (row->parameters >= 2 && next_beta < betas.size()) activation.beta = betas[next_beta++];
    activations.push_back(activation);
  }
  return activations;
}

ValueId apply(NodeContext& node, const Activation& activation, ValueId x) {
  const std::string& name = activation.name;
  const DType dtype = node.dtype(x);
  const auto number = [&](double value) { return node.constant(dtype, value); };
  const auto affine = [&](ValueId value) {
    return node.add("Add",
                    {node.add("Mul", {value, number(activation.alpha)}), number(activation.beta)});
  };
  if (name == "Softsign")
    return node.add("Div", {x, node.add("Add", {number(1), node.add("Abs", {x})})});
  if (name == "Softplus")  // max(x, 0) + log(1 + exp(-|x|)) does not overflow
    return node.add(
        "Add",
        {node.add("Relu", {x}),
         node.add(
             "Log",
             {node.add("Add",
                       {number(1), node.add("Exp", {node.add("Neg", {node.add("Abs", {x})})})})})});
  if (name == "Affine") return affine(x);
  if (name == "HardSigmoid")
    return node.add("Max", {node.add("Min", {affine(x), number(1)}), number(0)});
  if (name == "ScaledTanh")
    return node.add("Mul", {number(activation.alpha),
                            node.add("Tanh", {node.add("Mul", {number(activation.beta), x})})});
  if (name == "LeakyRelu" || name == "Elu") {
    const ValueId below = name == "Elu" ? node.add("Sub", {node.add("Exp", {x}), number(1)}) : x;
    return node.add("Where", {node.add("Less", {x, number(0)}),
                              node.add("Mul", {number(activation.alpha), below}), x});
  }
  if (name == "ThresholdedRelu")
    return node.add("Where", {node.add("Greater", {x, number(activation.alpha)}), x, number(0)});
  return node.add(name, {x});
}

}  // namespace sinter::frontend
