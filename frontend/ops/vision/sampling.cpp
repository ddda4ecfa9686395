// SPDX-License-Identifier: Apache-2.0
// Sampling of images at positions that are data: GridSample and AffineGrid.
#include "frontend/ops/table/op_table.h"
#include "frontend/ops/vision/interpolate.h"

namespace sinter::frontend {
namespace {

enum class Padding { kZeros, kBorder, kReflection };

/// Reflects `x` at `low` and `high` into the range: even multiples of the range run forwards, odd
/// ones backwards.
Term reflect(const Term& x, const Term& low, const Term& high) {
  const Term range = high - low, way = abs(x - low);
  const Term turns = floor(way / range);
  const Term rest = way - turns * range;
  const Term odd = (turns - floor(turns / 2.0) * 2.0).with("Equal", 1);
  return select(odd, high - rest, low + rest);
}

/// Taps for one spatial dimension of `extent` elements, sampled at `x` (in elements).
std::vector<Tap> grid_taps(NodeContext& node, const std::string& mode, Padding padding,
                           bool align_corners, const Dim& extent, Term x) {
  const Term size = size_of_dim(node, extent, x.dtype()), last = size - 1;
  const Term low = x.number(align_corners ? 0 : -0.5), high = align_corners ? last : size - 0.5;
  if (mode == "nearest") x = x.apply("Round");
  const auto outside = [&](const Term& at) {
    return at.with("Less", low).with("Or", at.with("Greater", high));
  };
  // Cubic weights use the unmodified position, and each tap is moved inside separately, as in
  // PyTorch and ONNX Runtime. (ONNX's reference moves the position first.)
  if (mode != "cubic" && padding == Padding::kBorder)
    x = select(outside(x), clamp(x, 0, last), x);
  else if (mode != "cubic" && padding == Padding::kReflection)
    x = select(outside(x), reflect(x, low, high), x);

  const auto tap = [&](Term at, std::optional<Term> weight) -> Tap {
    if (padding == Padding::kReflection) at = select(outside(at), reflect(at, low, high), at);
    std::optional<Term> inside;
    if (padding == Padding::kZeros)
      inside = at.with("GreaterOrEqual", 0).with("And", at.with("LessOrEqual", last));
    return {clamp(at, 0, last).cast(index_type(node, extent)), std::move(weight),
            std::move(inside)};
  };
  if (mode == "nearest") return {tap(x, {})};
  const Term left = floor(x), t = x - left;
  if (mode == "linear") return {tap(left, 1 - t), tap(left + 1, t)};
  const auto weights = cubic_weights(t, -0.75);
  std::vector<Tap> taps;
  for (int k = 0; k < 4; ++k)
    taps.push_back(tap(left + (k - 1.0), weights[static_cast<std::size_t>(k)]));
  return taps;
}

void grid_sample(NodeContext& node) {
  const Term x(node, node.input(0, "X")), grid(node, node.input(1, "grid"));
  const Shape from = x.shape(), at = grid.shape();
  const std::size_t rank = from.size();
  if (rank < 3 || at.size() != rank || !is_float(grid.dtype()) || at[0] != from[0] ||
      at.back() != Dim(static_cast<std::int64_t>(rank) - 2))
    node.invalid("grid {} does not hold positions in input {}", node.type(grid.value()),
                 node.type(x.value()));
  std::string mode = node.attr_string("mode", node.opset() < 20 ? "bilinear" : "linear");
  if (mode == "bilinear") mode = "linear";
  if (mode == "bicubic") mode = "cubic";
  if (mode != "nearest" && mode != "linear" && mode != "cubic")
    node.invalid("attribute 'mode' must be nearest, linear or cubic, but is '" + mode + "'");
  const std::string name = node.attr_string("padding_mode", "zeros");
  const Padding padding = name == "border"       ? Padding::kBorder
                          : name == "reflection" ? Padding::kReflection
                                                 : Padding::kZeros;
  if (padding == Padding::kZeros && name != "zeros")
    node.invalid("attribute 'padding_mode' must be zeros, border or reflection, but is '" + name +
                 "'");
  if (mode == "cubic" && rank != 4)
    node.unsupported("mode cubic in {} dimensions; 2 are supported", rank - 2);
  const bool align_corners = node.attr_int("align_corners", 0) != 0;

  const DType type = is_float(x.dtype()) ? x.dtype() : DType::kFloat32;
  std::vector<std::vector<Tap>> taps = {{{iota(node, from[0], 0, rank), {}, {}}},
                                        {{iota(node, from[1], 1, rank), {}, {}}}};
  for (std::size_t d = 2; d < rank; ++d) {
    // The grid has the coordinates in reverse order of the dimensions, from -1 to 1.
    Shape per_position(at.begin(), at.end() - 1);
    per_position.insert(per_position.begin() + 1, Dim(1));
    const Term n = slice_one(grid, rank - 1, static_cast<std::int64_t>(rank - 1 - d))
                       .reshape(per_position)
                       .cast(grid.dtype() == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32);
    const Term size = size_of_dim(node, from[d], n.dtype());
    const Term position = align_corners ? (n + 1) / 2.0 * (size - 1) : ((n + 1) * size - 1) / 2.0;
    taps.push_back(grid_taps(node, mode, padding, align_corners, from[d], position));
  }
  node.output(interpolate(x, taps, type).cast(x.dtype()).value());
}

/// Positions of an image's elements from -1 to 1, transformed by an affine map per batch element.
void affine_grid(NodeContext& node) {
  const Term theta(node, node.input(0, "theta"));
  const std::vector<Dim> size = node.sizes(1, "size");
  const std::size_t n = size.size() - 2;
  if (size.size() < 4 || size.size() > 5 ||
      theta.shape() !=
          Shape{size[0], Dim(static_cast<std::int64_t>(n)), Dim(static_cast<std::int64_t>(n) + 1)})
    node.invalid("theta {} does not map an image of {}", node.type(theta.value()), size);
  const bool align_corners = node.attr_int("align_corners", 0) != 0;
  const std::size_t rank = n + 2;  // batch, spatial dimensions, coordinates
  const auto column = [&](std::size_t i) {
    Shape shape(rank, Dim(1));
    shape[0] = size[0];
    shape.back() = static_cast<std::int64_t>(n);
    return slice_one(theta, 2, static_cast<std::int64_t>(i)).reshape(shape);
  };
  std::optional<Term> sum;
  for (std::size_t i = 0; i < n; ++i) {  // x belongs to the last spatial dimension
    const Dim& extent = size[size.size() - 1 - i];
    const Term at = iota(node, extent, n - i, rank, DType::kFloat64);
    const Term count = size_of_dim(node, extent, DType::kFloat64);
    const Term position = align_corners ? at * 2.0 / (count - 1) - 1 : (at * 2.0 + 1) / count - 1;
    const Term part = position.cast(theta.dtype()) * column(i);
    sum = sum ? *sum + part : part;
  }
  node.output((*sum + column(n)).value());
}

}  // namespace

const OpRows kSamplingOps = {
    {"GridSample", 16, grid_sample, "align_corners mode padding_mode"},
    {"GridSample", 1, grid_sample, "align_corners mode padding_mode", kMicrosoft},
    {"AffineGrid", 20, affine_grid, "align_corners"},
};

}  // namespace sinter::frontend
