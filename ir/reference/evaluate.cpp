#include "ir/reference/evaluate.h"

#include <algorithm>

#include <fmt/format.h>
#include <sinter/error.h>

#include "ir/graph_checks.h"
#include "ir/reference/kernels.h"

namespace sinter::ir {
namespace {

Shape evaluate_shape(const Shape& shape, const Bindings& bindings) {
  Shape result;
  for (const Dim& dim : shape) result.emplace_back(dim.evaluate(bindings));
  return result;
}

/// `attrs` are concrete, `inputs` of the declared types `types` whatever their storage.
std::vector<Tensor> run_op(const OpDef& op, const Attrs& attrs, std::span<const Tensor> inputs,
                           std::span<const DType> types, const std::vector<TensorType>& declared,
                           bool wide) {
  std::vector<TensorType> outputs = declared;
  for (TensorType& output : outputs)
    if (wide && is_float(output.dtype)) output.dtype = DType::kFloat64;
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
  Evaluator(const Graph& graph, const Bindings& bindings, const EvaluateOptions& options)
      : graph_(graph), bindings_(bindings), options_(options), values_(graph.values().size()) {
    for (const Node& node : graph.nodes())
      for (const ValueId input : node.inputs) ++reads_left(input);
    for (const ValueId output : graph.outputs()) ++reads_left(output);
  }

  /// The outputs as stored, not rounded.
  std::vector<Tensor> run(std::span<const Tensor> inputs) {
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
  Tensor& stored(ValueId id) { return values_[static_cast<std::size_t>(id.index)].tensor; }
  std::int64_t& reads_left(ValueId id) {
    return values_[static_cast<std::size_t>(id.index)].reads_left;
  }

  /// The value; its memory is let go with the last read.
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
      results = node.op->kind == OpKind::kWhile
                    ? run_while(node, inner, std::move(inputs))
                    : Evaluator(*node.body, bindings_, inner).run(inputs);
    } else {
      const Attrs attrs = evaluate_attrs(node.attrs, bindings_);
      // Inferring again on known sizes checks what symbols left open, such as the ends of a slice.
      const std::vector<TensorType> found = infer_types(*node.op, attrs, input_types, nullptr);
      for (std::size_t i = 0; i < found.size(); ++i) check_type(found[i], node.outputs[i]);
      results = run_op(*node.op, attrs, inputs, types, found, options_.keep_wide);
    }
    if (options_.on_node) options_.on_node(node, results);
    for (std::size_t i = 0; i < results.size(); ++i)
      if (reads_left(node.outputs[i]) > 0) stored(node.outputs[i]) = std::move(results[i]);
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
      inputs[0] = Tensor::scalar(DType::kInt64, static_cast<double>(i));
      std::vector<Tensor> after = Evaluator(*node.body, bindings_, options).run(inputs);
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
  const Bindings& bindings_;
  const EvaluateOptions& options_;
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

std::vector<Tensor> evaluate(const Graph& graph, std::span<const Tensor> inputs,
                             const EvaluateOptions& options) {
  const Bindings bindings = bind_symbols(graph, inputs);
  std::vector<Tensor> outputs = Evaluator(graph, bindings, options).run(inputs);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    outputs[i] = reference::convert(outputs[i], graph.type(graph.outputs()[i]).dtype);
  return outputs;
}

std::vector<Tensor> evaluate_op(const OpDef& op, const Attrs& attrs, std::span<const Tensor> inputs,
                                const Bindings& bindings) {
  return with_context(op.name, [&] {
    const Attrs concrete = evaluate_attrs(complete_attrs(op, attrs), bindings);
    std::vector<TensorType> input_types;
    std::vector<DType> types;
    for (const Tensor& input : inputs) {
      input_types.push_back(input.type());
      types.push_back(input.dtype());
    }
    if (op.kind == OpKind::kFused || op.kind == OpKind::kWhile)
      throw Error(ErrorCode::kInternal, "a node with a body is evaluated as part of a graph");
    const auto outputs = infer_types(op, concrete, input_types, nullptr);
    return run_op(op, concrete, inputs, types, outputs, false);
  });
}

namespace reference {

Tensor convert(const Tensor& tensor, DType dtype) {
  if (tensor.dtype() == dtype) return tensor;
  if (!is_float(tensor.dtype()) || !is_float(dtype))
    throw Error(ErrorCode::kInternal, fmt::format("no conversion of stored values from {} to {}",
                                                  to_string(tensor.dtype()), to_string(dtype)));
  return Tensor::from_doubles(dtype, tensor.shape(), tensor.to_doubles());
}

std::vector<std::int64_t> concrete_shape(const Shape& shape) {
  std::vector<std::int64_t> result;
  for (const Dim& dim : shape) result.push_back(dim.value());
  return result;
}

}  // namespace reference
}  // namespace sinter::ir
