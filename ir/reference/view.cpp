// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include <sinter/error.h>

#include "ir/affine.h"
#include "ir/reference/kernels.h"
#include "ir/reference/strided.h"

namespace sinter::ir::reference {
namespace {

/// A linear form over the output's index, for a source or a guard: offset + sum strides[d] *
/// index[d].
struct Line {
  std::int64_t offset = 0;
  Ints strides;
};

std::optional<Line> line_of(const Dim& expr, std::span<const std::string> symbols) {
  const auto form = linear_form(expr, symbols);
  if (!form || !form->offset.is_constant()) return std::nullopt;
  Line line{form->offset.value(), {}};
  for (const Dim& stride : form->strides) {
    if (!stride.is_constant()) return std::nullopt;
    line.strides.push_back(stride.value());
  }
  return line;
}

struct Guard {
  Line line;
  std::int64_t extent = 0;
};
struct LinearSource {
  int input = 0;
  Line line;
  std::vector<Guard> guards;
};

std::optional<LinearSource> linear_source(const ViewSource& source, const Tensor& input,
                                          std::span<const std::string> symbols) {
  Dim offset = 0;
  const Ints strides = dense_strides(input.shape());
  for (std::size_t d = 0; d < strides.size(); ++d) offset += source.index[d] * Dim(strides[d]);
  const auto line = line_of(offset, symbols);
  if (!line) return std::nullopt;
  LinearSource result{source.input, *line, {}};
  for (const ViewSource::Guard& guard : source.guards) {
    const auto value = line_of(guard.value, symbols);
    if (!value) return std::nullopt;
    result.guards.push_back({*value, guard.extent.value()});
  }
  return result;
}

struct MappedView {
  std::vector<Dim> index;
  std::vector<std::string> symbols;
  std::vector<ViewSource> sources;
};

MappedView map_view(const OpDef& op, const Attrs& attrs, Tensors inputs, const TensorType& output) {
  MappedView view;
  Ranges ranges;
  view.index = index_symbols(output.shape, ranges);
  for (std::size_t d = 0; d < view.index.size(); ++d)
    view.symbols.push_back(index_symbol(static_cast<int>(d)));
  std::vector<TensorType> types;
  for (const Tensor& input : inputs) types.push_back(input.type());
  view.sources = op.view().map(attrs, types, output, view.index, ranges);
  return view;
}

double fill_of(const OpDef& op, const Attrs& attrs) {
  return attrs.has("fill") ? attrs.get_float("fill") : op.view().fill;
}

std::vector<std::byte> filled(DType dtype, std::size_t count, double value) {
  const std::size_t size = size_of(dtype);
  std::vector<std::byte> bytes(count * size);
  if (value == 0) return bytes;
  for (std::size_t i = 0; i < count; ++i) store_double(dtype, bytes.data() + i * size, value);
  return bytes;
}

void copy_source(const LinearSource& source, const Tensor& input, const Ints& shape,
                 std::byte* out) {
  const std::size_t size = size_of(input.dtype());
  StridedWalk from(shape, source.line.strides, source.line.offset);
  std::vector<StridedWalk> guards;
  for (const Guard& guard : source.guards)
    guards.emplace_back(shape, guard.line.strides, guard.line.offset);
  const std::byte* data = input.bytes().data();
  const std::int64_t count = count_of(shape);
  for (std::int64_t i = 0; i < count; ++i, from.next()) {
    bool applies = true;
    for (std::size_t g = 0; g < guards.size(); ++g) {
      const std::int64_t value = guards[g].offset();
      applies = applies && value >= 0 && value < source.guards[g].extent;
      guards[g].next();
    }
    if (!applies) continue;
    if (from.offset() < 0 || from.offset() >= input.element_count())
      throw Error(ErrorCode::kInternal, "a view reads outside its input");
    std::memcpy(out + static_cast<std::size_t>(i) * size,
                data + static_cast<std::size_t>(from.offset()) * size, size);
  }
}

}  // namespace

Tensor evaluate_index_map(const OpDef& op, const Attrs& attrs, Tensors inputs,
                          const TensorType& output) {
  const Ints shape = concrete_shape(output.shape);
  const auto count = static_cast<std::size_t>(count_of(shape));
  const std::size_t size = size_of(output.dtype);
  std::vector<std::byte> bytes = filled(output.dtype, count, fill_of(op, attrs));
  if (count == 0) return Tensor(output.dtype, shape, Buffer::take(std::move(bytes)));
  const MappedView view = map_view(op, attrs, inputs, output);
  std::vector<Ints> strides;
  for (const Tensor& input : inputs) strides.push_back(dense_strides(input.shape()));
  const Ints out_strides = dense_strides(shape);
  for (std::size_t i = 0; i < count; ++i) {
    Bindings bindings;
    for (std::size_t d = 0; d < shape.size(); ++d)
      bindings[view.symbols[d]] = static_cast<std::int64_t>(i) / out_strides[d] % shape[d];
    for (const ViewSource& source : view.sources) {
      bool applies = true;
      for (const ViewSource::Guard& guard : source.guards) {
        const std::int64_t value = guard.value.evaluate(bindings);
        applies = applies && value >= 0 && value < guard.extent.evaluate(bindings);
      }
      if (!applies) continue;
      const auto input = static_cast<std::size_t>(source.input);
      std::int64_t from = 0;
      for (std::size_t d = 0; d < strides[input].size(); ++d) {
        const std::int64_t at = source.index[d].evaluate(bindings);
        if (at < 0 || at >= inputs[input].shape()[d])
          throw Error(ErrorCode::kInternal, op.name + ": a view reads outside its input");
        from += at * strides[input][d];
      }
      std::memcpy(bytes.data() + i * size,
                  inputs[input].bytes().data() + static_cast<std::size_t>(from) * size, size);
      break;
    }
  }
  return Tensor(output.dtype, shape, Buffer::take(std::move(bytes)));
}

Tensor evaluate_view(const OpDef& op, const Attrs& attrs, Tensors inputs,
                     const TensorType& output) {
  const Ints shape = concrete_shape(output.shape);
  std::vector<Tensor> stored;
  for (const Tensor& input : inputs) stored.push_back(convert(input, output.dtype));
  if (op.name == "Reshape") return stored[0].reshaped(shape);
  const std::int64_t count = count_of(shape);
  std::vector<std::byte> bytes =
      filled(output.dtype, static_cast<std::size_t>(count), fill_of(op, attrs));
  if (count > 0) {
    const MappedView view = map_view(op, attrs, stored, output);
    std::vector<LinearSource> sources;
    for (const ViewSource& source : view.sources) {
      const auto linear =
          linear_source(source, stored[static_cast<std::size_t>(source.input)], view.symbols);
      if (!linear) return evaluate_index_map(op, attrs, stored, output);
      sources.push_back(*linear);
    }
    for (const LinearSource& source : sources)
      copy_source(source, stored[static_cast<std::size_t>(source.input)], shape, bytes.data());
  }
  return Tensor(output.dtype, shape, Buffer::take(std::move(bytes)));
}

}  // namespace sinter::ir::reference
