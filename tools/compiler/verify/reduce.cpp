// SPDX-License-Identifier: Apache-2.0
#include "tools/compiler/verify/reduce.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <sinter/error.h>

#include "ir/reference/evaluate.h"
#include "ir/reference/kernels.h"
#include "ir/reference/strided.h"
#include "tools/compiler/verify/region_check.h"

namespace sinter::tools {
namespace {

using ir::Dim;
using ir::Graph;
using ir::GraphBuilder;
using ir::Node;
using ir::Tensor;
using ir::ValueId;

/// Replaces a size everywhere; with `multiples` also scales its multiples.
struct Resize {
  std::int64_t from = 0, to = 0;
  bool multiples = false;

  std::int64_t operator()(std::int64_t size) const {
    if (from == 0 || size == 0) return size;
    return size == from || (multiples && size % from == 0) ? size / from * to : size;
  }
};

struct Edit {
  std::map<ValueId, Tensor> cuts;       // values that become inputs
  std::map<ValueId, Tensor> constants;  // values that become constants
  std::map<ValueId, ValueId> same;      // values replaced by others
  std::vector<ValueId> outputs;
  Resize resize;
};

/// Takes the leading elements along every dimension.
Tensor leading_part(const Tensor& tensor, const std::vector<std::int64_t>& shape) {
  if (tensor.shape() == shape) return tensor;
  const std::size_t size = size_of(tensor.dtype());
  std::vector<std::byte> bytes(static_cast<std::size_t>(ir::reference::count_of(shape)) * size);
  ir::reference::StridedWalk walk(shape, ir::reference::dense_strides(tensor.shape()));
  for (std::size_t at = 0; at < bytes.size(); at += size, walk.next())
    std::memcpy(&bytes[at], &tensor.bytes()[static_cast<std::size_t>(walk.offset()) * size], size);
  return Tensor(tensor.dtype(), shape, ir::Buffer::take(std::move(bytes)));
}

Tensor resized(const Tensor& tensor, const Resize& resize) {
  std::vector<std::int64_t> shape;
  for (const std::int64_t size : tensor.shape()) shape.push_back(std::min(size, resize(size)));
  return leading_part(tensor, shape);
}

OtherSizes other_sizes(const Resize& resize) {
  return {[resize](const Dim& dim) { return dim.is_constant() ? Dim(resize(dim.value())) : dim; },
          [resize](const Tensor& constant) { return resized(constant, resize); }, true};
}

/// Copies the nodes that the outputs need, with an edit applied.
class Editor {
 public:
  Editor(const TestCase& test, const Edit& edit)
      : old_(test.graph), inputs_(test.inputs), edit_(edit), builder_(test.graph.name()) {
    for (const auto& [symbol, range] : old_.ranges()) builder_.range(symbol, range);
  }

  TestCase run() {
    for (std::size_t i = 0; i < edit_.outputs.size(); ++i)
      builder_.output(fmt::format("out{}", i), import(edit_.outputs[i]));
    return {builder_.finish(), std::move(feeds_)};
  }

 private:
  ValueId import(ValueId value) {
    if (const auto known = known_.find(value); known != known_.end()) return known->second;
    const ValueId result = make(value);
    return known_[value] = result;
  }

  ValueId make(ValueId value) {
    if (const auto same = edit_.same.find(value); same != edit_.same.end())
      return import(same->second);
    if (const auto found = edit_.constants.find(value); found != edit_.constants.end())
      return builder_.constant(resized(found->second, edit_.resize));
    if (const auto cut = edit_.cuts.find(value); cut != edit_.cuts.end())
      return feed(value, cut->second);
    if (old_.is_constant(value))
      return builder_.constant(resized(*old_.value(value).constant, edit_.resize));
    const auto& graph_inputs = old_.inputs();
    const auto at = std::ranges::find(graph_inputs, value);
    if (at != graph_inputs.end())
      return feed(value, inputs_[static_cast<std::size_t>(at - graph_inputs.begin())]);
    const Node& node = *old_.producer(value);
    std::vector<ValueId> operands;
    std::vector<ir::TensorType> types;
    for (const ValueId input : node.inputs) {
      operands.push_back(import(input));
      types.push_back(builder_.type(operands.back()));
    }
    GraphBuilder::OriginScope scope(builder_, node.origins);
    const OtherSizes sizes = other_sizes(edit_.resize);
    const auto body =
        node.body ? std::make_shared<const Graph>(with_sizes(*node.body, types, sizes)) : nullptr;
    const auto outputs =
        builder_.add_multi(node.op->name, operands, with_sizes(node.attrs, sizes), body);
    for (std::size_t k = 0; k < outputs.size(); ++k) known_[node.outputs[k]] = outputs[k];
    return known_.at(value);
  }

  ValueId feed(ValueId value, const Tensor& tensor) {
    Tensor part = resized(tensor, edit_.resize);
    ir::TensorType type = old_.type(value);
    for (std::size_t d = 0; d < type.shape.size(); ++d)
      if (type.shape[d].is_constant()) type.shape[d] = Dim(part.shape()[d]);
    feeds_.push_back(std::move(part));
    return builder_.input(fmt::format("in{}", feeds_.size() - 1), type);
  }

  const Graph& old_;
  const std::vector<Tensor>& inputs_;
  const Edit& edit_;
  GraphBuilder builder_;
  std::map<ValueId, ValueId> known_;
  std::vector<Tensor> feeds_;
};

class Reducer {
 public:
  Reducer(TestCase start, const ReduceOptions& options)
      : test_(std::move(start)), options_(options) {
    evaluate();
  }

  Reduced run() {
    numbers();
    for (bool changed = true; changed && trials_ < options_.most_trials;) {
      changed = fewer_outputs();
      changed |= nodes_in_front();
      changed |= nodes_behind();
      changed |= nodes_between();
      changed |= smaller_dimensions();
      changed |= inputs_of_one_value();
    }
    return {std::move(test_), trials_};
  }

 private:
  Edit edit() const {
    Edit result;
    result.outputs = test_.graph.outputs();
    return result;
  }

  bool attempt(const Edit& edit) {
    if (trials_ >= options_.most_trials) return false;
    try {
      return take(Editor(test_, edit).run());
    } catch (const Error&) {
      return false;  // types are inconsistent
    }
  }

  bool take(TestCase next) {
    ++trials_;
    if (!options_.fails(next)) return false;
    test_ = std::move(next);
    evaluate();
    return true;
  }

  /// Computes the reference's value of every node.
  void evaluate() {
    values_.clear();
    ir::EvaluateOptions options;
    options.keep_wide = true;
    options.on_node = [&](const Node& node, std::span<const Tensor> results) {
      for (std::size_t k = 0; k < results.size(); ++k)
        values_[node.outputs[k]] =
            ir::reference::convert(results[k], test_.graph.type(node.outputs[k]).dtype);
    };
    ir::evaluate(test_.graph, test_.inputs, options);
  }

  void numbers() {
    const auto is_symbolic = [&](ValueId input) {
      const ir::Shape& shape = test_.graph.type(input).shape;
      return std::ranges::any_of(shape, [](const Dim& dim) { return !dim.is_constant(); });
    };
    const auto& inputs = test_.graph.inputs();
    if (std::ranges::none_of(inputs, is_symbolic)) return;
    try {
      take({specialised(test_.graph, ir::bind_symbols(test_.graph, test_.inputs)), test_.inputs});
    } catch (const Error&) {
      return;
    }
  }

  bool fewer_outputs() {
    if (test_.graph.outputs().size() < 2) return false;
    for (const ValueId output : test_.graph.outputs()) {
      Edit one = edit();
      one.outputs = {output};
      if (attempt(one)) return true;
    }
    return false;
  }

  /// Tries to keep only nodes within some distance of the outputs.
  bool nodes_in_front() {
    const std::size_t count = test_.graph.nodes().size();
    for (std::size_t depth = 1; depth < count; depth *= 2)
      if (attempt(cut_at(depth))) return test_.graph.nodes().size() < count;
    return false;
  }

  Edit cut_at(std::size_t depth) const {
    Edit result = edit();
    std::set<ValueId> layer(result.outputs.begin(), result.outputs.end()), kept;
    for (std::size_t step = 0; step < depth; ++step) {
      std::set<ValueId> next;
      for (const ValueId value : layer) {
        const Node* node = test_.graph.producer(value);
        if (!node) continue;
        kept.insert(node->outputs.begin(), node->outputs.end());
        next.insert(node->inputs.begin(), node->inputs.end());
      }
      layer = std::move(next);
    }
    for (const ValueId value : layer)
      if (!kept.contains(value) && values_.contains(value)) result.cuts[value] = values_.at(value);
    return result;
  }

  bool nodes_behind() {
    const std::size_t count = test_.graph.nodes().size();
    for (std::size_t n = 0; n + 1 < count && n < test_.graph.nodes().size(); ++n) {
      Edit earlier = edit();
      earlier.outputs = {test_.graph.nodes()[n].outputs[0]};
      if (attempt(earlier)) return true;
    }
    return false;
  }

  bool nodes_between() {
    bool changed = false;
    for (std::size_t n = test_.graph.nodes().size(); n-- > 0;) {
      if (n >= test_.graph.nodes().size()) continue;
      changed |= without(test_.graph.nodes()[n]);
    }
    return changed;
  }

  /// Tries to replace `node` by an operand, or its result by an input.
  bool without(const Node& node) {
    const ValueId result = node.outputs[0];
    for (const ValueId input : node.inputs) {
      if (test_.graph.type(input) != test_.graph.type(result)) continue;
      Edit bypass = edit();
      bypass.same[result] = input;
      if (attempt(bypass)) return true;
    }
    if (test_.graph.is_output(result)) return false;
    Edit cut = edit();
    cut.cuts[result] = values_.at(result);
    return attempt(cut);
  }

  /// Smallest sizes first, because sizes that become equal can no longer be distinguished.
  bool smaller_dimensions() {
    bool changed = false;
    for (std::int64_t size = 1; (size = next_size(size)) > 0;) changed |= smaller(size);
    return changed;
  }

  /// The smallest dimension above `size`, or 0.
  std::int64_t next_size(std::int64_t size) const {
    std::int64_t next = 0;
    for (const ir::Value& value : test_.graph.values())
      for (const Dim& dim : value.type.shape)
        if (dim.is_constant() && dim.value() > size && (next == 0 || dim.value() < next))
          next = dim.value();
    return next;
  }

  bool smaller(std::int64_t size) {
    for (std::int64_t to = 1; to < size; to *= 2) {
      if (to > 1 && next_size(to - 1) == to) continue;
      for (const bool multiples : {false, true}) {
        Edit shrink = edit();
        shrink.resize = {size, to, multiples};
        if (attempt(shrink)) return true;
      }
    }
    return false;
  }

  bool inputs_of_one_value() {
    for (std::size_t i = 0; i < test_.inputs.size(); ++i) {
      const Tensor& tensor = test_.inputs[i];
      double largest = 0;
      for (std::int64_t k = 0; k < tensor.element_count(); ++k)
        if (std::abs(tensor.at(k)) > std::abs(largest)) largest = tensor.at(k);
      for (const double value : {0.0, 1.0, largest}) {
        Edit splat = edit();
        const std::vector<double> all(static_cast<std::size_t>(tensor.element_count()), value);
        if (!is_float(tensor.dtype())) continue;
        splat.constants[test_.graph.inputs()[i]] =
            Tensor::from_doubles(tensor.dtype(), tensor.shape(), all);
        if (attempt(splat)) return true;
      }
    }
    return false;
  }

  TestCase test_;
  const ReduceOptions& options_;
  std::map<ValueId, Tensor> values_;
  std::size_t trials_ = 0;
};

}  // namespace

Reduced reduce(TestCase start, const ReduceOptions& options) {
  return Reducer(std::move(start), options).run();
}

Graph flattened(const Graph& graph) {
  // An operator with a partial body stays whole.
  const auto is_body = [](const Node& node) { return node.body && !node.op->body_inputs; };
  const auto is_fused = [&](const Graph& g) { return std::ranges::any_of(g.nodes(), is_body); };
  Graph result = graph;
  while (is_fused(result))
    result =
        ir::rewrite(result,
                    [&](GraphBuilder& builder, const Graph&, const Node& node,
                        std::span<const ValueId> inputs) -> std::optional<std::vector<ValueId>> {
                      if (!is_body(node)) return std::nullopt;
                      GraphBuilder::OriginScope scope(builder, node.origins);
                      return ir::inline_graph(builder, *node.body, inputs);
                    });
  return result;
}

}  // namespace sinter::tools
