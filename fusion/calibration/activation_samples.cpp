// SPDX-License-Identifier: Apache-2.0
#include "fusion/calibration/activation_samples.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include <fmt/format.h>
#include <sinter/error.h>

#include "fusion/calibration/held_out.h"
#include "fusion/calibration/sample_sizes.h"

namespace sinter::fusion {
namespace {

// Of all pieces together: enough to compare smoothings, few enough to multiply by.
constexpr std::size_t kSampledRows = 256;

ValueId widened(GraphBuilder& builder, ValueId value) {
  if (builder.type(value).dtype == DType::kFloat32) return value;
  return builder.add("Cast", {value}, {{"to", DType::kFloat32}});
}

ValueId with_axis_last(GraphBuilder& builder, ValueId value, std::size_t axis) {
  const std::size_t rank = builder.type(value).shape.size();
  if (axis + 1 == rank) return value;
  Ints perm(rank);
  std::iota(perm.begin(), perm.end(), std::int64_t{0});
  std::rotate(perm.begin() + static_cast<std::ptrdiff_t>(axis),
              perm.begin() + static_cast<std::ptrdiff_t>(axis) + 1, perm.end());
  return builder.add("Transpose", {value}, {{"perm", perm}});
}

/// `value` as a matrix [rows, k].
ValueId add_matrix(GraphBuilder& builder, ValueId value, std::size_t axis) {
  value = with_axis_last(builder, widened(builder, value), axis);
  const Shape shape = builder.type(value).shape;
  Dim rows = 1;
  for (std::size_t d = 0; d + 1 < shape.size(); ++d) rows *= shape[d];
  return builder.add("Reshape", {value}, {{"shape", std::vector<Dim>{rows, shape.back()}}});
}

std::int64_t row_count(const GraphBuilder& builder, ValueId matrix, const ir::Bindings& sizes) {
  return builder.type(matrix).shape[0].evaluate(sizes);
}

ValueId add_rows(GraphBuilder& builder, ValueId matrix, std::int64_t first, std::int64_t count) {
  const Dim columns = builder.type(matrix).shape[1];
  return builder.add("Slice", {matrix},
                     {{"starts", std::vector<Dim>{first, 0}},
                      {"steps", Ints{1, 1}},
                      {"shape", std::vector<Dim>{count, columns}}});
}

/// Minimum and maximum of each column, and some of the rows.
void add_extremes_and_rows(GraphBuilder& builder, ValueId matrix, const ir::Bindings& sizes,
                           std::int64_t rows_wanted, std::vector<ValueId>& probes) {
  for (const char* op : {"ReduceMin", "ReduceMax"})
    probes.push_back(builder.add(op, {matrix}, {{"axes", Ints{0}}, {"keepdims", std::int64_t{0}}}));
  const std::int64_t count = row_count(builder, matrix, sizes),
                     taken = std::min(count, rows_wanted);
  std::vector<std::int64_t> indices(static_cast<std::size_t>(taken));
  for (std::int64_t i = 0; i < taken; ++i)
    indices[static_cast<std::size_t>(i)] = (2 * i + 1) * count / (2 * taken);
  const ValueId index = builder.constant(Tensor::from_ints(DType::kInt64, {taken}, indices));
  probes.push_back(builder.add("Gather", {matrix, index}, {{"axis", std::int64_t{0}}}));
}

/// The part of `graph` that computes `values`, with their probes as outputs, in order; `counts`
/// receives the number of probes of each.
Graph probed(const Graph& graph, std::span<const ValueId> values, const AddProbes& add,
             std::vector<std::size_t>& counts) {
  GraphBuilder builder(graph.name());
  for (const auto& [symbol, range] : graph.ranges()) builder.range(symbol, range);
  std::vector<ValueId> mapped(graph.values().size());
  for (const ValueId id : graph.inputs())
    mapped[id.position()] = builder.input(graph.value(id).name, graph.type(id));
  for (std::size_t i = 0; i < mapped.size(); ++i)
    if (const auto& constant = graph.values()[i].constant) mapped[i] = builder.constant(constant);
  for (const Node& node : graph.nodes()) {
    const GraphBuilder::OriginScope scope(builder, node.origins);
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(mapped[input.position()]);
    const auto results = builder.add_multi(node.op->name, inputs, node.attrs, node.body);
    for (std::size_t i = 0; i < results.size(); ++i)
      mapped[node.outputs[i].position()] = results[i];
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto probes = add(builder, i, mapped[values[i].position()]);
    for (std::size_t p = 0; p < probes.size(); ++p)
      builder.output(fmt::format("probe{}_{}", i, p), probes[p]);
    counts.push_back(probes.size());
  }
  return builder.finish();
}

void take_extremes(ColumnRanges& all, std::span<const float> low, std::span<const float> high) {
  all.low.resize(low.size());  // extended by zeros
  all.high.resize(high.size());
  for (std::size_t i = 0; i < low.size(); ++i) {
    all.low[i] = std::min(all.low[i], low[i]);
    all.high[i] = std::max(all.high[i], high[i]);
  }
}

bool is_finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

}  // namespace

ValueId add_sum_of_squares(GraphBuilder& builder, ValueId value) {
  value = widened(builder, value);
  Ints axes(builder.type(value).shape.size());
  std::iota(axes.begin(), axes.end(), std::int64_t{0});
  return builder.add("ReduceSumSquare", {value}, {{"axes", axes}, {"keepdims", std::int64_t{0}}});
}

void for_each_sample(const Graph& graph, const Calibration& calibration,
                     std::span<const ValueId> values, const AddProbes& add, std::string_view stage,
                     const ReadProbes& read, const ProbeInputs& inputs) {
  std::vector<std::size_t> counts;
  const Graph probes = probed(graph, values, add, counts);
  const Calibration::Run run =
      calibration.compile(with_sizes(probes, sample_sizes(graph, calibration)));
  for (std::size_t s = 0; s < calibration.samples.size(); ++s) {
    if (calibration.progress) calibration.progress(stage, s, calibration.samples.size());
    std::vector<Tensor> given = calibration.samples[s];
    if (inputs) std::ranges::move(inputs(s), std::back_inserter(given));
    const std::vector<Tensor> found = run(given);
    std::size_t first = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      read(s, i, std::span(found).subspan(first, counts[i]));
      first += counts[i];
    }
  }
}

ColumnRanges ranges_of(const ActivationSample& sample,
                       const std::function<bool(std::size_t piece)>& is_left_out) {
  ColumnRanges result;
  for (std::size_t p = 0; p < sample.pieces.size(); ++p)
    if (!is_left_out || !is_left_out(p))
      take_extremes(result, sample.pieces[p].ranges.low, sample.pieces[p].ranges.high);
  return result.low.empty() && is_left_out ? ranges_of(sample) : result;
}

std::vector<ValueId> add_pieces(GraphBuilder& builder, ValueId value, std::size_t axis,
                                const ir::Bindings& sizes, const Calibration& calibration) {
  const auto count = static_cast<std::int64_t>(pieces_of_each(calibration));
  if (count == 1) return {value};
  const ValueId matrix = add_matrix(builder, value, axis);
  const std::int64_t rows = row_count(builder, matrix, sizes);
  std::vector<ValueId> pieces;
  for (std::int64_t p = 0; p < count; ++p) {
    const std::int64_t first = rows * p / count, last = rows * (p + 1) / count;
    pieces.push_back(rows < count ? matrix : add_rows(builder, matrix, first, last - first));
  }
  return pieces;
}

std::vector<ActivationSample> sample_activations(const Graph& graph, const Calibration& calibration,
                                                 std::span<const ValueId> values,
                                                 std::span<const std::size_t> axes,
                                                 std::span<const std::string> names) {
  const ir::Bindings sizes = sample_sizes(graph, calibration);
  const std::size_t pieces = pieces_of_each(calibration);
  const std::size_t count = piece_count(calibration), rows_of_each = (kSampledRows - 1) / count + 1;
  const auto add = [&](GraphBuilder& builder, std::size_t i, ValueId value) {
    std::vector<ValueId> probes;
    for (const ValueId piece : add_pieces(builder, value, axes[i], sizes, calibration))
      add_extremes_and_rows(builder, pieces == 1 ? add_matrix(builder, piece, axes[i]) : piece,
                            sizes, static_cast<std::int64_t>(rows_of_each), probes);
    return probes;
  };
  std::vector<ActivationSample> result(values.size());
  const auto read = [&](std::size_t sample, std::size_t i, std::span<const Tensor> found) {
    ActivationSample& own = result[i];
    own.axis = axes[i];
    own.pieces.resize(count);
    for (std::size_t p = 0; p < pieces; ++p) {
      const auto own_probes = found.subspan(p * found.size() / pieces);
      const auto low = own_probes[0].as<float>(), high = own_probes[1].as<float>(),
                 rows = own_probes[2].as<float>();
      if (!is_finite(low) || !is_finite(high) || !is_finite(rows))
        throw Error(ErrorCode::kUsage,
                    fmt::format("layer '{}' reads values that are not finite in sample {} of "
                                "--calibration: leave the sample out, or the layer with --keep",
                                names[i], sample / calibration.parts));
      own.columns = std::ssize(low);
      ActivationPiece& piece = own.pieces[piece_of(calibration, sample, p)];
      take_extremes(piece.ranges, low, high);
      if (piece.rows.size() < rows_of_each * low.size())
        piece.rows.insert(piece.rows.end(), rows.begin(), rows.end());
    }
  };
  for_each_sample(graph, calibration, values, add, "reading samples", read);
  return result;
}

}  // namespace sinter::fusion
