// SPDX-License-Identifier: Apache-2.0
#include "frontend/symbols/shape_folding.h"

#include <algorithm>

#include <sinter/error.h>

#include "ir/reference/evaluate.h"
#include "ir/scalar_math.h"

namespace sinter::frontend {
namespace {

using Contents = Contents;

// Limit of tracked elements: shapes have a handful, computed index tables a few hundred.
constexpr std::int64_t kMaxContents = 256;
// Limits of constants that are evaluated during import, only where an operator needs their values.
constexpr std::int64_t kMaxConstantInput = 1 << 16;
constexpr std::int64_t kMaxConstantOutput = 1 << 12;
// Results are cached after every imported node, so deep recursion means a malicious graph.
constexpr int kMaxDepth = 64;

std::optional<std::vector<std::int64_t>> constant_shape(const Shape& shape) {
  std::vector<std::int64_t> result;
  for (const Dim& dim : shape) {
    if (!dim.is_constant()) return std::nullopt;
    result.push_back(dim.value());
  }
  return result;
}

/// The element count, if it is known and at most `limit`.
std::optional<std::int64_t> small_count(const Shape& shape, std::int64_t limit) {
  const auto dims = constant_shape(shape);
  if (!dims) return std::nullopt;
  std::int64_t count = 1;
  for (const std::int64_t dim : *dims) {
    if (dim < 0 || (dim > 0 && count > limit / dim)) return std::nullopt;
    count *= dim;
  }
  return count;
}

bool holds_sizes(DType dtype) {
  return dtype == DType::kBool || (is_integer(dtype) && dtype != DType::kUInt64);
}

bool fits(std::int64_t value, DType dtype) {
  if (dtype == DType::kBool) return value == 0 || value == 1;
  if (dtype == DType::kInt64) return true;
  const int bits = static_cast<int>(size_of(dtype)) * 8;
  if (is_signed_integer(dtype))
    return value >= -(std::int64_t{1} << (bits - 1)) && value < std::int64_t{1} << (bits - 1);
  return value >= 0 && value < std::int64_t{1} << bits;
}

/// Row-major index -> one index per dimension.
std::vector<std::int64_t> unravel(std::int64_t linear, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> index(shape.size());
  for (std::size_t d = shape.size(); d-- > 0;) {
    index[d] = linear % shape[d];
    linear /= shape[d];
  }
  return index;
}

/// Offset, in an input of shape `shape`, of the element that broadcasts to output index `index`.
std::size_t broadcast_offset(const std::vector<std::int64_t>& index,
                             const std::vector<std::int64_t>& shape) {
  std::int64_t offset = 0;
  const std::size_t skip = index.size() - shape.size();
  for (std::size_t d = 0; d < shape.size(); ++d)
    offset = offset * shape[d] + (shape[d] == 1 ? 0 : index[skip + d]);
  return static_cast<std::size_t>(offset);
}

}  // namespace

Contents ShapeFolder::contents(ValueId value) {
  if (const auto known = contents_.find(value.index); known != contents_.end())
    return known->second;
  const ir::TensorType& type = builder_.type(value);
  if (!holds_sizes(type.dtype) || !small_count(type.shape, kMaxContents)) return std::nullopt;
  if (depth_ >= kMaxDepth) return std::nullopt;
  ++depth_;
  Contents result;
  try {
    result = compute(value);
  } catch (const Error&) {
    // Arithmetic that overflows for sizes is ordinary computation, not shape arithmetic.
  }
  --depth_;
  const DType dtype = type.dtype;
  if (result && std::ranges::any_of(*result, [&](const Dim& dim) {
        return dim.is_constant() ? !fits(dim.value(), dtype) : !is_manageable(dim);
      }))
    result.reset();
  contents_[value.index] = result;
  return result;
}

Contents ShapeFolder::needed_contents(ValueId value) {
  if (auto known = contents(value)) return known;
  forget_failures(value);
  excludes_negative_ = true;
  auto result = contents(value);
  excludes_negative_ = false;
  if (!result) need(value);
  return result;
}

void ShapeFolder::forget_failures(ValueId value) {
  std::vector<ValueId> open = {value};
  std::set<ValueId> seen;
  while (!open.empty()) {
    const ValueId next = open.back();
    open.pop_back();
    // Floats computed from sizes have no entry.
    const auto known = contents_.find(next.index);
    if ((known != contents_.end() && known->second) ||
        !small_count(builder_.type(next).shape, kMaxContents) || !seen.insert(next).second)
      continue;
    if (known != contents_.end()) contents_.erase(known);
    if (const ir::Node* node = builder_.producer(next))
      open.insert(open.end(), node->inputs.begin(), node->inputs.end());
  }
}

Contents ShapeFolder::compute(ValueId value) {
  if (const auto tensor = constant(value)) {
    std::vector<Dim> dims;
    for (std::int64_t i = 0; i < tensor->element_count(); ++i) dims.emplace_back(tensor->at_int(i));
    return dims;
  }
  const ir::Node* node = builder_.producer(value);
  if (node == nullptr || node->outputs.size() != 1) return std::nullopt;
  const ir::TensorType type = builder_.type(value);
  switch (node->op->kind) {
    case ir::OpKind::kPointwise: return fold_pointwise(*node, type);
    case ir::OpKind::kView: return fold_view(*node, type);
    case ir::OpKind::kReduce: return fold_reduce(*node, type);
    case ir::OpKind::kIndexed: return fold_indexed(*node, type);
    default: return std::nullopt;
  }
}

Contents ShapeFolder::fold_pointwise(const ir::Node& node, const ir::TensorType& type) {
  const auto shape = constant_shape(type.shape);
  if (node.op->name == "Cast" && is_float(builder_.type(node.inputs[0]).dtype))
    return from_floats(node.inputs[0]);
  const auto read = contents_of_inputs(node);
  if (!read) return std::nullopt;
  const auto& inputs = read->elements;
  std::vector<std::vector<std::int64_t>> input_shapes;
  for (const ir::TensorType& input : read->types)
    input_shapes.push_back(*constant_shape(input.shape));
  const DType from = read->types[0].dtype;
  std::vector<Dim> result;
  const std::int64_t count = *small_count(type.shape, kMaxContents);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto index = unravel(i, *shape);
    std::vector<Dim> operands;
    for (std::size_t k = 0; k < inputs.size(); ++k)
      operands.push_back(inputs[k][broadcast_offset(index, input_shapes[k])]);
    // Division truncates, which equals floor if nothing is negative.
    if (excludes_negative_ && (node.op->name == "Div" || node.op->name == "Fmod"))
      default_ranges_.at_least(operands[0], 0);
    const auto element =
        size_arithmetic(node.op->name, operands, from, type.dtype, builder_.ranges());
    if (!element) return std::nullopt;
    result.push_back(*element);
  }
  return result;
}

Contents ShapeFolder::from_floats(ValueId value) {
  const auto all = ratios(value);
  if (!all) return std::nullopt;
  std::vector<Dim> result;
  for (const SizeRatio& ratio : *all) {
    if (excludes_negative_) default_ranges_.at_least(ratio.numerator, 0);
    const auto size = truncated(ratio, builder_.ranges());
    if (!size) return std::nullopt;
    result.push_back(*size);
  }
  return result;
}

std::optional<std::vector<SizeRatio>> ShapeFolder::ratios(ValueId value) {
  const ir::TensorType type = builder_.type(value);
  const auto count = small_count(type.shape, kMaxContents);
  if (!count || depth_ >= kMaxDepth) return std::nullopt;
  std::vector<SizeRatio> result;
  if (!is_float(type.dtype)) {
    const auto sizes = contents(value);
    if (!sizes || !is_integer(type.dtype)) return std::nullopt;
    for (const Dim& size : *sizes) result.push_back({size, 1});
    return result;
  }
  if (const auto tensor = constant(value)) {
    for (std::int64_t i = 0; i < *count; ++i) {
      const auto ratio = ratio_of(tensor->at(i));
      if (!ratio) return std::nullopt;
      result.push_back(*ratio);
    }
    return result;
  }
  const ir::Node* node = builder_.producer(value);
  if (node == nullptr || node->outputs.size() != 1) return std::nullopt;
  // Copies, because nodes move when the builder grows.
  const std::string op = node->op->name;
  const std::vector<ValueId> operands = node->inputs;
  if (op != "Reshape" && node->op->kind != ir::OpKind::kPointwise) return std::nullopt;
  std::vector<std::vector<SizeRatio>> inputs;
  ++depth_;
  for (const ValueId operand : operands) {
    auto input = ratios(operand);
    if (!input || (input->size() != 1 && static_cast<std::int64_t>(input->size()) != *count)) break;
    inputs.push_back(std::move(*input));
  }
  --depth_;
  if (inputs.size() != operands.size()) return std::nullopt;
  if (op == "Reshape") return inputs[0];
  for (std::size_t i = 0; i < static_cast<std::size_t>(*count); ++i) {
    std::vector<SizeRatio> elements;
    for (const auto& input : inputs) elements.push_back(input[input.size() == 1 ? 0 : i]);
    const auto element = ratio_arithmetic(op, elements, builder_.ranges());
    if (!element || !is_manageable(element->numerator)) return std::nullopt;
    result.push_back(*element);
  }
  return result;
}

std::optional<ShapeFolder::InputContents> ShapeFolder::contents_of_inputs(const ir::Node& node) {
  InputContents result;
  for (const ValueId input : node.inputs) {
    auto dims = contents(input);
    if (!dims) return std::nullopt;
    result.elements.push_back(std::move(*dims));
    result.types.push_back(builder_.type(input));
  }
  return result;
}

Contents ShapeFolder::fold_view(const ir::Node& node, const ir::TensorType& type) {
  const auto read = contents_of_inputs(node);
  if (!read) return std::nullopt;
  const auto& inputs = read->elements;
  const auto& types = read->types;
  const ir::ViewDef& view = node.op->view();
  const double fill = node.attrs.has("fill") ? node.attrs.get_float("fill") : view.fill;
  const auto shape = constant_shape(type.shape);
  std::vector<Dim> result;
  const std::int64_t count = *small_count(type.shape, kMaxContents);
  for (std::int64_t i = 0; i < count; ++i) {
    std::vector<Dim> index;
    for (const std::int64_t at : unravel(i, *shape)) index.emplace_back(at);
    std::optional<Dim> element;
    for (const ir::ViewSource& source :
         view.map(node.attrs, types, type, index, builder_.ranges())) {
      bool applies = true;
      for (const auto& guard : source.guards) {
        if (!guard.value.is_constant() || !guard.extent.is_constant()) return std::nullopt;
        applies &= guard.value.value() >= 0 && guard.value.value() < guard.extent.value();
      }
      if (!applies) continue;
      const auto input_shape = *constant_shape(types[static_cast<std::size_t>(source.input)].shape);
      std::int64_t offset = 0;
      for (std::size_t d = 0; d < source.index.size(); ++d) {
        if (!source.index[d].is_constant()) return std::nullopt;
        offset = offset * input_shape[d] + source.index[d].value();
      }
      element = inputs[static_cast<std::size_t>(source.input)].at(static_cast<std::size_t>(offset));
      break;
    }
    result.push_back(element.value_or(Dim(ir::double_to_int(DType::kInt64, fill))));
  }
  return result;
}

Contents ShapeFolder::fold_indexed(const ir::Node& node, const ir::TensorType& type) {
  const auto shape = constant_shape(type.shape);
  const std::int64_t count = *small_count(type.shape, kMaxContents);
  const auto index_of = [&](std::int64_t i) {
    std::vector<Dim> index;
    for (const std::int64_t at : unravel(i, *shape)) index.emplace_back(at);
    return index;
  };
  std::vector<Dim> result;
  if (const ir::GenerateDef* def = node.op->generate()) {
    for (std::int64_t i = 0; i < count; ++i) result.push_back(def->value(node.attrs, index_of(i)));
    return result;
  }
  const ir::TakeDef* take = node.op->take();
  if (take == nullptr) return std::nullopt;
  const auto read = contents_of_inputs(node);
  if (!read) return std::nullopt;
  const auto& inputs = read->elements;
  const auto& types = read->types;
  /// The element of an input at `index`; nullopt if it is out of range or unknown.
  const auto element = [&](std::size_t input, std::span<const Dim> index) -> std::optional<Dim> {
    const auto from = *constant_shape(types[input].shape);
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < from.size(); ++d) {
      if (!index[d].is_constant()) return std::nullopt;
      const std::int64_t at = index[d].value() < 0 ? index[d].value() + from[d] : index[d].value();
      if (at < 0 || at >= from[d]) return std::nullopt;
      offset = offset * from[d] + at;
    }
    return inputs[input].at(static_cast<std::size_t>(offset));
  };
  for (std::int64_t i = 0; i < count; ++i) {
    std::vector<Dim> place;
    for (const ir::DataIndex& at : take->map(node.attrs, types, index_of(i))) {
      const auto known =
          at.input < 0 ? at.at[0] : element(static_cast<std::size_t>(at.input), at.at);
      if (!known) return std::nullopt;
      place.push_back(*known);
    }
    const auto found = element(0, place);
    if (!found) return std::nullopt;
    result.push_back(*found);
  }
  return result;
}

Contents ShapeFolder::fold_reduce(const ir::Node& node, const ir::TensorType& type) {
  const auto data = contents(node.inputs[0]);
  if (!data || data->empty()) return std::nullopt;
  const auto shape = *constant_shape(builder_.type(node.inputs[0]).shape);
  const auto& axes = node.attrs.get_ints("axes");
  std::vector<std::int64_t> kept = shape;
  for (const std::int64_t axis : axes) kept[static_cast<std::size_t>(axis)] = 1;
  std::vector<std::optional<Dim>> result(
      static_cast<std::size_t>(*small_count(type.shape, kMaxContents)));
  for (std::size_t i = 0; i < data->size(); ++i) {
    const auto index = unravel(static_cast<std::int64_t>(i), shape);
    auto& into = result.at(broadcast_offset(index, kept));
    const Dim& x = (*data)[i];
    const std::string& op = node.op->name;
    if (op == "ReduceProd")
      into = into ? *into * x : x;
    else if (op == "ReduceSum")
      into = into ? *into + x : x;
    else if (op == "ReduceMin")
      into = into ? ir::min(*into, x, builder_.ranges()) : x;
    else if (op == "ReduceMax")
      into = into ? ir::max(*into, x, builder_.ranges()) : x;
    else
      return std::nullopt;
  }
  std::vector<Dim> dims;
  for (const auto& element : result) dims.push_back(element.value());
  return dims;
}

std::optional<ir::Tensor> ShapeFolder::constant(ValueId value) {
  if (const ir::Tensor* tensor = builder_.constant_of(value)) {
    if (tensor->element_count() > kMaxConstantInput) return std::nullopt;
    return *tensor;
  }
  if (const auto known = constants_.find(value.index); known != constants_.end())
    return known->second;
  const ir::Node* node = builder_.producer(value);
  if (node == nullptr || node->body || node->outputs.size() != 1 || depth_ >= kMaxDepth ||
      !small_count(builder_.type(value).shape, kMaxConstantOutput))
    return std::nullopt;
  ++depth_;
  std::optional<ir::Tensor> result;
  std::vector<ir::Tensor> inputs;
  for (const ValueId input : node->inputs) {
    auto tensor = constant(input);
    if (!tensor) break;
    inputs.push_back(std::move(*tensor));
  }
  --depth_;
  if (inputs.size() == node->inputs.size()) {
    try {
      result = ir::evaluate_op(*node->op, node->attrs, inputs).at(0);
    } catch (const Error&) {
      // Symbolic attributes or a composite operator: not needed as a constant during import.
    }
  }
  constants_[value.index] = result;
  return result;
}

void ShapeFolder::need(ValueId value) {
  std::vector<ValueId> open = {value};
  std::set<ValueId> seen;
  while (!open.empty()) {
    const ValueId next = open.back();
    open.pop_back();
    if (!seen.insert(next).second || builder_.constant_of(next) != nullptr) continue;
    if (const ir::Node* node = builder_.producer(next))
      open.insert(open.end(), node->inputs.begin(), node->inputs.end());
    else
      needed_inputs_.insert(next);
  }
}

ValueId ShapeFolder::simplified(ValueId value) {
  if (builder_.constant_of(value) != nullptr) return value;
  const auto dims = contents(value);
  if (!dims) return value;
  std::vector<std::int64_t> ints;
  for (const Dim& dim : *dims) {
    if (!dim.is_constant()) return value;
    ints.push_back(dim.value());
  }
  const ir::TensorType type = builder_.type(value);
  return builder_.constant(ir::Tensor::from_ints(type.dtype, *constant_shape(type.shape), ints));
}

ValueId ShapeFolder::vector_of(const Dim& dim) {
  if (dim.is_constant()) {
    const std::int64_t value = dim.value();
    return builder_.constant(ir::Tensor::from_ints(DType::kInt64, {1}, {&value, 1}));
  }
  return builder_.add("Reshape", {scalar_of(dim)}, {{"shape", std::vector<Dim>{Dim(1)}}});
}

ValueId ShapeFolder::value_of(const std::vector<Dim>& dims) {
  std::vector<ValueId> parts;
  for (std::size_t i = 0; i < dims.size();) {
    if (!dims[i].is_constant()) {
      parts.push_back(vector_of(dims[i++]));
      continue;
    }
    std::vector<std::int64_t> run;
    for (; i < dims.size() && dims[i].is_constant(); ++i) run.push_back(dims[i].value());
    parts.push_back(
        builder_.constant(ir::Tensor::from_ints(DType::kInt64, {std::ssize(run)}, run)));
  }
  if (parts.empty()) return builder_.constant(ir::Tensor::from_ints(DType::kInt64, {0}, {}));
  if (parts.size() == 1) return parts[0];
  const ValueId value = builder_.add("Concat", parts, {{"axis", std::int64_t{0}}});
  contents_[value.index] = dims;
  return value;
}

ValueId ShapeFolder::scalar_of(const Dim& dim) {
  if (dim.is_constant()) {
    const std::int64_t value = dim.value();
    return builder_.constant(ir::Tensor::from_ints(DType::kInt64, {}, {&value, 1}));
  }
  return builder_.add("Size", {}, {{"value", std::vector<Dim>{dim}}});
}

ValueId ShapeFolder::iota(const Dim& n, DType dtype) {
  return builder_.add("Iota", {}, {{"shape", std::vector<Dim>{n}}, {"dtype", dtype}});
}

std::optional<Dim> ShapeFolder::length_of_iota(ValueId value) const {
  for (int step = 0; step < kMaxDepth; ++step) {
    const ir::Node* node = builder_.producer(value);
    if (node == nullptr) break;
    const std::string& op = node->op->name;
    if (op == "Iota")
      return node->attrs.get_dims("shape")[static_cast<std::size_t>(node->attrs.get_int("axis"))];
    if (op != "Reshape" && op != "Expand" && op != "Cast") break;
    value = node->inputs[0];
  }
  return std::nullopt;
}

}  // namespace sinter::frontend
