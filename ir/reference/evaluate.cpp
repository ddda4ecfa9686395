// SPDX-License-Identifier: Apache-2.0
#include "ir/reference/evaluate.h"

#include <algorithm>

#include <fmt/format.h>
#include <sinter/error.h>

#include "ir/constants/recipe.h"
#include "ir/graph_checks.h"
#include "ir/parallel.h"
#include "ir/ranks/ranks.h"
#include "ir/reference/kernels.h"

namespace sinter::ir {
namespace {

Shape evaluate_shape(const Shape& shape, const Bindings& bindings) {
  Shape result;
  for (const Dim& dim : shape) result.emplace_back(dim.evaluate(bindings));
  return result;
}

/// `attrs` are concrete; `inputs` have the declared types `types`, in any storage type.
std::vector<Tensor> run_op(const OpDef& op, const Attrs& attrs, Tensors inputs,
                           std::span<const DType> types, const std::vector<TensorType>& declared,
                           bool wide) {
  std::vector<TensorType> outputs = declared;
  for (TensorType& output : outputs)
    if (wide && is_arithmetic_float(output.dtype)) output.dtype = DType::kFloat64;
  switch (op.kind) {
    case OpKind::kPointwise:
      return {reference::evaluate_pointwise(op.pointwise(), attrs, inputs, types, declared[0].dtype,
                                            outputs[0])};
    case OpKind::kReduce:
      return {reference::evaluate_reduce(op.reduce(), attrs, inputs[0], types[0], outputs[0])};
    case OpKind::kView: return {reference::evaluate_view(op, attrs, inputs, outputs[0])};
    default: break;
  }
  if (!op.evaluate)
    throw Error(ErrorCode::kInternal, fmt::format("operator {} cannot be evaluated", op.name));
  return op.evaluate(attrs, inputs, outputs);
}

class Evaluator {
 public:
  /// `iterations`: of all loops so far.
  Evaluator(const Graph& graph, const Bindings& bindings, const EvaluateOptions& options,
            std::int64_t& iterations)
      : graph_(graph),
        bindings_(bindings),
        options_(options),
        iterations_(iterations),
        values_(graph.values().size()) {
    for (const Node& node : graph.nodes())
      for (const ValueId input : node.inputs) ++reads_left(input);
    for (const ValueId output : graph.outputs()) ++reads_left(output);
  }

  /// The outputs in their storage types, unrounded.
  std::vector<Tensor> run(Tensors inputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i) stored(graph_.inputs()[i]) = inputs[i];
    for (const Node& node : graph_.nodes())
      with_context(describe(*node.op, node.origins), [&] { run_node(node); });
    std::vector<Tensor> outputs;
    for (const ValueId output : graph_.outputs()) outputs.push_back(read(output));
    return outputs;
  }

 private:
  struct Stored {
    Tensor tensor;
    std::int64_t reads_left = 0;
  };
  Tensor& stored(ValueId id) { return values_[id.position()].tensor; }
  std::int64_t& reads_left(ValueId id) { return values_[id.position()].reads_left; }

  /// The value; the last read frees its memory.
  Tensor read(ValueId id) {
    if (graph_.is_constant(id)) return *graph_.value(id).constant;
    return --reads_left(id) == 0 ? std::move(stored(id)) : stored(id);
  }

  void run_node(const Node& node) {
    std::vector<Tensor> inputs;
    std::vector<DType> types;
    std::vector<TensorType> input_types;
    for (const ValueId id : node.inputs) {
      inputs.push_back(read(id));
      types.push_back(graph_.type(id).dtype);
      input_types.push_back({types.back(), inputs.back().type().shape});
    }
    std::vector<Tensor> results;
    if (node.body) {
      EvaluateOptions inner = options_;
      inner.on_node = nullptr;
      inner.rounds = nullptr;
      results = node.op->kind == OpKind::kWhile ? run_while(node, inner, std::move(inputs))
                : node.op->body_inputs
                    ? run_decomposed(node, inner, inputs)
                    : Evaluator(*node.body, bindings_, inner, iterations_).run(inputs);
    } else {
      const Attrs attrs = evaluate_attrs(node.attrs, bindings_);
      // Inferring again with known sizes checks what symbols left open, such as the ends of a
      // slice.
      const std::vector<TensorType> found = infer_types(*node.op, attrs, input_types, nullptr);
      for (std::size_t i = 0; i < found.size(); ++i) check_type(found[i], node.outputs[i]);
      if (is_collective(*node.op) && options_.rank != nullptr) {
        const std::vector<Tensor> all = options_.rank->meet(inputs[0]);
        results = {run_op(*node.op, attrs, all, types, found, options_.keep_wide)
                       .at(static_cast<std::size_t>(options_.rank->number))};
      } else {
        results = run_op(*node.op, attrs, inputs, types, found, options_.keep_wide);
      }
    }
    if (options_.keep_wide && options_.rounds && options_.rounds(node))
      for (std::size_t i = 0; i < results.size(); ++i)
        results[i] = reference::convert(results[i], graph_.type(node.outputs[i]).dtype);
    if (node.op->kind == OpKind::kExtent) bind(node.attrs.get_string("symbol"), results[0]);
    if (options_.on_node) options_.on_node(node, results);
    for (std::size_t i = 0; i < results.size(); ++i)
      if (reads_left(node.outputs[i]) > 0) stored(node.outputs[i]) = std::move(results[i]);
  }

  /// A node of which a body computes a part, in single operators, whose results are not rounded.
  std::vector<Tensor> run_decomposed(const Node& node, EvaluateOptions options, Tensors inputs) {
    options.keep_wide = true;
    std::vector<Tensor> results =
        Evaluator(decomposed(node), bindings_, options, iterations_).run(inputs);
    for (std::size_t i = 0; i < results.size() && !options_.keep_wide; ++i)
      results[i] = reference::convert(results[i], graph_.type(node.outputs[i]).dtype);
    return results;
  }
  Graph decomposed(const Node& node) const {
    GraphBuilder builder;
    for (const auto& [symbol, range] : graph_.ranges()) builder.range(symbol, range);
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(builder.input("", graph_.type(input)));
    for (const ValueId result : node.op->composite().decompose(builder, node, inputs))
      builder.output("", result);
    return builder.finish();
  }

  /// From here on the value of `symbol` is the number in `size`.
  void bind(const std::string& symbol, const Tensor& size) {
    const std::int64_t value = size.at_int(0);
    const auto known = graph_.ranges().find(symbol);
    const Range range = known == graph_.ranges().end() ? Range{} : known->second;
    const std::int64_t most = std::min(
        range.max, range.symbolic_max ? range.symbolic_max->evaluate(bindings_) : INT64_MAX);
    if (value < range.min || value > most)
      throw Error(ErrorCode::kUsage, fmt::format("the size '{}' is {}, but must be {} to {}",
                                                 symbol, value, range.min, most));
    bindings_[symbol] = value;
  }

  /// See ir/ops/while.cpp.
  std::vector<Tensor> run_while(const Node& node, const EvaluateOptions& options,
                                std::vector<Tensor> inputs) {
    const Attrs attrs = evaluate_attrs(node.attrs, bindings_);
    const auto states = static_cast<std::size_t>(attrs.get_int("states"));
    const std::vector<Dim>& trips = attrs.get_dims("trips");
    const bool checked = attrs.get_int("checked") != 0;
    for (std::int64_t i = 0; trips.empty() || i < trips[0].value(); ++i) {
      if (checked && inputs[1].at_int(0) == 0) break;
      if (++iterations_ > options.max_iterations)
        throw Error(ErrorCode::kUsage,
                    fmt::format("loops have run {} iterations and this one goes on: the reference "
                                "evaluates no more",
                                options.max_iterations));
      inputs[0] = Tensor::scalar(DType::kInt64, static_cast<double>(i));
      std::vector<Tensor> after =
          Evaluator(*node.body, bindings_, options, iterations_).run(inputs);
      std::move(after.begin(), after.end(), inputs.begin() + 1);
    }
    return {inputs.begin() + 1, inputs.begin() + 1 + static_cast<std::ptrdiff_t>(states)};
  }

  void check_type(const TensorType& found, ValueId id) const {
    const TensorType& declared = graph_.type(id);
    if (found.dtype != declared.dtype || found.shape != evaluate_shape(declared.shape, bindings_))
      throw Error(ErrorCode::kInvalidModel,
                  fmt::format("the result is {} for these inputs, but its type is {}",
                              to_string(found), to_string(declared)));
  }

  const Graph& graph_;
  Bindings bindings_;  // grows with each Extent
  const EvaluateOptions& options_;
  std::int64_t& iterations_;
  std::vector<Stored> values_;
};

}  // namespace

Attrs evaluate_attrs(const Attrs& attrs, const Bindings& bindings) {
  Attrs result = attrs;
  for (const auto& [name, value] : attrs.values())
    if (const auto* dims = std::get_if<std::vector<Dim>>(&value))
      result.set(name, evaluate_shape(*dims, bindings));
  return result;
}

std::vector<Tensor> evaluate(const Graph& graph, Tensors inputs, const EvaluateOptions& options) {
  Bindings bindings = bind_symbols(graph, inputs);
  if (options.rank != nullptr) bindings.emplace(kRankSymbol, options.rank->number);
  std::int64_t iterations = 0;
  std::vector<Tensor> outputs = Evaluator(graph, bindings, options, iterations).run(inputs);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    outputs[i] = reference::convert(outputs[i], graph.type(graph.outputs()[i]).dtype);
  return outputs;
}

std::vector<Tensor> evaluate_op(const OpDef& op, const Attrs& attrs, Tensors inputs,
                                const Bindings& bindings) {
  return with_context(op.name, [&] {
    const Attrs concrete = evaluate_attrs(complete_attrs(op, attrs), bindings);
    const std::vector<Tensor> values = plain(inputs);
    std::vector<TensorType> input_types;
    std::vector<DType> types;
    for (const Tensor& input : inputs) {
      input_types.push_back(input.type());
      types.push_back(input.dtype());
    }
    if (op.kind == OpKind::kFused || op.kind == OpKind::kWhile)
      throw Error(ErrorCode::kInternal, "a node with a body is evaluated as part of a graph");
    const auto outputs = infer_types(op, concrete, input_types, nullptr);
    return traced(op.name, concrete, inputs, run_op(op, concrete, values, types, outputs, false),
                  [&op](const Attrs& of, Tensors others) { return evaluate_op(op, of, others); });
  });
}

namespace reference {

Tensor convert(const Tensor& tensor, DType dtype) {
  if (tensor.dtype() == dtype) return tensor;
  if (!is_float(tensor.dtype()) || !is_float(dtype))
    throw Error(ErrorCode::kInternal, fmt::format("no conversion of stored values from {} to {}",
                                                  to_string(tensor.dtype()), to_string(dtype)));
  constexpr std::size_t kElementsAtOnce = 1 << 16;
  const HeldBytes held = tensor.hold();
  const std::size_t from_size = size_of(tensor.dtype()), to_size = size_of(dtype);
  const std::size_t count = held.bytes.size() / from_size;
  std::vector<std::byte> bytes(count * to_size);
  for_each_range(count, kElementsAtOnce, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)
      store_double(dtype, bytes.data() + i * to_size,
                   load_as_double(tensor.dtype(), held.bytes.data() + i * from_size));
  });
  return Tensor(dtype, tensor.shape(), Buffer::take(std::move(bytes)));
}

Ints concrete_shape(const Shape& shape) {
  Ints result;
  for (const Dim& dim : shape) result.push_back(dim.value());
  return result;
}

}  // namespace reference
namespace {

[[noreturn]] void mismatch(const Value& input, const Tensor& tensor, std::string_view what) {
  throw Error(ErrorCode::kUsage,
              fmt::format("input '{}' is {}, found {}: {}", input.name, to_string(input.type),
                          to_string(tensor.type()), what));
}

Dim with_known(const Dim& dim, const Bindings& bindings) {
  std::map<std::string, Dim, std::less<>> known;
  for (const auto& [name, value] : bindings) known.emplace(name, Dim(value));
  return dim.substitute(known);
}

/// Solves dim == size for the only remaining symbol of `dim`; nothing if it is not linear in it or
/// the solution is no integer.
std::optional<std::int64_t> solve(const Dim& dim, const std::string& symbol, std::int64_t size) {
  const Dim rest = dim.substitute({{symbol, Dim(0)}});
  const auto slope = divide_exactly(dim - rest, Dim::symbol(symbol));
  if (!rest.is_constant() || !slope || !slope->is_constant()) return std::nullopt;
  const auto value = divide_exactly(Dim(size) - rest, *slope);
  return value ? std::optional(value->value()) : std::nullopt;
}

void check_range(const std::string& symbol, std::int64_t value, const Range& range,
                 const Value& input, const Tensor& tensor) {
  if (value >= range.min && value <= range.max) return;
  const std::string bound = range.max == INT64_MAX ? "" : fmt::format(" and at most {}", range.max);
  mismatch(input, tensor,
           fmt::format("{} is {}, but must be at least {}{}", symbol, value, range.min, bound));
}

}  // namespace

Bindings bind_symbols(const Graph& graph, Tensors inputs) {
  if (inputs.size() != graph.inputs().size())
    throw Error(ErrorCode::kUsage, fmt::format("graph '{}' takes {} inputs, found {}", graph.name(),
                                               graph.inputs().size(), inputs.size()));
  struct Equation {
    const Value* input;
    const Tensor* tensor;
    std::size_t dimension;
  };
  std::vector<Equation> open;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Value& input = graph.value(graph.inputs()[i]);
    if (inputs[i].dtype() != input.type.dtype)
      mismatch(input, inputs[i], "the element types differ");
    if (inputs[i].shape().size() != input.type.shape.size())
      mismatch(input, inputs[i], "the ranks differ");
    for (std::size_t d = 0; d < input.type.shape.size(); ++d)
      open.push_back({&input, &inputs[i], d});
  }
  // Each round checks fully known dimensions and solves those with one unknown; simple dimensions
  // thus fix a symbol first.
  Bindings bindings;
  for (bool progress = true; progress && !open.empty();) {
    progress = false;
    std::vector<Equation> left;
    for (const Equation& equation : open) {
      const Dim dim = with_known(equation.input->type.shape[equation.dimension], bindings);
      const std::int64_t size = equation.tensor->shape()[equation.dimension];
      const std::vector<std::string> unknown = dim.symbols();
      if (unknown.empty()) {
        if (dim.evaluate({}) != size)
          mismatch(*equation.input, *equation.tensor,
                   fmt::format("dimension {} must be {}", equation.dimension, dim.to_string()));
        progress = true;
      } else if (const auto value =
                     unknown.size() == 1 ? solve(dim, unknown[0], size) : std::nullopt) {
        bindings[unknown[0]] = *value;
        const auto range = graph.ranges().find(unknown[0]);
        check_range(unknown[0], *value, range == graph.ranges().end() ? Range{} : range->second,
                    *equation.input, *equation.tensor);
        progress = true;
      } else {
        left.push_back(equation);
      }
    }
    open = std::move(left);
  }
  if (!open.empty())
    mismatch(*open[0].input, *open[0].tensor,
             fmt::format("no size of its symbols gives dimension {}", open[0].dimension));
  return bindings;
}

}  // namespace sinter::ir
