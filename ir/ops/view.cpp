// SPDX-License-Identifier: Apache-2.0
// Views: operators that map each output element to an element of an input.
#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/dim/dim_mismatch.h"
#include "ir/ops/ops.h"
#include "ir/reference/windows.h"

namespace sinter::ir::ops {
namespace {

bool is_one(const Dim& dim) { return dim == Dim(1); }

/// Index `d` of the output: zero for a dimension of size 1.
Dim at(std::span<const Dim> index, const TensorType& output, std::size_t d) {
  return is_one(output.shape[d]) ? Dim(0) : index[d];
}

// ---- Reshape

std::vector<TensorType> infer_reshape(const Attrs& attrs, Types inputs) {
  TensorType result{inputs[0].dtype, attrs.get_dims("shape")};
  const Dim from = element_count(inputs[0].shape), to = element_count(result.shape);
  require_equal(from, to, [&] {
    return fmt::format("{} has {} elements and shape {} has {}", to_string(inputs[0]),
                       from.to_string(), to_string(result.shape), to.to_string());
  });
  return {result};
}

/// Linearizes output dimensions [out_begin, out_end) and splits the result over input dimensions
/// [in_begin, in_end), which have as many elements. The outermost input dimension needs no modulo,
/// the innermost no division.
void reshape_group(const Shape& in, std::size_t in_begin, std::size_t in_end,
                   const TensorType& output, std::size_t out_begin, std::size_t out_end,
                   std::span<const Dim> index, const Ranges& ranges, std::vector<Dim>& result) {
  Dim linear = 0, stride = 1;
  for (std::size_t d = out_end; d-- > out_begin;) {
    linear += at(index, output, d) * stride;
    stride *= output.shape[d];
  }
  std::size_t outermost = in_begin;
  while (outermost < in_end && is_one(in[outermost])) ++outermost;
  stride = 1;
  for (std::size_t d = in_end; d-- > in_begin;) {
    if (is_one(in[d])) continue;
    const Dim quotient = floor_div(linear, stride, ranges);
    result[d] = d == outermost ? quotient : mod(quotient, in[d], ranges);
    stride *= in[d];
  }
}

/// Divides both shapes into the smallest runs with equal products: [batch, seq, 384] -> [batch,
/// seq, 12, 32] maps batch and seq to themselves.
std::vector<ViewSource> map_reshape(const Attrs&, Types inputs, const TensorType& output,
                                    std::span<const Dim> index, const Ranges& ranges) {
  const Shape &in = inputs[0].shape, &out = output.shape;
  ViewSource source{0, std::vector<Dim>(in.size(), Dim(0)), {}};
  if (element_count(in) == Dim(0)) return {source};
  std::size_t i = 0, j = 0;
  while (i < in.size() && j < out.size()) {
    std::size_t in_end = i + 1, out_end = j + 1;
    Dim in_count = in[i], out_count = out[j];
    while (!(in_count == out_count)) {
      const bool in_left = in_end < in.size(), out_left = out_end < out.size();
      if (!in_left && !out_left) break;
      const bool grow_in = in_left && (!out_left || divide_exactly(out_count, in_count));
      const bool grow_out = out_left && (!in_left || divide_exactly(in_count, out_count));
      if (grow_in || !grow_out)
        if (in_left) in_count *= in[in_end++];
      if (grow_out || !grow_in)
        if (out_left) out_count *= out[out_end++];
    }
    reshape_group(in, i, in_end, output, j, out_end, index, ranges, source.index);
    i = in_end, j = out_end;
  }
  return {source};  // the remaining dimensions have size 1
}

// ---- Transpose

std::vector<TensorType> infer_transpose(const Attrs& attrs, Types inputs) {
  const Shape& shape = inputs[0].shape;
  const auto& perm = attrs.get_ints("perm");
  Ints sorted = perm;
  std::ranges::sort(sorted);
  bool valid = sorted.size() == shape.size();
  for (std::size_t d = 0; valid && d < sorted.size(); ++d)
    valid = sorted[d] == static_cast<std::int64_t>(d);
  if (!valid)
    invalid(fmt::format("perm [{}] is not a permutation of the dimensions of {}",
                        fmt::join(perm, ", "), to_string(inputs[0])));
  TensorType result{inputs[0].dtype, {}};
  for (const std::int64_t d : perm) result.shape.push_back(shape[static_cast<std::size_t>(d)]);
  return {result};
}

std::vector<ViewSource> map_transpose(const Attrs& attrs, Types inputs, const TensorType& output,
                                      std::span<const Dim> index, const Ranges&) {
  ViewSource source{0, std::vector<Dim>(inputs[0].shape.size(), Dim(0)), {}};
  const auto& perm = attrs.get_ints("perm");
  for (std::size_t d = 0; d < perm.size(); ++d)
    source.index[static_cast<std::size_t>(perm[d])] = at(index, output, d);
  return {source};
}

// ---- Expand

std::vector<TensorType> infer_expand(const Attrs& attrs, Types inputs) {
  const Shape& shape = attrs.get_dims("shape");
  require_equal(broadcast(inputs[0].shape, shape), shape, [&] {
    return fmt::format("{} does not broadcast to {}", to_string(inputs[0]), to_string(shape));
  });
  return {{inputs[0].dtype, shape}};
}

std::vector<ViewSource> map_expand(const Attrs&, Types inputs, const TensorType& output,
                                   std::span<const Dim> index, const Ranges&) {
  const Shape& in = inputs[0].shape;
  const std::size_t added = output.shape.size() - in.size();
  ViewSource source;
  for (std::size_t d = 0; d < in.size(); ++d)
    source.index.push_back(is_one(in[d]) ? Dim(0) : at(index, output, d + added));
  return {source};
}

// ---- Slice

std::vector<TensorType> infer_slice(const Attrs& attrs, Types inputs) {
  const Shape& in = inputs[0].shape;
  const auto &starts = attrs.get_dims("starts"), &shape = attrs.get_dims("shape");
  const auto& steps = attrs.get_ints("steps");
  if (starts.size() != in.size() || shape.size() != in.size() || steps.size() != in.size())
    invalid(
        fmt::format("starts, steps and shape need one value for each dimension of {}, found "
                    "{}, {} and {}",
                    to_string(inputs[0]), starts.size(), steps.size(), shape.size()));
  for (std::size_t d = 0; d < in.size(); ++d) {
    if (steps[d] == 0) invalid(fmt::format("step of dimension {} is 0", d));
    if (is_one(shape[d]) && !starts[d].is_constant()) continue;
    // Symbolic ends without known bound are checked when the symbols have values.
    const Dim last = starts[d] + Dim(steps[d]) * (shape[d] - Dim(1));
    const bool empty = shape[d] == Dim(0);
    const auto outside = [&](const Dim& i) {
      const Dim room = in[d] - Dim(1) - i;
      return (i.is_constant() && i.value() < 0) || (room.is_constant() && room.value() < 0);
    };
    if (!empty && (outside(starts[d]) || outside(last)))
      invalid(fmt::format("elements {} to {} of dimension {} lie outside {}", starts[d].to_string(),
                          last.to_string(), d, to_string(inputs[0])));
  }
  return {{inputs[0].dtype, shape}};
}

std::vector<ViewSource> map_slice(const Attrs& attrs, Types, const TensorType& output,
                                  std::span<const Dim> index, const Ranges&) {
  const auto& starts = attrs.get_dims("starts");
  const auto& steps = attrs.get_ints("steps");
  ViewSource source;
  for (std::size_t d = 0; d < starts.size(); ++d)
    source.index.push_back(starts[d] + Dim(steps[d]) * at(index, output, d));
  return {source};
}

// ---- Concat

std::vector<TensorType> infer_concat(const Attrs& attrs, Types inputs) {
  require_same_dtype(inputs);
  TensorType result = inputs[0];
  const auto axis = static_cast<std::size_t>(axis_attr(attrs, "axis", result.shape));
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    Shape shape = inputs[i].shape;
    if (shape.size() != result.shape.size())
      invalid("inputs must have one rank, found " + list_types(inputs));
    const Dim sum = result.shape[axis] + shape[axis];
    result.shape[axis] = shape[axis] = sum;
    require_equal(shape, result.shape, [&] {
      return fmt::format("inputs may differ in dimension {} only, found {}", axis,
                         list_types(inputs));
    });
  }
  return {result};
}

std::vector<ViewSource> map_concat(const Attrs& attrs, Types inputs, const TensorType& output,
                                   std::span<const Dim> index, const Ranges& ranges) {
  const auto axis = static_cast<std::size_t>(attrs.get_int("axis"));
  std::vector<ViewSource> sources;
  // With many sources, returns only those that the index may be in.
  constexpr std::size_t kMany = 64;
  std::optional<std::int64_t> low, high;
  if (inputs.size() > kMany) {
    low = lower_bound(index[axis], ranges);
    high = upper_bound(index[axis], ranges);
  }
  Dim offset = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Dim& size = inputs[i].shape[axis];
    if (offset.is_constant() && size.is_constant() &&
        ((low && *low >= offset.value() + size.value()) || (high && *high < offset.value()))) {
      offset += size;
      continue;
    }
    ViewSource source{static_cast<int>(i), {}, {}};
    for (std::size_t d = 0; d < output.shape.size(); ++d)
      source.index.push_back(at(index, output, d));
    source.index[axis] = source.index[axis] - offset;
    const Dim& extent = inputs[i].shape[axis];
    if (inputs.size() > 1) source.guards.push_back({source.index[axis], extent});
    if (is_one(extent)) source.index[axis] = 0;
    offset += extent;
    sources.push_back(std::move(source));
  }
  return sources;
}

// ---- Pad

std::vector<TensorType> infer_pad(const Attrs& attrs, Types inputs) {
  const Shape& in = inputs[0].shape;
  const auto &begins = attrs.get_dims("begins"), &ends = attrs.get_dims("ends");
  if (begins.size() != in.size() || ends.size() != in.size())
    invalid(fmt::format("begins and ends need one value for each dimension of {}, found {} and {}",
                        to_string(inputs[0]), begins.size(), ends.size()));
  TensorType result{inputs[0].dtype, {}};
  for (std::size_t d = 0; d < in.size(); ++d) {
    result.shape.push_back(in[d] + begins[d] + ends[d]);
    if (result.shape[d].is_constant() && result.shape[d].value() < 0)
      invalid(fmt::format("pads {} and {} leave nothing of dimension {} of {}",
                          begins[d].to_string(), ends[d].to_string(), d, to_string(inputs[0])));
  }
  return {result};
}

std::vector<ViewSource> map_pad(const Attrs& attrs, Types inputs, const TensorType& output,
                                std::span<const Dim> index, const Ranges&) {
  const auto &begins = attrs.get_dims("begins"), &ends = attrs.get_dims("ends");
  ViewSource source;
  for (std::size_t d = 0; d < begins.size(); ++d) {
    const Dim& extent = inputs[0].shape[d];
    source.index.push_back(at(index, output, d) - begins[d]);
    if (begins[d] == Dim(0) && ends[d] == Dim(0)) continue;
    source.guards.push_back({source.index[d], extent});
    if (is_one(extent)) source.index[d] = 0;
  }
  return {source};
}

// ---- Unfold: [n, c, d..] -> [n, c, kernel.., windows..], with "channels_last"
// [n, d.., c] -> [n, kernel.., windows.., c]

std::vector<TensorType> infer_unfold(const Attrs& attrs, Types inputs) {
  const Shape& in = inputs[0].shape;
  if (in.size() < 3)
    invalid("needs [batch, channels, spatial dimensions...], found " + to_string(inputs[0]));
  const bool last = channels_last_attr(attrs);
  const Windows windows = windows_attr(attrs, ints_attr(attrs, "kernel", in.size() - 2, 1));
  TensorType result{inputs[0].dtype, {in[0]}};
  if (!last) result.shape.push_back(in[1]);
  for (const std::int64_t size : windows.kernel) result.shape.push_back(size);
  for (Dim& count : window_counts(windows, std::span(in).subspan(last ? 1 : 2, in.size() - 2)))
    result.shape.push_back(std::move(count));
  if (last) result.shape.push_back(in.back());
  return {result};
}

std::vector<ViewSource> map_unfold(const Attrs& attrs, Types inputs, const TensorType& output,
                                   std::span<const Dim> index, const Ranges&) {
  const std::size_t spatial = inputs[0].shape.size() - 2;
  const Windows windows = windows_attr(attrs, attrs.get_ints("kernel"));
  const bool last = channels_last_attr(attrs);
  const std::size_t first = last ? 1 : 2;  // spatial dimension
  ViewSource source;
  source.index.push_back(at(index, output, 0));
  if (!last) source.index.push_back(at(index, output, 1));
  for (std::size_t d = 0; d < spatial; ++d) {
    const Dim tap = at(index, output, first + d), window = at(index, output, first + spatial + d);
    const Dim& extent = inputs[0].shape[first + d];
    source.index.push_back(window * Dim(windows.strides[d]) + tap * Dim(windows.dilations[d]) -
                           Dim(windows.pads_begin[d]));
    if (windows.pads_begin[d] == 0 && windows.pads_end[d] == 0) continue;
    source.guards.push_back({source.index.back(), extent});
    if (is_one(extent)) source.index.back() = 0;
  }
  if (last) source.index.push_back(at(index, output, output.shape.size() - 1));
  return {source};
}

struct ViewRow {
  const char* name;
  std::vector<AttrSpec> attrs;
  std::vector<TensorType> (*infer)(const Attrs&, Types);
  IndexMap map;
  int max_inputs = 1;
};

}  // namespace

std::vector<OpDef> view_ops() {
  const auto dims = [](const char* name) { return AttrSpec{name, AttrKind::kDims, std::nullopt}; };
  const auto ints = [](const char* name) { return AttrSpec{name, AttrKind::kInts, std::nullopt}; };
  const AttrSpec axis{"axis", AttrKind::kInt, std::nullopt};
  const AttrSpec fill{"fill", AttrKind::kFloat, Attr(0.0)};
  const ViewRow rows[] = {
      {"Reshape", {dims("shape")}, infer_reshape, map_reshape},
      {"Transpose", {ints("perm")}, infer_transpose, map_transpose},
      {"Expand", {dims("shape")}, infer_expand, map_expand},
      {"Slice", {dims("starts"), ints("steps"), dims("shape")}, infer_slice, map_slice},
      {"Concat", {axis}, infer_concat, map_concat, -1},
      {"Pad", {dims("begins"), dims("ends"), fill}, infer_pad, map_pad},
      {"Unfold",
       {ints("kernel"), ints("strides"), ints("dilations"), ints("pads_begin"), ints("pads_end"),
        AttrSpec{"channels_last", AttrKind::kInt, Attr(std::int64_t{0})}},
       infer_unfold,
       map_unfold},
  };
  std::vector<OpDef> ops;
  for (const ViewRow& row : rows) {
    OpDef op;
    op.name = row.name;
    op.kind = OpKind::kView;
    op.max_inputs = row.max_inputs;
    op.attrs = row.attrs;
    op.infer = row.infer;
    op.detail = ViewDef{row.map, 0};
    ops.push_back(std::move(op));
  }
  return ops;
}

}  // namespace sinter::ir::ops
