// SPDX-License-Identifier: Apache-2.0
// RoiAlign: regions of an image, resampled to a grid of bins.
#include "frontend/ops/table/op_table.h"
#include "frontend/ops/vision/interpolate.h"

namespace sinter::frontend {
namespace {

/// Begins of the regions and sizes of their bins, along y and x: [regions] in elements.
struct Regions {
  std::vector<Term> begin, bin;
  std::vector<Dim> pooled;  // number of bins
};

Regions read_regions(NodeContext& node, const Term& rois) {
  const bool half_pixel = node.opset() >= 16 && node.attr_string("coordinate_transformation_mode",
                                                                 "half_pixel") == "half_pixel";
  const double scale = node.attr_float("spatial_scale", 1);
  Regions all;
  all.pooled = {node.attr_int("output_height", 1), node.attr_int("output_width", 1)};
  for (const Dim& count : all.pooled)
    if (count.value() < 1) node.invalid("its output has no bins");
  for (std::size_t d = 0; d < 2; ++d) {
    const auto edge = [&](std::int64_t i) {
      return slice_one(rois, 1, i).cast(DType::kFloat32) * scale - (half_pixel ? 0.5 : 0.0);
    };
    const Term begin = edge(d == 0 ? 1 : 0);
    Term length = edge(d == 0 ? 3 : 2) - begin;
    if (!half_pixel) length = length.with("Max", 1);  // gives inverted regions a small size
    all.begin.push_back(begin.reshape({rois.shape()[0]}));
    all.bin.push_back(
        (length / static_cast<double>(all.pooled[d].value())).reshape({rois.shape()[0]}));
  }
  return all;
}

/// The weight of each of `size` elements in the mean of a bin's samples along a dimension,
/// [regions, bins, size]. A bin has n = ceil(its size) samples. These are half an element to one
/// apart, or there is one; so only the few samples next to an element count, starting with the
/// first at or after the previous element.
Term sample_weights(NodeContext& node, const Regions& all, std::size_t d, const Dim& size) {
  const Dim regions = all.bin[d].shape()[0];
  const auto each = [&](const Term& value) { return value.reshape({regions, 1, 1, 1}); };
  const Term bin = each(all.bin[d]), n = ceil(bin), count = n.with("Max", 1), step = bin / count;
  const Term origin = each(all.begin[d]) + iota(node, all.pooled[d], 1, 4, DType::kFloat32) * bin;
  const Term element = iota(node, size, 2, 4, DType::kFloat32);
  constexpr std::int64_t kNear = 6;  // one for rounding, and from -1 to 1 in steps of a half
  const Term first = clamp(ceil((element - 1 - origin) / step - 0.5) - 1, 0, count - 1);
  const Term sample = first + iota(node, kNear, 3, 4, DType::kFloat32);
  const Term at = origin + (sample + 0.5) * step, extent = size_of_dim(node, size, DType::kFloat32);
  const Term place = clamp(at, 0, extent - 1);
  const Term weight = (1 - abs(place - element)).with("Max", 0);
  const Term counts = sample.with("Less", n)
                          .with("And", at.with("GreaterOrEqual", -1))
                          .with("And", at.with("LessOrEqual", extent));
  return reduce("ReduceSum", select(counts, weight, weight.number(0)), 3) /
         count.reshape({regions, 1, 1});
}

/// Means for a number of samples that depends on the region: matmuls with the weights of rows and
/// columns, which allow any number of samples.
Term average_of_regions(NodeContext& node, const Term& x, const Term& batch, const Regions& all) {
  const Shape shape = x.shape();
  const Dim regions = batch.shape()[0], images = shape[0];
  const Term image = batch.cast(DType::kInt64).reshape({regions, 1, 1, 1});
  const Term own = image.with("Equal", iota(node, images, 2, 4)).cast(DType::kFloat32);
  const Term rows =
      sample_weights(node, all, 0, shape[2]).reshape({regions, all.pooled[0], 1, shape[2]});
  const Term by_row = (rows * own).reshape({regions * all.pooled[0], images * shape[2]});
  const Term columns = sample_weights(node, all, 1, shape[3]);
  const auto turned = [&](const Term& term, Ints perm) {
    return Term(node, node.transpose(term.value(), std::move(perm)));
  };
  const Term wide = x.cast(DType::kFloat32);
  const Term by_column =
      turned(wide, {1, 3, 0, 2}).reshape({shape[1], shape[3], images * shape[2]});
  const Term partial = by_column.with("MatMul", turned(by_row, {1, 0}))
                           .reshape({shape[1], shape[3], regions, all.pooled[0]});
  const Term weights = turned(columns, {0, 2, 1}).reshape({regions, 1, shape[3], all.pooled[1]});
  return turned(partial, {2, 0, 3, 1}).with("MatMul", weights).cast(x.dtype());
}

/// Averages (or maxima) of bilinear samples in a grid of bins for each region of interest.
void roi_align(NodeContext& node) {
  const Term x(node, node.input(0, "X")), rois(node, node.input(1, "rois"));
  const Term batch(node, node.input(2, "batch_indices"));
  const Shape from = x.shape();
  if (from.size() != 4 || rois.shape().size() != 2 || rois.shape()[1] != Dim(4) ||
      batch.shape().size() != 1 || !is_float(x.dtype()) || !is_integer(batch.dtype()))
    node.invalid("input {}, rois {} and batch_indices {} do not fit", node.type(x.value()),
                 node.type(rois.value()), node.type(batch.value()));
  const std::string mode = node.attr_string("mode", "avg");
  if (mode != "avg" && mode != "max")
    node.invalid("attribute 'mode' must be avg or max, but is '" + mode + "'");
  const std::int64_t samples = node.attr_int("sampling_ratio", 0);
  const Regions all = read_regions(node, rois);
  if (samples <= 0) {
    if (mode == "max")
      node.unsupported(
          "sampling_ratio 0 makes the number of samples depend on the regions; export with a fixed "
          "number, as 2");
    return node.output(average_of_regions(node, x, batch, all).value());
  }

  // Dimensions: [regions, channels, bins y, bins x, samples y, samples x].
  constexpr std::size_t kRank = 6;
  const Dim regions = rois.shape()[0];
  const auto per_region = [&](const Term& value) {
    return value.reshape({regions, 1, 1, 1, 1, 1});
  };
  std::vector<std::vector<Tap>> taps = {{{per_region(batch.cast(DType::kInt64)), {}, {}}},
                                        {{iota(node, from[1], 1, kRank), {}, {}}}};
  std::optional<Term> outside;
  for (std::size_t d = 0; d < 2; ++d) {
    const Term begin = per_region(all.begin[d]), bin = per_region(all.bin[d]);
    const Term i = iota(node, all.pooled[d], 2 + d, kRank, DType::kFloat32);
    const Term s = iota(node, samples, 4 + d, kRank, DType::kFloat32);
    const Term at = begin + i * bin + (s + 0.5) * bin / static_cast<double>(samples);
    const Term size = size_of_dim(node, from[2 + d], DType::kFloat32), last = size - 1;
    const Term off = at.with("Less", -1).with("Or", at.with("Greater", size));
    outside = outside ? outside->with("Or", off) : off;
    const Term inner = clamp(at, 0, last), left = floor(inner), t = inner - left;
    const auto index = [&](const Term& place) {
      return clamp(place, 0, last).cast(index_type(node, from[d + 2]));
    };
    taps.push_back({{index(left), 1 - t, {}}, {index(left + 1), t, {}}});
  }
  const DType type = x.dtype();
  std::optional<Term> value;
  if (mode == "avg") {
    value = interpolate(x, taps, type);
  } else {
    // ONNX takes the maximum of the four weighted neighbours, not of their sum.
    for (const Tap& y : taps[2])
      for (const Tap& column : taps[3]) {
        const Term part = take(x, {taps[0][0].index, taps[1][0].index, y.index, column.index}) *
                          y.weight->cast(type) * column.weight->cast(type);
        value = value ? value->with("Max", part) : part;
      }
  }
  value = select(*outside, value->number(0), *value);
  node.output(node.add(mode == "avg" ? "ReduceMean" : "ReduceMax", {value->value()},
                       {{"axes", Ints{4, 5}}, {"keepdims", std::int64_t{0}}}));
}

/// Each region's bins along one dimension: elements [low, high), [regions, bins, 1].
struct Bins {
  Term low, high;
  Term empty() const { return high.with("LessOrEqual", low); }
  /// Whether an element is in a bin, [regions, bins, extent].
  Term members(NodeContext& node, const Dim& extent) const {
    const Term at = iota(node, extent, 2, 3, DType::kFloat32);
    return at.with("GreaterOrEqual", low).with("And", at.with("Less", high));
  }
};

/// As ONNX Runtime: edges are rounded away from zero, a region has at least one element, bins are
/// [floor, ceil) of equal parts.
Bins find_bins(NodeContext& node, const Term& begin, const Term& end, std::int64_t bins,
               const Dim& extent) {
  const Dim regions = begin.shape()[0];
  const auto rounded = [&](const Term& x) {
    return (x.apply("Sign") * floor(abs(x) + 0.5)).reshape({regions, 1, 1});
  };
  const Term first = rounded(begin), size = (rounded(end) - first + 1).with("Max", 1);
  // In float64, then rounded: the float32 quotient to the last bit, which decides where bins end. A
  // float32 division by one number may multiply by its reciprocal.
  const Term each = (size.cast(DType::kFloat64) / static_cast<double>(bins)).cast(DType::kFloat32);
  const Term bin = iota(node, bins, 1, 3, DType::kFloat32);
  const Term last = size_of_dim(node, extent, DType::kFloat32);
  return {clamp(floor(bin * each) + first, 0, last),
          clamp(ceil((bin + 1) * each) + first, 0, last)};
}

/// The maxima of bins' rows, [regions, C, bins, W], of images [N, C, rows, W]. Maxima of 1, 2, 4,
/// .. rows from each on are computed once for all regions; two of them, which may overlap, are a
/// bin's.
Term maxima_of_rows(NodeContext& node, const Term& x, const Term& image, const Bins& bins,
                    std::int64_t rows) {
  const Shape from = x.shape();
  const Dim regions = image.shape()[0], count = bins.low.shape()[1];
  const auto each = [&](const Term& value) { return value.reshape({regions, 1, count, 1}); };
  const Term length = each(bins.high - bins.low);
  Term now = x, power = length * 0, width = power + 1;
  std::vector<ValueId> powers;
  for (std::int64_t n = 1;; n *= 2) {
    powers.push_back(now.reshape({1, from[0], from[1], from[2], from[3]}).value());
    if (2 * n > rows) break;
    const Term later(node, node.add("Pad", {now.value()},
                                    {{"begins", Shape{0, 0, Dim(-n), 0}},
                                     {"ends", Shape{0, 0, Dim(n), 0}},
                                     {"fill", -kInfinity}}));
    now = now.with("Max", later);
    const Term fits =
        length.with("GreaterOrEqual", static_cast<double>(2 * n)).cast(DType::kFloat32);
    power = power + fits;
    width = width + fits * static_cast<double>(n);
  }
  const Term all(node, node.concat(powers, 0));
  const auto index = [&](const Term& row) {
    return clamp(row, 0, row.number(static_cast<double>(rows - 1))).cast(DType::kInt64);
  };
  const auto maxima_from = [&](const Term& row) {
    return take(all, {power.cast(DType::kInt64), image.reshape({regions, 1, 1, 1}),
                      iota(node, from[1], 1, 4), index(row), iota(node, from[3], 3, 4)});
  };
  return maxima_from(each(bins.low)).with("Max", maxima_from(each(bins.high) - width));
}

/// The maximum of each bin of each region (image, x1, y1, x2, y2); 0 of an empty bin.
void max_roi_pool(NodeContext& node) {
  const Term x(node, node.input(0, "X")), rois(node, node.input(1, "rois"));
  const Shape from = x.shape();
  const auto pooled = node.attr_ints("pooled_shape");
  if (from.size() != 4 || rois.shape().size() != 2 || rois.shape()[1] != Dim(5))
    node.invalid("input {} and rois {} must be [N, C, H, W] and [regions, 5]", node.type(x.value()),
                 node.type(rois.value()));
  if (!pooled || pooled->size() != 2 || (*pooled)[0] < 1 || (*pooled)[1] < 1)
    node.invalid("attribute 'pooled_shape' must be two sizes");
  const Dim regions = rois.shape()[0];
  const double scale = node.attr_float("spatial_scale", 1);
  const auto column = [&](std::int64_t i) {
    return slice_one(rois, 1, i).cast(DType::kFloat32).reshape({regions});
  };
  const Term image = column(0).cast(DType::kInt64);
  const Bins of_rows = find_bins(node, column(2) * scale, column(4) * scale, (*pooled)[0], from[2]);
  const Bins of_columns =
      find_bins(node, column(1) * scale, column(3) * scale, (*pooled)[1], from[3]);
  // One dimension after the other: [regions, C, bins, H, W], then [regions, C, bins, bins, W].
  const Dim high = (*pooled)[0], wide = (*pooled)[1];
  const auto largest = [&](const Term& values, const Term& is_in, std::size_t axis) {
    return reduce("ReduceMax", select(is_in, values, values.number(-kInfinity)), axis);
  };
  const auto masked_rows = [&] {
    const Term own(node,
                   node.add("Gather", {x.value(), image.value()}, {{"axis", std::int64_t{0}}}));
    return largest(own.reshape({regions, from[1], 1, from[2], from[3]}),
                   of_rows.members(node, from[2]).reshape({regions, 1, high, from[2], 1}), 3);
  };
  const Term by_row = from[2].is_constant() && from[2].value() > 0
                          ? maxima_of_rows(node, x, image, of_rows, from[2].value())
                          : masked_rows();
  const Term value =
      largest(by_row.reshape({regions, from[1], high, 1, from[3]}),
              of_columns.members(node, from[3]).reshape({regions, 1, 1, wide, from[3]}), 4);
  const Term is_empty = of_rows.empty()
                            .reshape({regions, 1, high, 1})
                            .with("Or", of_columns.empty().reshape({regions, 1, 1, wide}));
  node.output(select(is_empty, value.number(0), value).value());
}

}  // namespace

const OpRows kRoiAlignOps = {
    {"MaxRoiPool", 1, max_roi_pool, "pooled_shape spatial_scale"},
    {"RoiAlign", 10, roi_align,
     "coordinate_transformation_mode:16- mode output_height output_width sampling_ratio "
     "spatial_scale"},
};

}  // namespace sinter::frontend
