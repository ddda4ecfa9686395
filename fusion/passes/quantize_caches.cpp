// SPDX-License-Identifier: Apache-2.0
// Caches of keys and values in 8-bit rows with a scale each: half the bytes of 16-bit floats. New
// rows are rounded when stored; readers get dequantized rows. A cache "key" has its scales in a
// second state, "key.scales".
#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include <fmt/format.h>
#include <sinter/error.h>

#include "fusion/passes/passes.h"
#include "fusion/patterns/caches.h"
#include "fusion/regions/constant_values.h"
#include "fusion/regions/cost.h"
#include "fusion/regions/rebuild.h"
#include "fusion/scales/choice/key_means.h"
#include "ir/affine.h"
#include "ir/reference/evaluate.h"
#include "ir/reference/kernels.h"
#include "ir/scaled_rows.h"

namespace sinter::fusion {
namespace {

using ir::ScaledRows;

constexpr const char* kScalesSuffix = ".scales";

/// Relative error of rows of `width` normal deviates with a fixed seed.
double rounding_error(std::int64_t width, DType type) {
  constexpr std::int64_t kRows = 64;
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> exact(static_cast<std::size_t>(kRows * width));
  for (float& x : exact) x = normal(random);
  const Tensor rows = Tensor::of(DType::kFloat32, {kRows, width}, exact);
  GraphBuilder builder("rows");
  const ValueId x = builder.input("x", {DType::kFloat32, {Dim(kRows), Dim(width)}});
  builder.output("y", ir::add_dequantized_rows(builder, ir::add_scaled_rows(builder, x, type),
                                               DType::kFloat32));
  const std::vector<Tensor> given{rows};
  const std::vector<double> rounded = ir::evaluate(builder.finish(), given).front().to_doubles();
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double x = static_cast<double>(exact[i]);
    difference += (x - rounded[i]) * (x - rounded[i]);
    size += x * x;
  }
  return std::sqrt(difference / size);
}

class CacheQuantizer {
 public:
  CacheQuantizer(const Graph& graph, Context& context)
      : old_(graph),
        context_(context),
        type_(*context.states.cache_type),
        builder_(graph.name()),
        mapped_(graph.values().size()) {}

  Graph run() {
    for (const ir::State& state : old_.states()) find_cache(state);
    if (caches_.empty())
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("--cache-precision: the model has no cache that it changes in place "
                              "(its states: {}); export it with caches of a fixed length, or name "
                              "them by --state INPUT=OUTPUT",
                              names_of_states()));
    find_means();
    for (const auto& [symbol, range] : old_.ranges()) builder_.range(symbol, range);
    add_inputs();
    for (std::size_t i = 0; i < old_.values().size(); ++i)
      if (const Value& value = old_.values()[i]; value.constant)
        mapped_[i] = builder_.constant(value.constant, value.name);
    for (const Node& node : old_.nodes()) add(node);
    add_outputs();
    return builder_.finish();
  }

 private:
  struct Cache {
    ir::State state;
    ValueId input, output;
    std::string name;
  };

  [[noreturn]] void refuse(const std::string& cache, const std::string& why) const {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("--cache-precision: '{}' cannot be stored in rows of {}: {}", cache,
                            to_string(type_), why));
  }

  std::string names_of_states() const {
    std::string text;
    for (const ir::State& state : old_.states())
      text += fmt::format("{}'{}'", text.empty() ? "" : ", ",
                          old_.value(old_.inputs()[static_cast<std::size_t>(state.input)]).name);
    return text.empty() ? "none" : text;
  }

  /// Adds `state` if it is a cache; refuses one without rows to scale.
  void find_cache(const ir::State& state) {
    const ValueId input = old_.inputs()[static_cast<std::size_t>(state.input)];
    const ValueId output = old_.outputs()[static_cast<std::size_t>(state.output)];
    const std::string& name = old_.value(input).name;
    if (windowed_cache(old_, output) == input)
      refuse(name, "it is a window of the last rows, which moves, and is not changed in place");
    const auto history = cache_history(old_, output);
    if (!history || history->input != input) return;
    const TensorType& type = old_.type(input);
    if (!is_arithmetic_float(type.dtype))
      refuse(name, fmt::format("its elements are {}", to_string(type.dtype)));
    if (type.shape.size() < 2 || !type.shape.back().is_constant())
      refuse(name,
             fmt::format("its shape {} has no rows of a known length", ir::to_string(type.shape)));
    ValueId data = input;
    for (auto id = history->nodes.rbegin(); id != history->nodes.rend(); ++id) {
      const Node& node = old_.node(*id);
      if (node.inputs[0] != data) refuse(name, "it is changed on more than one way");
      if (const std::string why = no_rows(node, type.shape.back()); !why.empty())
        refuse(name, fmt::format("'{}' {}", describe(node), why));
      chain_.insert(*id);
      data = node.outputs[0];
    }
    caches_.push_back({state, input, output, name});
    if (context_.weights.calibration != nullptr && are_keys(old_, input, history->nodes))
      find_updates(*history);
  }

  /// Finds key rows to store minus their channel's mean: those stored by a single Scatter at
  /// indices of one dimension.
  void find_updates(const CacheHistory& history) {
    const Node* scatter = nullptr;
    for (const NodeId id : history.nodes) {
      const Node& node = old_.node(id);
      if (node.op->scatter() == nullptr || scatter != nullptr) return;
      scatter = &node;
    }
    const Shape& updates = old_.type(scatter->inputs[1]).shape;
    Ranges ranges = old_.ranges();
    const std::vector<Dim> index = ir::index_symbols(updates, ranges);
    std::vector<std::int64_t> reduced;
    int moved = 0;
    for (std::size_t d = 0; d + 1 < updates.size(); ++d) {
      const bool stays =
          updates[d] == Dim(1) || number_at(scatter->inputs[2 + d], index, ranges) == index[d];
      if (!stays) ++moved;
      if (!stays || !updates[d].is_constant()) reduced.push_back(static_cast<std::int64_t>(d));
    }
    if (moved != 1) return;
    updates_.push_back(scatter->inputs[1]);
    reduced_.push_back(std::move(reduced));
  }

  void find_means() {
    if (updates_.empty()) return;
    const std::vector<Tensor> means =
        means_of_rows(old_, *context_.weights.calibration, updates_, reduced_);
    for (std::size_t i = 0; i < means.size(); ++i) means_.emplace(updates_[i], means[i]);
    context_.precision_notes.push_back(
        fmt::format("--cache-precision: keys of {} caches are stored less their channels' means on "
                    "the samples, which changes no weight of attention",
                    means_.size()));
  }

  std::optional<Tensor> mean_of(const Cache& cache) const {
    const auto mean = means_.find(old_.producer(cache.output)->inputs[1]);
    return mean == means_.end() ? std::nullopt : std::optional(mean->second);
  }

  /// `rows` minus their mean, if they are keys whose mean is known.
  ValueId centred(ValueId updates, ValueId rows) {
    const auto mean = means_.find(updates);
    if (mean == means_.end()) return rows;
    const DType type = builder_.type(rows).dtype;
    return builder_.add("Sub",
                        {rows, builder_.constant(ir::reference::convert(mean->second, type))});
  }

  /// Why `node` does not keep rows of `width` elements whole; empty if it does.
  std::string no_rows(const Node& node, const Dim& width) const {
    const Shape& shape = old_.type(node.outputs[0]).shape;
    const std::size_t last = shape.size() - 1;
    if (shape.back() != width) return "cuts or joins rows";
    if (node.op->name == "Transpose") {
      const auto& perm = node.attrs.get_ints("perm");
      return perm.back() == static_cast<std::int64_t>(perm.size()) - 1 ? "" : "moves columns";
    }
    if (node.op->scatter() == nullptr) return "";
    const Shape& updates = old_.type(node.inputs[1]).shape;
    Ranges ranges = old_.ranges();
    const std::vector<Dim> index = ir::index_symbols(updates, ranges);
    if (updates.size() != shape.size() || updates.back() != width ||
        number_at(node.inputs[2 + last], index, ranges) != index.back())
      return "puts parts of rows into it";
    for (std::size_t d = 0; d < last; ++d)
      if (!is_same_in_row(node.inputs[2 + d], index, ranges))
        return "puts elements of one row at places of their own";
    return "";
  }

  /// The value at `index` of an index tensor that broadcasts to the updates.
  std::optional<Dim> number_at(ValueId value, const std::vector<Dim>& index,
                               const Ranges& ranges) const {
    return ir::index_of_value(old_, value, own_index(value, index), ranges);
  }
  std::vector<Dim> own_index(ValueId value, const std::vector<Dim>& index) const {
    const Shape& shape = old_.type(value).shape;
    std::vector<Dim> own(index.end() - static_cast<std::ptrdiff_t>(shape.size()), index.end());
    for (std::size_t d = 0; d < shape.size(); ++d)
      if (shape[d] == Dim(1)) own[d] = Dim(0);
    return own;
  }
  /// Whether the index is the same for all elements of an update's row.
  bool is_same_in_row(ValueId value, const std::vector<Dim>& index, const Ranges& ranges) const {
    const Shape& shape = old_.type(value).shape;
    if (shape.empty() || shape.back() == Dim(1)) return true;
    const auto traced = ir::trace_to_source(old_, value, own_index(value, index), ranges);
    const std::string column = ir::index_symbol(static_cast<int>(index.size()) - 1);
    return traced && std::ranges::all_of(traced->index, [&](const Dim& dim) {
             const std::vector<std::string> symbols = dim.symbols();
             return std::ranges::find(symbols, column) == symbols.end();
           });
  }

  void add_inputs() {
    for (const ValueId input : old_.inputs()) {
      TensorType type = old_.type(input);
      const bool is_cache =
          std::ranges::any_of(caches_, [&](const Cache& cache) { return cache.input == input; });
      if (is_cache) type.dtype = type_;
      const ValueId made = builder_.input(old_.value(input).name, type);
      (is_cache ? narrow_[input].values : mapped_[input.position()]) = made;
    }
    for (const Cache& cache : caches_) {
      Shape shape = old_.type(cache.input).shape;
      shape.back() = 1;
      narrow_[cache.input].scales =
          builder_.input(cache.name + kScalesSuffix, {ir::kRowScaleType, std::move(shape)});
    }
  }

  void add(const Node& node) {
    const GraphBuilder::OriginScope scope(builder_, node.origins);
    const NodeId id = old_.value(node.outputs[0]).producer;
    if (chain_.contains(id)) {
      const ScaledRows rows = changed(node, narrow_.at(node.inputs[0]));
      narrow_[node.outputs[0]] = rows;
      builder_.name(rows.values, old_.value(node.outputs[0]).name);
      return;
    }
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(wide(input));
    const auto made = builder_.add_multi(node.op->name, std::move(inputs), node.attrs, node.body);
    for (std::size_t i = 0; i < made.size(); ++i) {
      mapped_[node.outputs[i].position()] = made[i];
      builder_.name(made[i], old_.value(node.outputs[i]).name);
    }
  }

  /// Applies a node of a cache's path through the model to rows and to their scales.
  ScaledRows changed(const Node& node, const ScaledRows& rows) {
    if (node.op->name == "Transpose")
      return {builder_.add("Transpose", {rows.values}, node.attrs),
              builder_.add("Transpose", {rows.scales}, node.attrs)};
    if (node.op->name == "Reshape") {
      Shape shape = old_.type(node.outputs[0]).shape;
      const ValueId values = builder_.add("Reshape", {rows.values}, {{"shape", shape}});
      shape.back() = 1;
      return {values, builder_.add("Reshape", {rows.scales}, {{"shape", shape}})};
    }
    const ScaledRows added =
        ir::add_scaled_rows(builder_, centred(node.inputs[1], wide(node.inputs[1])), type_);
    std::vector<ValueId> values{rows.values, added.values}, scales{rows.scales, added.scales};
    for (std::size_t i = 2; i < node.inputs.size(); ++i) {
      values.push_back(wide(node.inputs[i]));
      scales.push_back(i + 1 == node.inputs.size() ? first_column(added.scales)
                                                   : of_row(values.back()));
    }
    return {builder_.add("Scatter", std::move(values), node.attrs),
            builder_.add("Scatter", std::move(scales), node.attrs)};
  }

  /// The index of the only column of scales.
  ValueId first_column(ValueId scales) {
    const auto rank = static_cast<std::int64_t>(builder_.type(scales).shape.size());
    return builder_.add("Iota", {},
                        {{"shape", Shape(static_cast<std::size_t>(rank), Dim(1))},
                         {"axis", rank - 1},
                         {"dtype", DType::kInt64}});
  }
  /// Reduces an index that is equal along a row to one element for each row.
  ValueId of_row(ValueId index) {
    Shape shape = builder_.type(index).shape;
    if (shape.empty() || shape.back() == Dim(1)) return index;
    shape.back() = 1;
    const std::size_t rank = shape.size();
    return builder_.add(
        "Slice", {index},
        {{"starts", Shape(rank, Dim(0))}, {"steps", Ints(rank, 1)}, {"shape", shape}});
  }

  /// `value` for nodes that do not support scaled rows.
  ValueId wide(ValueId value) {
    const auto rows = narrow_.find(value);
    if (rows == narrow_.end()) return mapped_[value.position()];
    return ir::add_dequantized_rows(builder_, rows->second, old_.type(value).dtype);
  }

  void add_outputs() {
    std::map<int, const Cache*> by_output;
    for (const Cache& cache : caches_) by_output[cache.state.output] = &cache;
    for (std::size_t i = 0; i < old_.outputs().size(); ++i) {
      const ValueId output = old_.outputs()[i];
      builder_.output(old_.output_names()[i], by_output.contains(static_cast<int>(i))
                                                  ? narrow_.at(output).values
                                                  : wide(output));
    }
    for (const ir::State& state : old_.states()) builder_.state(state);
    auto input = static_cast<int>(old_.inputs().size()),
         output = static_cast<int>(old_.outputs().size());
    for (const Cache& cache : caches_) {
      const std::string& name = old_.output_names()[static_cast<std::size_t>(cache.state.output)];
      builder_.output(name + kScalesSuffix, narrow_.at(cache.output).scales);
      builder_.state({input++, output++});
      report(cache, name);
    }
  }

  void report(const Cache& cache, const std::string& output) {
    const TensorType& type = old_.type(cache.input);
    const std::int64_t width = type.shape.back().value();
    if (!errors_.contains(width)) errors_[width] = rounding_error(width, type_);
    const double bytes = typical_bytes(old_, cache.input),
                 elements = bytes / static_cast<double>(size_of(type.dtype));
    const auto scale_bytes = static_cast<double>(size_of(ir::kRowScaleType));
    context_.caches.push_back({cache.name, output, cache.name + kScalesSuffix,
                               output + kScalesSuffix, type.dtype, type_, type.shape,
                               errors_[width], mean_of(cache), bytes,
                               elements * (1 + scale_bytes / static_cast<double>(width))});
  }

  const Graph& old_;
  Context& context_;
  DType type_;
  GraphBuilder builder_;
  std::vector<ValueId> mapped_;           // values of the old graph that are unchanged
  std::map<ValueId, ScaledRows> narrow_;  // caches along their path through the model
  std::vector<Cache> caches_;
  std::set<NodeId> chain_;                          // nodes of these paths
  std::vector<ValueId> updates_;                    // keys that are stored into caches
  std::vector<std::vector<std::int64_t>> reduced_;  // dimensions that share a mean
  std::map<ValueId, Tensor> means_;                 // of updates
  std::map<std::int64_t, double> errors_;           // by width
};

}  // namespace

Graph quantize_caches(const Graph& graph, Context& context) {
  if (!context.states.cache_type) return graph;
  return CacheQuantizer(graph, context).run();
}

}  // namespace sinter::fusion
