// SPDX-License-Identifier: Apache-2.0
// Operators with index tensors, as the general Take and Scatter.
#include <algorithm>

#include <fmt/format.h>

#include "frontend/ops/table/op_table.h"
#include "frontend/ops/term.h"
#include "ir/dim/dim_mismatch.h"

namespace sinter::frontend {
namespace {

Term integers(NodeContext& node, std::size_t i, std::string_view what) {
  const ValueId value = node.input(i, what);
  if (!is_integer(node.dtype(value)))
    node.invalid("{} must be integers, but are {}", what, node.type(value));
  return {node, value};
}

void require_same_rank(NodeContext& node, const Term& a, const Term& b, std::string_view what) {
  if (a.shape().size() != b.shape().size())
    node.invalid("{} must have one rank, but are {} and {}", what, node.type(a.value()),
                 node.type(b.value()));
}

/// One index tensor per dimension of `data`: `indices` along `axis`, the element's own position
/// along the others.
std::vector<Term> element_indices(NodeContext& node, const Term& data, const Term& indices,
                                  std::int64_t axis) {
  const Shape shape = indices.shape(), from = data.shape();
  std::vector<Term> result;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (static_cast<std::int64_t>(d) == axis) {
      node.check_indices(indices.value(), from[d]);
      result.push_back(indices);
      continue;
    }
    if (shape[d].is_constant() && from[d].is_constant() && shape[d].value() > from[d].value())
      node.invalid("dimension {} of indices {} is larger than the data's, {}", d, shape, from);
    result.push_back(iota(node, shape[d], d, shape.size()));
  }
  return result;
}

void gather_elements(NodeContext& node) {
  const Term data(node, node.input(0, "data")), indices = integers(node, 1, "indices");
  require_same_rank(node, data, indices, "data and indices");
  const auto axis = node.normalise_axis(node.attr_int("axis", 0), node.rank(data.value()));
  node.output(take(data, element_indices(node, data, indices, axis)).value());
}

/// The last dimension of `indices` [.., m] holds index tuples into `data` from dimension `batch`
/// on. Returns one index tensor per dimension of the data, of the rank of `result`.
std::vector<Term> tuple_indices(NodeContext& node, const Term& data, const Term& indices,
                                std::size_t batch, const Shape& result) {
  const Shape from = data.shape(), shape = indices.shape();
  const std::size_t leading = shape.size() - 1;
  const auto count = static_cast<std::size_t>(shape.back().value());
  std::vector<Term> places;
  for (std::size_t d = 0; d < from.size(); ++d) {
    if (d < batch) {
      places.push_back(iota(node, from[d], d, result.size()));
    } else if (d < batch + count) {
      Shape spread(shape.begin(), shape.end() - 1);
      spread.resize(result.size(), Dim(1));
      places.push_back(
          slice_one(indices, leading, static_cast<std::int64_t>(d - batch)).reshape(spread));
    } else {
      places.push_back(iota(node, from[d], leading + d - batch - count, result.size()));
    }
  }
  return places;
}

/// The length of an index tuple. Checks it against the rank of `data`, and checks constant indices.
std::size_t tuple_size(NodeContext& node, const Term& data, const Term& indices,
                       std::size_t batch) {
  const Shape shape = indices.shape();
  if (shape.empty() || !shape.back().is_constant())
    node.unsupported("the last dimension of indices must be a known number, but they are {}",
                     node.type(indices.value()));
  const std::int64_t count = shape.back().value();
  if (count < 0 || batch + static_cast<std::size_t>(count) > data.shape().size() ||
      batch >= shape.size())
    node.invalid("indices {} hold {} numbers each for {} with {} batch dimensions", shape, count,
                 data.shape(), batch);
  const Shape from = data.shape();
  for (std::size_t part = 0; part < static_cast<std::size_t>(count); ++part)
    node.check_indices(indices.value(), from[batch + part], part, static_cast<std::size_t>(count));
  return static_cast<std::size_t>(count);
}

void gather_nd(NodeContext& node) {
  const Term data(node, node.input(0, "data")), indices = integers(node, 1, "indices");
  const std::int64_t batch_dims = node.opset() >= 12 ? node.attr_int("batch_dims", 0) : 0;
  if (batch_dims < 0) node.invalid("attribute 'batch_dims' is negative");
  const auto batch = static_cast<std::size_t>(batch_dims);
  const std::size_t count = tuple_size(node, data, indices, batch);
  const Shape from = data.shape(), shape = indices.shape();
  Shape result(shape.begin(), shape.end() - 1);
  if (count == 0 && batch == 0) {  // the whole, for each tuple
    result.insert(result.end(), from.begin(), from.end());
    return node.output(node.expand(data.value(), result));
  }
  if (batch == 0 && count == 1) {
    const ValueId rows = node.reshape(indices.value(), result);
    return node.output(node.add("Gather", {data.value(), rows}, {{"axis", std::int64_t{0}}}));
  }
  result.insert(result.end(), from.begin() + static_cast<std::ptrdiff_t>(batch + count),
                from.end());
  node.output(take(data, tuple_indices(node, data, indices, batch, result)).value());
}

/// Attribute "reduction" by its ir name.
std::string combine_of(NodeContext& node) {
  const std::string name = node.attr_string("reduction", "none");
  if (name == "none") return name;
  if (name == "add") return "sum";
  if (name == "mul") return "prod";
  if (name == "max" || name == "min") return name;
  node.invalid("attribute 'reduction' must be none, add, mul, max or min, but is '" + name + "'");
}

void add_scatter(NodeContext& node, const Term& data, const Term& updates,
                 const std::vector<Term>& places, std::string combine, bool distinct = false) {
  if (updates.dtype() != data.dtype())
    node.invalid("data and updates must have one element type, but are {} and {}",
                 node.type(data.value()), node.type(updates.value()));
  std::vector<ValueId> inputs = {data.value(), updates.value()};
  for (const Term& place : places) inputs.push_back(place.value());
  node.output(node.add("Scatter", std::move(inputs),
                       {{"combine", std::move(combine)}, {"distinct", std::int64_t{distinct}}}));
}

void scatter_elements(NodeContext& node) {
  const Term data(node, node.input(0, "data")), indices = integers(node, 1, "indices");
  const Term updates(node, node.input(2, "updates"));
  require_same_rank(node, data, indices, "data and indices");
  ir::require_equal(updates.shape(), indices.shape(), [&] {
    return fmt::format("indices and updates must have one shape, but are {} and {}",
                       indices.shape(), updates.shape());
  });
  const auto axis = node.normalise_axis(node.attr_int("axis", 0), node.rank(data.value()));
  add_scatter(node, data, updates, element_indices(node, data, indices, axis), combine_of(node));
}

/// Index tuples of no numbers: each update is of the whole data, in order.
void scatter_whole(NodeContext& node, const Term& data, const Term& updates, const Shape& indices) {
  const Dim count = ir::element_count({indices.begin(), indices.end() - 1});
  const Shape from = data.shape();
  Shape rows = from;
  rows.insert(rows.begin(), count);
  const Term all = updates.reshape(rows);
  const std::string combine = combine_of(node);
  if (combine == "none") {
    if (count == Dim(0)) return node.output(data.value());
    node.at_least(count, 1);
    return node.output(slice_one(all, 0, count - Dim(1)).reshape(from).value());
  }
  const char* reduction = combine == "sum"    ? "ReduceSum"
                          : combine == "prod" ? "ReduceProd"
                          : combine == "max"  ? "ReduceMax"
                                              : "ReduceMin";
  rows[0] = Dim(1);
  const Term both(node, node.concat({node.reshape(data.value(), rows), all.value()}, 0));
  node.output(reduce(reduction, both, 0).value());
}

void scatter_nd(NodeContext& node) {
  const Term data(node, node.input(0, "data")), indices = integers(node, 1, "indices");
  const Term updates(node, node.input(2, "updates"));
  const std::size_t count = tuple_size(node, data, indices, 0);
  const Shape from = data.shape(), shape = indices.shape();
  Shape expected(shape.begin(), shape.end() - 1);
  expected.insert(expected.end(), from.begin() + static_cast<std::ptrdiff_t>(count), from.end());
  ir::require_equal(updates.shape(), expected, [&] {
    return fmt::format("updates must be {}, but are {}", expected, updates.shape());
  });
  if (count == 0) return scatter_whole(node, data, updates, shape);
  if (expected.empty()) {  // a single element needs a dimension along which it is written
    std::vector<Term> places;
    for (const Term& place : tuple_indices(node, data, indices, 0, expected))
      places.push_back(place.reshape({1}));
    return add_scatter(node, data, updates.reshape({1}), places, combine_of(node));
  }
  add_scatter(node, data, updates, tuple_indices(node, data, indices, 0, expected),
              combine_of(node));
}

/// Writes update[b, .., t, ..] to cache[b, .., write_indices[b] + t, ..].
void tensor_scatter(NodeContext& node) {
  const Term cache(node, node.input(0, "past_cache")), update(node, node.input(1, "update"));
  require_same_rank(node, cache, update, "past_cache and update");
  const Shape from = cache.shape(), shape = update.shape();
  const auto axis = static_cast<std::size_t>(
      node.normalise_axis(node.attr_int("axis", -2), node.rank(cache.value())));
  if (axis == 0) node.invalid("axis 0 is the batch");
  const std::string mode = node.attr_string("mode", "linear");
  if (mode != "linear" && mode != "circular")
    node.invalid("attribute 'mode' must be linear or circular, but is '" + mode + "'");
  std::vector<Term> places;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    Term place = iota(node, shape[d], d, shape.size());
    if (d == axis) {
      if (node.has_input(2)) {
        Shape per_batch(shape.size(), Dim(1));
        per_batch[0] = shape[0];
        place = place + integers(node, 2, "write_indices").cast(DType::kInt64).reshape(per_batch);
      }
      if (mode == "circular") place = place.with("Mod", size_of_dim(node, from[d]));
    } else {
      ir::require_equal(shape[d], from[d], [&] {
        return fmt::format("past_cache {} and update {} differ in dimension {}", from, shape, d);
      });
    }
    places.push_back(place);
  }
  add_scatter(node, cache, update, places, "none", true);
}

/// Reverses the first sequence_lens[b] elements along time.
void reverse_sequence(NodeContext& node) {
  const Term x(node, node.x()), lengths = integers(node, 1, "sequence_lens");
  const Shape shape = x.shape();
  const auto rank = node.rank(x.value());
  const auto time =
      static_cast<std::size_t>(node.normalise_axis(node.attr_int("time_axis", 0), rank));
  const auto batch =
      static_cast<std::size_t>(node.normalise_axis(node.attr_int("batch_axis", 1), rank));
  if (time == batch) node.invalid("time_axis and batch_axis are the same");
  ir::require_equal(lengths.shape(), Shape{shape[batch]}, [&] {
    return fmt::format("sequence_lens must be {}, but are {}", Shape{shape[batch]},
                       lengths.shape());
  });
  Shape per_batch(shape.size(), Dim(1));
  per_batch[batch] = shape[batch];
  const Term length = lengths.cast(DType::kInt64).reshape(per_batch);
  std::vector<Term> places;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const Term here = iota(node, shape[d], d, shape.size());
    places.push_back(d == time ? select(here.with("Less", length), length - here - 1, here) : here);
  }
  node.output(take(x, places).value());
}

/// Sums overlapping windows: the inverse of Unfold.
void col2im(NodeContext& node) {
  const Term x(node, node.x());
  const std::vector<Dim> image = node.sizes(1, "image_shape");
  const Ints block = node.ints(2, "block_shape");
  const std::size_t n = image.size();
  const auto dilations = node.attr_ints("dilations").value_or(Ints(n, 1));
  const auto strides = node.attr_ints("strides").value_or(Ints(n, 1));
  const auto pads = node.attr_ints("pads").value_or(Ints(2 * n, 0));
  if (x.shape().size() != 3 || n == 0 || block.size() != n || dilations.size() != n ||
      strides.size() != n || pads.size() != 2 * n)
    node.invalid(
        "input {}, block_shape, dilations, strides and pads do not fit an image of {} dimensions",
        node.type(x.value()), n);
  const Shape from = x.shape();
  Dim taps = 1, windows = 1;
  Shape apart = {from[0], Dim(0)}, counts;
  for (std::size_t d = 0; d < n; ++d) {
    if (block[d] < 1 || strides[d] < 1 || dilations[d] < 1)
      node.invalid("block_shape, strides and dilations must be at least 1");
    taps = taps * Dim(block[d]);
    const Dim reach = Dim(dilations[d]) * Dim(block[d] - 1) + Dim(1);
    const Dim room = image[d] + Dim(pads[d]) + Dim(pads[n + d]) - reach;
    counts.push_back(ir::floor_div(room, strides[d], node.builder().ranges()) + Dim(1));
    windows = windows * counts.back();
    apart.emplace_back(block[d]);
  }
  const auto channels = ir::divide_exactly(from[1], taps);
  if (!channels || from[2] != windows)
    node.invalid("input {} does not hold {} windows of {} elements", node.type(x.value()), windows,
                 taps);
  apart[1] = *channels;
  apart.insert(apart.end(), counts.begin(), counts.end());

  // A window begins at each pixel: the sum of as many shifted images as there are taps.
  constexpr std::int64_t kMostImages = 64;
  if (std::ranges::all_of(strides, [](std::int64_t s) { return s == 1; }) &&
      taps.value() <= kMostImages) {
    const Term all = x.reshape({from[0], *channels, taps, windows});
    Shape of_tap = {from[0], *channels};
    of_tap.insert(of_tap.end(), counts.begin(), counts.end());
    std::optional<Term> sum;
    for (std::int64_t tap = 0; tap < taps.value(); ++tap) {
      std::vector<Dim> begins(2 + n, Dim(0)), ends(2 + n, Dim(0));
      std::int64_t rest = tap;
      for (std::size_t d = n; d-- > 0; rest /= block[d]) {
        begins[2 + d] = rest % block[d] * dilations[d] - pads[d];
        ends[2 + d] = image[d] - counts[d] - begins[2 + d];
      }
      const ValueId part = slice_one(all, 2, Dim(tap)).reshape(of_tap).value();
      const Term shifted(
          node, node.add("Pad", {part}, {{"begins", begins}, {"ends", ends}, {"fill", 0.0}}));
      const Term wide = shifted.cast(compute_type(x.dtype()));
      sum = sum ? *sum + wide : wide;
    }
    node.output(sum->cast(x.dtype()).value());
    return;
  }

  // Dimensions: [batch, channels, image.., taps..].
  const std::size_t rank = 2 + 2 * n;
  std::vector<Term> places = {iota(node, apart[0], 0, rank), iota(node, apart[1], 1, rank)};
  std::vector<Term> window;
  std::optional<Term> inside;
  for (std::size_t d = 0; d < n; ++d) {
    const Term tap = iota(node, block[d], 2 + n + d, rank);
    places.push_back(tap);
    const Term at = iota(node, image[d], 2 + d, rank) + static_cast<double>(pads[d]) -
                    tap * static_cast<double>(dilations[d]);
    const auto stride = static_cast<double>(strides[d]);
    const Term last = size_of_dim(node, counts[d]) - 1;
    const Term index = at / stride;  // truncates; negative values do not count
    Term holds = at.with("GreaterOrEqual", 0).with("And", index.with("LessOrEqual", last));
    if (strides[d] != 1) holds = holds.with("And", at.with("Mod", stride).with("Equal", 0));
    inside = inside ? inside->with("And", holds) : holds;
    window.push_back(clamp(index, 0, last));
  }
  places.insert(places.end(), window.begin(), window.end());
  const Term spread = take(x.reshape(apart), places);
  Ints axes;
  for (std::size_t d = 0; d < n; ++d) axes.push_back(static_cast<std::int64_t>(2 + n + d));
  node.output(node.add("ReduceSum", {select(*inside, spread, spread.number(0)).value()},
                       {{"axes", axes}, {"keepdims", std::int64_t{0}}}));
}

/// Scatters elements to the positions of a pooling's maxima: indices count all elements of the
/// result.
void max_unpool(NodeContext& node) {
  const Term x(node, node.x()), indices = integers(node, 1, "indices");
  const Shape from = x.shape();
  const auto kernel = node.attr_ints("kernel_shape");
  if (from.size() < 3 || !kernel || kernel->size() + 2 != from.size())
    node.invalid("kernel_shape must have one value for each spatial dimension of {}",
                 node.type(x.value()));
  const std::size_t n = kernel->size();
  const auto strides = node.attr_ints("strides").value_or(Ints(n, 1));
  const auto pads = node.attr_ints("pads").value_or(Ints(2 * n, 0));
  if (strides.size() != n || pads.size() != 2 * n || indices.shape() != from)
    node.invalid("strides, pads or indices do not fit input {}", node.type(x.value()));
  Shape shape = {from[0], from[1]};
  for (std::size_t d = 0; d < n; ++d)
    shape.push_back((from[d + 2] - Dim(1)) * Dim(strides[d]) + Dim((*kernel)[d]) - Dim(pads[d]) -
                    Dim(pads[n + d]));
  const Dim count = ir::element_count(from), total = ir::element_count(shape);
  const ValueId zeros = node.expand(node.constant(x.dtype(), 0), {total});
  ValueId y = node.add(
      "Scatter", {zeros, node.reshape(x.value(), {count}), node.reshape(indices.value(), {count})},
      {{"distinct", std::int64_t{1}}});
  y = node.reshape(y, shape);
  if (node.has_input(2)) {
    const std::vector<Dim> wanted = node.sizes(2, "output_shape");
    if (wanted.size() != shape.size()) node.invalid("output_shape has another rank than the input");
    std::vector<Dim> begins(shape.size(), Dim(0)), ends;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      ends.push_back(wanted[d] - shape[d]);
      const auto least = ir::lower_bound(ends[d], node.builder().ranges());
      if (!least || *least < 0) node.invalid("output_shape {} is smaller than {}", wanted, shape);
    }
    if (wanted != shape)
      y = node.add("Pad", {y}, {{"begins", begins}, {"ends", ends}, {"fill", 0.0}});
  }
  node.output(y);
}

}  // namespace

const OpRows kIndexOps = {
    {"GatherElements", 11, gather_elements, "axis"},
    {"GatherND", 11, gather_nd, "batch_dims:12-"},
    {"GatherND", 1, gather_nd, "", kMicrosoft},
    {"Scatter", 9, scatter_elements, "axis"},
    {"ScatterElements", 11, scatter_elements, "axis reduction:16-"},
    {"ScatterND", 11, scatter_nd, "reduction:16-"},
    {"TensorScatter", 24, tensor_scatter, "axis mode"},
    {"ReverseSequence", 10, reverse_sequence, "batch_axis time_axis"},
    {"Col2Im", 18, col2im, "dilations pads strides"},
    {"MaxUnpool", 9, max_unpool, "kernel_shape pads strides"},
};

}  // namespace sinter::frontend
