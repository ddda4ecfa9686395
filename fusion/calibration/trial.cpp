// SPDX-License-Identifier: Apache-2.0
#include "fusion/calibration/trial.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "fusion/calibration/activation_samples.h"
#include "fusion/calibration/sample_sizes.h"
#include "ir/reference/relative_error.h"

namespace sinter::fusion {
namespace {

// If errors are too large, layers are tried alone on 2 samples, 48 times in total; larger models
// try several consecutive layers at once.
constexpr std::size_t kSamplesAlone = 2, kTrialsAlone = 48;

/// `exact` with zeros where the rounded result is as large as a mask, which the layer does not
/// compute. ir::RelativeError cannot be used on results that stay on the device.
ValueId add_computed(GraphBuilder& builder, ValueId exact, ValueId rounded) {
  const DType type = builder.type(exact).dtype;
  const ValueId is_large = builder.add(
      "GreaterOrEqual",
      {builder.add("Abs", {exact}), builder.scalar(type, ir::RelativeError::kLeastUntouched)});
  const ValueId is_mask = builder.add("And", {is_large, builder.add("Equal", {exact, rounded})});
  return builder.add("Where", {is_mask, builder.scalar(type, 0), exact});
}

double error_of(double difference, double size) {
  if (difference == 0) return 0;
  // A sum that overflows float32 is no information.
  return std::isfinite(difference) && std::isfinite(size) && size > 0 ? std::sqrt(difference / size)
                                                                      : HUGE_VAL;
}

}  // namespace

EightBitTrial::EightBitTrial(const Graph& graph, const Calibration& calibration,
                             std::span<const std::size_t> layers,
                             const AddRoundedLayer& add_rounded)
    : calibration_(calibration), layers_(layers.size()), outputs_(graph.outputs().size()) {
  const auto visit = [&](GraphBuilder& builder, const Graph&, const Node& node,
                         std::span<const ValueId> inputs) -> std::optional<std::vector<ValueId>> {
    const auto node_index = static_cast<std::size_t>(&node - graph.nodes().data());
    const auto found = std::ranges::find(layers, node_index);
    if (found == layers.end()) return std::nullopt;
    const auto number = static_cast<std::size_t>(found - layers.begin());
    const ValueId exact = builder.add(node.op->name, {inputs.begin(), inputs.end()}, node.attrs);
    const ValueId rounded = add_rounded(builder, number, node, inputs);
    const ValueId difference = builder.add("Sub", {rounded, exact});
    builder.output(fmt::format("difference{}", number), add_sum_of_squares(builder, difference));
    builder.output(fmt::format("size{}", number),
                   add_sum_of_squares(builder, add_computed(builder, exact, rounded)));
    const ValueId choice = builder.input(fmt::format("rounded{}", number), {DType::kBool, {}});
    return std::vector{builder.add("Where", {choice, rounded, exact})};
  };
  run_ =
      calibration.compile(with_sizes(ir::rewrite(graph, visit), sample_sizes(graph, calibration)));
  std::vector<double> differences(layers_), sizes(layers_);
  for (std::size_t s = 0; s < calibration.samples.size(); ++s) {
    tell(s, calibration.samples.size());
    std::vector<Tensor> results = run({}, s);
    for (std::size_t i = 0; i < layers_; ++i) {
      differences[i] += results[2 * i].at(0);
      sizes[i] += results[2 * i + 1].at(0);
    }
    exact_.emplace_back(std::make_move_iterator(results.end() - std::ssize(graph.outputs())),
                        std::make_move_iterator(results.end()));
  }
  for (std::size_t i = 0; i < layers_; ++i)
    layer_errors_.push_back(error_of(differences[i], sizes[i]));
}

std::vector<Tensor> EightBitTrial::run(const std::set<std::size_t>& rounded, std::size_t sample) {
  std::vector<Tensor> inputs = calibration_.samples[sample];
  for (std::size_t i = 0; i < layers_; ++i)
    inputs.push_back(Tensor::scalar(DType::kBool, rounded.contains(i) ? 1 : 0));
  return run_(inputs);
}

double EightBitTrial::output_error(const std::set<std::size_t>& rounded, std::size_t samples) {
  const std::size_t count = samples == 0 ? exact_.size() : std::min(samples, exact_.size());
  std::vector<ir::RelativeError> errors(outputs_,
                                        ir::RelativeError(ir::RelativeError::Pairs::kRounding));
  for (std::size_t s = 0; s < count; ++s) {
    tell(s, count);
    const std::vector<Tensor> results = run(rounded, s);
    for (std::size_t i = 0; i < outputs_; ++i)
      errors[i].add(results[results.size() - outputs_ + i], exact_[s][i]);
  }
  double largest = 0;
  for (const ir::RelativeError& error : errors) largest = std::max(largest, error.value());
  return largest;
}

EightBitTrial::Outcome EightBitTrial::choose(const std::set<std::size_t>& dropped,
                                             double max_error) {
  std::set<std::size_t> all;
  for (std::size_t i = 0; i < layers_; ++i)
    if (!dropped.contains(i)) all.insert(i);
  Outcome outcome;
  outcome.error = outcome.error_of_all = output_error(all);
  if (all.empty() || outcome.error <= max_error) return outcome;
  const std::vector<std::size_t> order = by_own_error({all.begin(), all.end()});
  // Binary search for the least number of kept layers: keeping more lowers the error.
  std::size_t low = 1, high = order.size();
  outcome.error = 0;
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    const double error =
        output_error({order.begin() + static_cast<std::ptrdiff_t>(middle), order.end()});
    if (error <= max_error) {
      high = middle;
      outcome.error = error;
    } else {
      low = middle + 1;
    }
  }
  outcome.kept.assign(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(low));
  return outcome;
}

std::vector<std::size_t> EightBitTrial::by_own_error(std::vector<std::size_t> layers) {
  const std::size_t block = (layers.size() - 1) / kTrialsAlone + 1;
  std::map<std::size_t, double> own;
  for (std::size_t first = 0; first < layers.size(); first += block) {
    const std::size_t end = std::min(first + block, layers.size());
    const auto at = [&](std::size_t i) { return layers.begin() + static_cast<std::ptrdiff_t>(i); };
    const double error = output_error({at(first), at(end)}, kSamplesAlone);
    for (std::size_t i = first; i < end; ++i) own[layers[i]] = error;
  }
  std::ranges::stable_sort(layers, [&](std::size_t a, std::size_t b) {
    return std::pair(own.at(a), layer_errors_[a]) > std::pair(own.at(b), layer_errors_[b]);
  });
  return layers;
}

void EightBitTrial::tell(std::size_t done, std::size_t all) const {
  if (calibration_.progress) calibration_.progress("measuring errors", done, all);
}

}  // namespace sinter::fusion
