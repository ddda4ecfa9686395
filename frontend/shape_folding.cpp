#include "frontend/shape_folding.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <sinter/error.h>

#include "frontend/size_arithmetic.h"
#include "ir/reference/evaluate.h"

namespace sinter::frontend {
namespace {

using ir::Dim;
using Contents = std::optional<std::vector<Dim>>;

// Shapes have a handful of elements, tables of indices that models compute from them a few hundred.
constexpr std::int64_t kMaxContents = 256;
// Constants are evaluated during import only where an operator needs their values.
constexpr std::int64_t kMaxConstantInput = 1 << 16;
constexpr std::int64_t kMaxConstantOutput = 1 << 12;
// Results are remembered after every imported node, so deep recursion means a graph that was built
// to cause it.
constexpr int kMaxDepth = 64;
constexpr std::int64_t kMaxIota = 1 << 20;

std::optional<std::vector<std::int64_t>> constant_shape(const ir::Shape& shape) {
  std::vector<std::int64_t> result;
  for (const Dim& dim : shape) {
    if (!dim.is_constant()) return std::nullopt;
    result.push_back(dim.value());
  }
  return result;
}

/// Number of elements, if it is known and at most `limit`.
std::optional<std::int64_t> small_count(const ir::Shape& shape, std::int64_t limit) {
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

/// Offset of output index `index` in an input of shape `shape` that is broadcast to the output.
std::size_t broadcast_offset(const std::vector<std::int64_t>& index,
                             const std::vector<std::int64_t>& shape) {
  std::int64_t offset = 0;
  const std::size_t skip = index.size() - shape.size();
  for (std::size_t d = 0; d < shape.size(); ++d)
    offset = offset * shape[d] + (shape[d] == 1 ? 0 : index[skip + d]);
  return static_cast<std::size_t>(offset);
}

}  // namespace

std::optional<std::vector<Dim>> ShapeFolder::contents(ir::ValueId value) {
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
    // Arithmetic that overflows as sizes is not about sizes: it stays an ordinary computation.
  }
  --depth_;
  const DType dtype = type.dtype;
  if (result && std::any_of(result->begin(), result->end(), [&](const Dim& dim) {
        return dim.is_constant() ? !fits(dim.value(), dtype) : !is_manageable(dim);
      }))
    result.reset();
  contents_[value.index] = result;
  return result;
}

std::optional<std::vector<Dim>> ShapeFolder::compute(ir::ValueId value) {
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
    case ir::OpKind::kIndexed:
      return node->op->name == "Gather" ? fold_gather(*node, type) : std::nullopt;
    default: return std::nullopt;
  }
}

std::optional<std::vector<Dim>> ShapeFolder::fold_pointwise(const ir::Node& node,
                                                            const ir::TensorType& type) {
  const auto shape = constant_shape(type.shape);
  std::vector<std::vector<Dim>> inputs;
  std::vector<std::vector<std::int64_t>> input_shapes;
  for (const ir::ValueId input : node.inputs) {
    auto dims = contents(input);
    if (!dims) return std::nullopt;
    inputs.push_back(std::move(*dims));
    input_shapes.push_back(*constant_shape(builder_.type(input).shape));
  }
  const DType from = builder_.type(node.inputs[0]).dtype;
  std::vector<Dim> result;
  const std::int64_t count = *small_count(type.shape, kMaxContents);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto index = unravel(i, *shape);
    std::vector<Dim> operands;
    for (std::size_t k = 0; k < inputs.size(); ++k)
      operands.push_back(inputs[k][broadcast_offset(index, input_shapes[k])]);
    const auto element =
        size_arithmetic(node.op->name, operands, from, type.dtype, builder_.ranges());
    if (!element) return std::nullopt;
    result.push_back(*element);
  }
  return result;
}

std::optional<std::vector<Dim>> ShapeFolder::fold_view(const ir::Node& node,
                                                       const ir::TensorType& type) {
  std::vector<std::vector<Dim>> inputs;
  std::vector<ir::TensorType> types;
  for (const ir::ValueId input : node.inputs) {
    auto dims = contents(input);
    if (!dims) return std::nullopt;
    inputs.push_back(std::move(*dims));
    types.push_back(builder_.type(input));
  }
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
    result.push_back(element.value_or(Dim(static_cast<std::int64_t>(fill))));
  }
  return result;
}

std::optional<std::vector<Dim>> ShapeFolder::fold_gather(const ir::Node& node,
                                                         const ir::TensorType& type) {
  const auto data = contents(node.inputs[0]);
  const auto indices = contents(node.inputs[1]);
  if (!data || !indices) return std::nullopt;
  const auto data_shape = *constant_shape(builder_.type(node.inputs[0]).shape);
  const std::size_t axis = static_cast<std::size_t>(node.attrs.get_int("axis"));
  std::int64_t inner = 1;
  for (std::size_t d = axis + 1; d < data_shape.size(); ++d) inner *= data_shape[d];
  const std::int64_t extent = data_shape[axis];
  const std::int64_t picked = static_cast<std::int64_t>(indices->size());
  const std::int64_t count = *small_count(type.shape, kMaxContents);
  std::vector<Dim> result;
  for (std::int64_t i = 0; i < count; ++i) {
    const Dim& index = (*indices)[static_cast<std::size_t>(i / inner % picked)];
    if (!index.is_constant()) return std::nullopt;
    const std::int64_t at = index.value() < 0 ? index.value() + extent : index.value();
    if (at < 0 || at >= extent) return std::nullopt;
    const std::int64_t outer = i / (inner * picked);
    result.push_back((*data)[static_cast<std::size_t>((outer * extent + at) * inner + i % inner)]);
  }
  return result;
}

std::optional<std::vector<Dim>> ShapeFolder::fold_reduce(const ir::Node& node,
                                                         const ir::TensorType& type) {
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

std::optional<ir::Tensor> ShapeFolder::constant(ir::ValueId value) {
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
  for (const ir::ValueId input : node->inputs) {
    auto tensor = constant(input);
    if (!tensor) break;
    inputs.push_back(std::move(*tensor));
  }
  --depth_;
  if (inputs.size() == node->inputs.size()) {
    try {
      result = ir::evaluate_op(*node->op, node->attrs, inputs).at(0);
    } catch (const Error&) {
      // Symbolic attributes, or a composite operator: not a constant that import has to know.
    }
  }
  constants_[value.index] = result;
  return result;
}

ir::ValueId ShapeFolder::simplified(ir::ValueId value) {
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

ir::ValueId ShapeFolder::atom_value(const ir::DimAtom& atom) {
  if (atom.kind == ir::DimAtom::Kind::kSymbol) {
    // A dimension becomes data as the sum of that many ones.
    const std::int64_t one = 1;
    const ir::ValueId ones = builder_.add(
        "Expand", {builder_.constant(ir::Tensor::from_ints(DType::kInt64, {1}, {&one, 1}))},
        {{"shape", std::vector<Dim>{Dim::symbol(atom.name)}}});
    return builder_.add("ReduceSum", {ones},
                        {{"axes", std::vector<std::int64_t>{0}}, {"keepdims", std::int64_t{1}}});
  }
  const ir::ValueId a = vector_of(atom.a), b = vector_of(atom.b);
  switch (atom.kind) {
    case ir::DimAtom::Kind::kMin: return builder_.add("Min", {a, b});
    case ir::DimAtom::Kind::kMax: return builder_.add("Max", {a, b});
    default:
      // Division truncates; without the remainder it is exact, and so the floor.
      return builder_.add("Div", {builder_.add("Sub", {a, builder_.add("Mod", {a, b})}), b});
  }
}

ir::ValueId ShapeFolder::vector_of(const Dim& dim) {
  if (dim.is_constant()) {
    const std::int64_t value = dim.value();
    return builder_.constant(ir::Tensor::from_ints(DType::kInt64, {1}, {&value, 1}));
  }
  ir::ValueId sum;
  for (const Dim::Term& term : dim.terms()) {
    ir::ValueId product;
    for (const auto& factor : term.factors) {
      const ir::ValueId value = atom_value(*factor);
      product = product.valid() ? builder_.add("Mul", {product, value}) : value;
    }
    if (!product.valid())
      product = vector_of(term.coefficient);
    else if (term.coefficient != 1)
      product = builder_.add("Mul", {product, vector_of(term.coefficient)});
    sum = sum.valid() ? builder_.add("Add", {sum, product}) : product;
  }
  contents_[sum.index] = std::vector<Dim>{dim};
  return sum;
}

ir::ValueId ShapeFolder::value_of(const std::vector<Dim>& dims) {
  std::vector<ir::ValueId> parts;
  for (std::size_t i = 0; i < dims.size();) {
    if (!dims[i].is_constant()) {
      parts.push_back(vector_of(dims[i++]));
      continue;
    }
    std::vector<std::int64_t> run;
    for (; i < dims.size() && dims[i].is_constant(); ++i) run.push_back(dims[i].value());
    parts.push_back(builder_.constant(
        ir::Tensor::from_ints(DType::kInt64, {static_cast<std::int64_t>(run.size())}, run)));
  }
  if (parts.empty()) return builder_.constant(ir::Tensor::from_ints(DType::kInt64, {0}, {}));
  if (parts.size() == 1) return parts[0];
  const ir::ValueId value = builder_.add("Concat", parts, {{"axis", std::int64_t{0}}});
  contents_[value.index] = dims;
  return value;
}

ir::ValueId ShapeFolder::scalar_of(const Dim& dim) {
  if (dim.is_constant()) {
    const std::int64_t value = dim.value();
    return builder_.constant(ir::Tensor::from_ints(DType::kInt64, {}, {&value, 1}));
  }
  const ir::ValueId value =
      builder_.add("Reshape", {vector_of(dim)}, {{"shape", std::vector<Dim>{}}});
  contents_[value.index] = std::vector<Dim>{dim};
  return value;
}

ir::ValueId ShapeFolder::iota(const Dim& n, DType dtype) {
  const auto bound = ir::upper_bound(n, builder_.ranges());
  if (!bound || *bound > kMaxIota)
    throw Error(ErrorCode::kUnsupported,
                fmt::format("a sequence of {} numbers needs a bound of at most {} on its length{}: "
                            "give a range for the symbolic dimensions in it",
                            n.to_string(), kMaxIota,
                            bound ? fmt::format(", which is up to {}", *bound) : ""));
  std::vector<double> values(static_cast<std::size_t>(std::max<std::int64_t>(*bound, 0)));
  std::iota(values.begin(), values.end(), 0.0);
  const ir::ValueId all = builder_.constant(
      ir::Tensor::from_doubles(dtype, {static_cast<std::int64_t>(values.size())}, values));
  if (n.is_constant()) return all;
  const ir::ValueId part = builder_.add("Slice", {all},
                                        {{"starts", std::vector<Dim>{Dim(0)}},
                                         {"steps", std::vector<std::int64_t>{1}},
                                         {"shape", std::vector<Dim>{n}}});
  iotas_.emplace(part.index, n);
  return part;
}

std::optional<Dim> ShapeFolder::length_of_iota(ir::ValueId value) const {
  for (int step = 0; step < kMaxDepth; ++step) {
    if (const auto found = iotas_.find(value.index); found != iotas_.end()) return found->second;
    const ir::Node* node = builder_.producer(value);
    if (node == nullptr) break;
    const std::string& op = node->op->name;
    if (op != "Reshape" && op != "Expand" && op != "Cast") break;
    value = node->inputs[0];
  }
  return std::nullopt;
}

}  // namespace sinter::frontend
