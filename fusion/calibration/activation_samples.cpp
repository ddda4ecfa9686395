#include "fusion/calibration/activation_samples.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include <fmt/format.h>
#include <sinter/error.h>

#include "fusion/narrow_dims.h"
#include "ir/reference/evaluate.h"

namespace sinter::fusion {
namespace {

// Of all samples together: enough to tell one scale from another, few enough to multiply by.
constexpr std::int64_t kSampledRows = 128;

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

/// The least and the greatest of each column, and some of the rows.
std::vector<ValueId> add_extremes_and_rows(GraphBuilder& builder, ValueId value, std::size_t axis,
                                           const ir::Bindings& sizes, std::int64_t rows_wanted) {
  value = with_axis_last(builder, widened(builder, value), axis);
  const Shape shape = builder.type(value).shape;
  Ints axes(shape.size() - 1);
  std::iota(axes.begin(), axes.end(), std::int64_t{0});
  std::vector<ValueId> probes;
  for (const char* op : {"ReduceMin", "ReduceMax"})
    probes.push_back(builder.add(op, {value}, {{"axes", axes}, {"keepdims", std::int64_t{0}}}));
  Dim rows = 1;
  for (std::size_t d = 0; d + 1 < shape.size(); ++d) rows *= shape[d];
  const std::int64_t count = rows.evaluate(sizes), taken = std::min(count, rows_wanted);
  std::vector<std::int64_t> places(static_cast<std::size_t>(taken));
  for (std::int64_t i = 0; i < taken; ++i)
    places[static_cast<std::size_t>(i)] = (2 * i + 1) * count / (2 * taken);
  const ValueId matrix =
      builder.add("Reshape", {value}, {{"shape", std::vector<Dim>{rows, shape.back()}}});
  const ValueId index = builder.constant(Tensor::from_ints(DType::kInt64, {taken}, places));
  probes.push_back(builder.add("Gather", {matrix, index}, {{"axis", std::int64_t{0}}}));
  return probes;
}

/// What makes `values`, with their probes as its outputs, in order; `counts` are how many each has.
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

void take_extremes(std::vector<float>& all, std::span<const float> own, bool greatest) {
  all.resize(own.size());  // zeros
  for (std::size_t i = 0; i < own.size(); ++i)
    all[i] = greatest ? std::max(all[i], own[i]) : std::min(all[i], own[i]);
}

bool is_finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

}  // namespace

ir::Bindings sample_sizes(const Graph& graph, const Calibration& calibration) {
  const auto& samples = calibration.samples;
  if (samples.empty()) throw Error(ErrorCode::kUsage, "there are no samples to calibrate with");
  for (const auto& sample : samples)
    for (std::size_t i = 0; i < graph.inputs().size(); ++i)
      if (sample.size() != graph.inputs().size() || sample[i].type() != samples[0][i].type())
        throw Error(ErrorCode::kUsage,
                    fmt::format("samples to calibrate with differ in the shape of '{}'",
                                graph.value(graph.inputs()[i]).name));
  return ir::bind_symbols(graph, samples[0]);
}

Graph with_sizes(const Graph& graph, const ir::Bindings& sizes) {
  std::map<std::string, Range> ranges;
  for (const auto& [symbol, size] : sizes)
    if (graph.ranges().contains(symbol)) ranges[symbol] = Range{size, size, nullptr};
  return narrow_dims(graph, ranges);
}

ValueId add_sum_of_squares(GraphBuilder& builder, ValueId value) {
  value = widened(builder, value);
  Ints axes(builder.type(value).shape.size());
  std::iota(axes.begin(), axes.end(), std::int64_t{0});
  return builder.add("ReduceSumSquare", {value}, {{"axes", axes}, {"keepdims", std::int64_t{0}}});
}

void for_each_sample(const Graph& graph, const Calibration& calibration,
                     std::span<const ValueId> values, const AddProbes& add, std::string_view stage,
                     const ReadProbes& read) {
  std::vector<std::size_t> counts;
  const Graph probes = probed(graph, values, add, counts);
  const Calibration::Run run =
      calibration.compile(with_sizes(probes, sample_sizes(graph, calibration)));
  for (std::size_t s = 0; s < calibration.samples.size(); ++s) {
    if (calibration.progress) calibration.progress(stage, s, calibration.samples.size());
    const std::vector<Tensor> found = run(calibration.samples[s]);
    std::size_t first = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      read(s, i, std::span(found).subspan(first, counts[i]));
      first += counts[i];
    }
  }
}

std::vector<ActivationSample> sample_activations(const Graph& graph, const Calibration& calibration,
                                                 std::span<const ValueId> values,
                                                 std::span<const std::size_t> axes,
                                                 std::span<const std::string> names) {
  const ir::Bindings sizes = sample_sizes(graph, calibration);
  const auto count = static_cast<std::int64_t>(calibration.samples.size());
  const std::int64_t rows_of_each = (kSampledRows - 1) / count + 1;
  const auto add = [&](GraphBuilder& builder, std::size_t i, ValueId value) {
    return add_extremes_and_rows(builder, value, axes[i], sizes, rows_of_each);
  };
  std::vector<ActivationSample> result(values.size());
  const auto read = [&](std::size_t sample, std::size_t i, std::span<const Tensor> found) {
    const auto low = found[0].as<float>(), high = found[1].as<float>(), rows = found[2].as<float>();
    if (!is_finite(low) || !is_finite(high) || !is_finite(rows))
      throw Error(ErrorCode::kUsage,
                  fmt::format("layer '{}' reads values that are not finite in sample {} of "
                              "--calibration: leave the sample out, or the layer with --keep",
                              names[i], sample));
    take_extremes(result[i].low, low, false);
    take_extremes(result[i].high, high, true);
    result[i].columns = std::ssize(low);
    result[i].axis = axes[i];
    result[i].rows.insert(result[i].rows.end(), rows.begin(), rows.end());
  };
  for_each_sample(graph, calibration, values, add, "reading samples", read);
  return result;
}

}  // namespace sinter::fusion
