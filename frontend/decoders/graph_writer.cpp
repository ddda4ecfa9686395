// SPDX-License-Identifier: Apache-2.0
#include "frontend/decoders/graph_writer.h"

#include <limits>

#include "ir/scale_format.h"
#include "ir/scaled_rows.h"

namespace sinter::frontend {

using ir::Dim;
using ir::Ints;
using ir::Shape;
using ir::ValueId;

void GraphWriter::scope(const std::string& name) {
  scope_.reset();  // the old one restores what was before it
  scope_ = std::make_unique<ir::GraphBuilder::OriginScope>(b, std::vector<std::string>{name});
}

ValueId GraphWriter::cast(ValueId x, DType type) {
  return b.type(x).dtype == type ? x : b.add("Cast", {x}, {{"to", ir::Attr(type)}});
}

ValueId GraphWriter::reshape(ValueId x, Shape shape) {
  return this->shape(x) == shape ? x : b.add("Reshape", {x}, {{"shape", std::move(shape)}});
}

ValueId GraphWriter::transpose(ValueId x, Ints perm) {
  return b.add("Transpose", {x}, {{"perm", std::move(perm)}});
}

ValueId GraphWriter::part(ValueId x, std::size_t axis, std::int64_t first, std::int64_t count) {
  Shape wanted = shape(x);
  if (wanted[axis] == Dim(count)) return x;
  std::vector<Dim> starts(wanted.size(), Dim(0));
  Ints steps(wanted.size(), 1);
  starts[axis] = Dim(first);
  wanted[axis] = Dim(count);
  return b.add(
      "Slice", {x},
      {{"starts", std::move(starts)}, {"steps", std::move(steps)}, {"shape", std::move(wanted)}});
}

ValueId GraphWriter::iota(const Dim& count, std::size_t axis, std::size_t rank) {
  Shape shape(rank, Dim(1));
  shape[axis] = count;
  return b.add("Iota", {},
               {{"shape", std::move(shape)},
                {"axis", static_cast<std::int64_t>(axis)},
                {"dtype", ir::Attr(DType::kInt64)}});
}

ValueId GraphWriter::ones(std::int64_t size) {
  return b.constant(ir::Tensor::from_doubles(
      type_, {size}, std::vector<double>(static_cast<std::size_t>(size), 1)));
}

ValueId GraphWriter::scaled(ValueId x, double factor) {
  return factor == 1 ? x : add("Mul", x, b.scalar(b.type(x).dtype, factor));
}

ValueId GraphWriter::capped(ValueId x, double cap) {
  if (cap == 0) return x;
  const ValueId limit = b.scalar(b.type(x).dtype, cap);
  return add("Mul", b.add("Tanh", {add("Div", x, limit)}), limit);
}

ValueId GraphWriter::activated(ValueId x, Activation activation) {
  const auto op = [&] {
    switch (activation) {
      case Activation::kSilu: return "Silu";
      case Activation::kGelu: return "Gelu";
      case Activation::kGeluTanh: return "GeluTanh";
      case Activation::kRelu:
      case Activation::kSquaredRelu: return "Relu";
    }
    return "";
  };
  if (activation == Activation::kSquaredRelu) {
    x = b.add("Relu", {x});
    return add("Mul", x, x);
  }
  return b.add(op(), {x});
}

ValueId GraphWriter::product(ValueId x, const StoredTensor& weights, const std::string& name) {
  if (const auto* plain = std::get_if<ir::Tensor>(&weights.value))
    return add("MatMul", x, transpose(cast(b.constant(*plain, name), type_), {1, 0}));
  const auto& blocks = std::get<ir::ScaledTensor>(weights.value);
  std::vector<ValueId> inputs{x};
  for (const ir::Tensor& part : ir::parts_of(blocks))
    inputs.push_back(b.constant(part, inputs.size() == 1 ? name : ""));
  return b.add("MatMul", std::move(inputs), ir::product_attrs(blocks.format));
}

ValueId GraphWriter::grouped_product(ValueId x, const StoredTensor& weights,
                                     const std::string& name, ValueId offsets, bool transposed) {
  if (const auto* plain = std::get_if<ir::Tensor>(&weights.value))
    return b.add("GroupedMatMul", {x, cast(b.constant(*plain, name), type_), offsets},
                 {{"transposed", std::int64_t{transposed}}});
  const auto& blocks = std::get<ir::ScaledTensor>(weights.value);
  std::vector<ValueId> inputs{x};
  for (const ir::Tensor& part : ir::parts_of(blocks))
    inputs.push_back(b.constant(
        part.reshaped({weights.shape[0], part.shape()[0] / weights.shape[0], part.shape()[1]}),
        inputs.size() == 1 ? name : ""));
  inputs.push_back(offsets);
  return b.add("GroupedMatMul", std::move(inputs), ir::product_attrs(blocks.format));
}

ValueId GraphWriter::rows(const StoredTensor& table, const std::string& name, ValueId ids) {
  if (const auto* blocks = std::get_if<ir::ScaledTensor>(&table.value))
    return ir::add_gathered(b, *blocks, ids, type_);
  const ValueId rows = b.add("Gather", {b.constant(std::get<ir::Tensor>(table.value), name), ids},
                             {{"axis", std::int64_t{0}}});
  return cast(rows, type_);
}

ValueId GraphWriter::rotated(ValueId x, ValueId cos, ValueId sin) {
  const std::int64_t pairs = shape(cos).back().value(), size = shape(x).back().value();
  const ValueId left = part(x, 3, 0, pairs), right = part(x, 3, pairs, pairs);
  std::vector<ValueId> parts{add("Sub", add("Mul", left, cos), add("Mul", right, sin)),
                             add("Add", add("Mul", left, sin), add("Mul", right, cos))};
  if (2 * pairs < size) parts.push_back(part(x, 3, 2 * pairs, size - 2 * pairs));
  return b.add("Concat", std::move(parts), {{"axis", std::int64_t{3}}});
}

ValueId GraphWriter::put_rows(ValueId cache, ValueId rows, ValueId first) {
  const Shape all = shape(rows);
  const ValueId places = add("Add", iota(all[2], 2, 4), reshape(first, Shape(4, Dim(1))));
  return b.add("Scatter",
               {cache, rows, iota(all[0], 0, 4), iota(all[1], 1, 4), places, iota(all[3], 3, 4)},
               {{"combine", std::string("none")}, {"distinct", std::int64_t{1}}});
}

ValueId GraphWriter::attended(ValueId q, ValueId k, ValueId v, ValueId mask, double scale,
                              double cap, ValueId sinks, double hidden) {
  const Shape rows = shape(q), keys = shape(k);
  const Dim size = shape(v)[3];
  const Dim group(rows[1].value() / keys[1].value());
  // Keys and values are broadcast along a dimension of the group.
  q = reshape(q, {rows[0], keys[1], group, rows[2], rows[3]});
  for (ValueId* each : {&k, &v})
    *each = reshape(*each, {keys[0], keys[1], Dim(1), keys[2], shape(*each)[3]});
  const ValueId product = add("MatMul", q, transpose(k, {0, 1, 2, 4, 3}));
  ValueId scores = capped(scaled(product, scale), cap);
  scores = b.add("Where", {mask, scores, number(hidden)});
  Shape all = shape(scores);
  if (sinks.valid()) {
    Shape one = all;
    one[4] = Dim(1);
    const ValueId own = b.add("Expand", {reshape(sinks, {Dim(1), keys[1], group, Dim(1), Dim(1)})},
                              {{"shape", one}});
    scores = b.add("Concat", {scores, own}, {{"axis", std::int64_t{4}}});
  }
  ValueId weights = b.add("Softmax", {scores}, {{"axis", std::int64_t{4}}});
  if (sinks.valid())
    weights = b.add("Slice", {weights},
                    {{"starts", std::vector<Dim>(5, Dim(0))},
                     {"steps", Ints(5, 1)},
                     {"shape", std::move(all)}});
  return reshape(add("MatMul", weights, v), {rows[0], rows[1], rows[2], size});
}

ValueId GraphWriter::attended_by_heads(ValueId q, ValueId k, ValueId v, double scale, ValueId mask,
                                       ValueId bias) {
  ValueId scores = scaled(add("MatMul", q, transpose(k, {0, 1, 3, 2})), scale);
  if (bias.valid()) scores = add("Add", scores, bias);
  if (mask.valid()) scores = b.add("Where", {mask, scores, number(kLowest)});
  return add("MatMul", b.add("Softmax", {scores}, {{"axis", std::int64_t{3}}}), v);
}

}  // namespace sinter::frontend
