// SPDX-License-Identifier: Apache-2.0
#include "fusion/calibration/layer_inputs.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <sinter/error.h>

#include "fusion/regions/rebuild.h"
#include "ir/reference/evaluate.h"

namespace sinter::fusion {
namespace {

std::size_t index_of(ValueId value) { return value.position(); }

/// The sum over rows of x'x, for x [.., k].
ValueId add_moments(GraphBuilder& builder, ValueId x) {
  const Shape shape = builder.type(x).shape;
  Dim rows = 1;
  for (std::size_t d = 0; d + 1 < shape.size(); ++d) rows *= shape[d];
  if (builder.type(x).dtype != DType::kFloat32)
    x = builder.add("Cast", {x}, {{"to", DType::kFloat32}});
  x = builder.add("Reshape", {x}, {{"shape", std::vector<Dim>{rows, shape.back()}}});
  const ValueId turned = builder.add("Transpose", {x}, {{"perm", Ints{1, 0}}});
  return builder.add("MatMul", {turned, x});
}

}  // namespace

LayerInputs::LayerInputs(const Graph& graph, ConstantValues& values, const Calibration& calibration,
                         const std::set<std::size_t>& layers)
    : graph_(graph),
      values_(values),
      calibration_(calibration),
      needed_(graph.nodes().size()),
      done_(graph.nodes().size()),
      layers_(layers),
      count_(layers.size()) {
  const auto& samples = calibration.samples;
  if (samples.empty()) throw Error(ErrorCode::kUsage, "there are no samples to calibrate with");
  sizes_ = ir::bind_symbols(graph, samples[0]);
  for (std::size_t i = 0; i < graph.inputs().size(); ++i) {
    Samples& own = made_[graph.inputs()[i]];
    for (const auto& sample : samples) {
      if (sample.size() != graph.inputs().size() || sample[i].type() != samples[0][i].type())
        throw Error(ErrorCode::kUsage,
                    fmt::format("samples to calibrate with differ in the shape of '{}'",
                                graph.value(graph.inputs()[i]).name));
      own.push_back(sample[i]);
    }
  }
  std::vector<bool> read(graph.values().size());
  for (const std::size_t layer : layers) read[index_of(graph.nodes()[layer].inputs[0])] = true;
  for (std::size_t i = graph.nodes().size(); i-- > 0;) {
    const Node& node = graph.nodes()[i];
    needed_[i] = std::ranges::any_of(node.outputs, [&](ValueId output) {
      return read[index_of(output)] && !values.knows(output);
    });
    if (!needed_[i]) continue;
    for (const ValueId input : node.inputs) read[index_of(input)] = true;
  }
}

Tensor LayerInputs::moments(std::size_t layer) {
  const ValueId x = graph_.nodes()[layer].inputs[0];
  if (!moments_.contains(x)) advance(x);
  Tensor result = moments_.at(x);
  layers_.erase(layer);
  const bool is_read = std::ranges::any_of(
      layers_, [&](std::size_t other) { return graph_.nodes()[other].inputs[0] == x; });
  if (!is_read) moments_.erase(x);
  if (calibration_.progress)
    calibration_.progress("rounding layers", count_ - layers_.size(), count_);
  return result;
}

void LayerInputs::advance(ValueId x) {
  std::vector<bool> wanted(graph_.nodes().size());
  std::vector<bool> read(graph_.values().size());
  read[index_of(x)] = true;
  for (std::size_t i = graph_.nodes().size(); i-- > 0;) {
    const Node& node = graph_.nodes()[i];
    if (done_[i] || !needed_[i]) continue;
    wanted[i] =
        std::ranges::any_of(node.outputs, [&](ValueId output) { return read[index_of(output)]; });
    if (!wanted[i]) continue;
    for (const ValueId input : node.inputs) read[index_of(input)] = true;
  }
  std::vector<ValueId> reads, writes;
  const Calibration::Run run = calibration_.compile(part(x, wanted, reads, writes));
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (wanted[i]) {
      done_[i] = true;
      weights_.erase(i);
    }

  std::vector<double> sum;
  for (std::size_t sample = 0; sample < calibration_.samples.size(); ++sample) {
    std::vector<Tensor> inputs;
    for (const ValueId read_value : reads) inputs.push_back(made_.at(read_value)[sample]);
    std::vector<Tensor> results = run(inputs);
    for (std::size_t i = 0; i < writes.size(); ++i)
      made_[writes[i]].push_back(std::move(results[i]));
    const auto own = results.back().as<float>();
    sum.resize(own.size());
    for (std::size_t i = 0; i < own.size(); ++i) sum[i] += static_cast<double>(own[i]);
  }
  const Shape& shape = graph_.type(x).shape;
  double rows = static_cast<double>(calibration_.samples.size());
  for (std::size_t d = 0; d + 1 < shape.size(); ++d)
    rows *= static_cast<double>(shape[d].evaluate(sizes_));
  for (double& value : sum) value /= rows;
  const std::int64_t k = shape.back().evaluate(sizes_);
  moments_[x] = Tensor::from_doubles(DType::kFloat32, {k, k}, sum);
  forget_unread();
}

Graph LayerInputs::part(ValueId x, const std::vector<bool>& wanted, std::vector<ValueId>& reads,
                        std::vector<ValueId>& writes) {
  GraphBuilder builder(graph_.name());
  std::map<ValueId, ValueId> known;
  const auto map = [&](ValueId value) {
    const auto found = known.find(value);
    if (found != known.end()) return found->second;
    ValueId result;
    if (const auto& constant = graph_.value(value).constant) {
      result = builder.constant(constant);
    } else if (values_.knows(value)) {
      result = builder.constant(values_.tensor(value));
    } else {
      result = builder.input(fmt::format("value{}", value.index), made_.at(value)[0].type());
      reads.push_back(value);
    }
    known[value] = result;
    return result;
  };
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (!wanted[i]) continue;
    const Node& node = graph_.nodes()[i];
    GraphBuilder::OriginScope scope(builder, node.origins);
    std::vector<ValueId> inputs;
    const auto weights = weights_.find(i);
    for (const ValueId input : node.inputs)
      inputs.push_back(weights != weights_.end() && inputs.size() == 1
                           ? builder.constant(weights->second)
                           : map(input));
    const auto outputs =
        builder.add_multi(node.op->name, inputs, ir::evaluate_attrs(node.attrs, sizes_), node.body);
    for (std::size_t o = 0; o < outputs.size(); ++o) known[node.outputs[o]] = outputs[o];
  }
  const auto is_read_later = [&](ValueId value) {
    const auto& users = graph_.users(value);
    return std::ranges::any_of(users, [&](NodeId user) {
      const auto at = user.position();
      return needed_[at] && !done_[at] && !wanted[at];
    });
  };
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (!wanted[i]) continue;
    for (const ValueId output : graph_.nodes()[i].outputs) {
      if (!is_read_later(output)) continue;
      builder.output(fmt::format("kept{}", output.index), known.at(output));
      writes.push_back(output);
    }
  }
  builder.output("moments", add_moments(builder, map(x)));
  return builder.finish();
}

void LayerInputs::forget_unread() {
  std::erase_if(made_, [&](const auto& entry) {
    const auto& users = graph_.users(entry.first);
    return std::ranges::none_of(users, [&](NodeId user) {
      const auto at = user.position();
      // A layer that need not run may still need the moments of its input.
      return (needed_[at] && !done_[at]) || layers_.contains(at);
    });
  });
}

std::string layer_name(const Node& node) {
  std::string name;
  for (const std::string& origin : node.origins) name += (name.empty() ? "" : ", ") + origin;
  return name.empty() ? describe(node) : name;
}

std::set<std::size_t> last_layers(const Graph& graph, const std::set<std::size_t>& layers) {
  const auto& nodes = graph.nodes();
  std::vector<bool> behind(graph.values().size()), in_front(graph.values().size());
  const auto any = [](const std::vector<bool>& marked, const std::vector<ValueId>& values) {
    return std::ranges::any_of(values, [&](ValueId value) { return marked[value.position()]; });
  };
  const auto mark = [](std::vector<bool>& marked, const std::vector<ValueId>& values) {
    for (const ValueId value : values) marked[value.position()] = true;
  };
  for (std::size_t i = 0; i < nodes.size(); ++i)
    if (layers.contains(i) || any(behind, nodes[i].inputs)) mark(behind, nodes[i].outputs);
  for (std::size_t i = nodes.size(); i-- > 0;)
    if (layers.contains(i) || any(in_front, nodes[i].outputs)) mark(in_front, nodes[i].inputs);
  std::set<std::size_t> result;
  for (const std::size_t layer : layers)
    if (any(behind, nodes[layer].inputs) && !any(in_front, nodes[layer].outputs))
      result.insert(layer);
  return result;
}

}  // namespace sinter::fusion
