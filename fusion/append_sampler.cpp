// SPDX-License-Identifier: Apache-2.0
#include "fusion/append_sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sinter/error.h>

namespace sinter::fusion {
namespace {

constexpr std::uint64_t kGamma = 0x9E3779B97F4A7C15;  // SplitMix64's increment

[[noreturn]] void refuse(std::string text) {
  throw Error(ErrorCode::kUsage, "--sample: " + std::move(text));
}

std::vector<std::string> names_of(const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<std::string> names;
  for (const ValueId value : values) names.push_back(graph.value(value).name);
  return names;
}

std::size_t require(const std::vector<std::string>& names, const std::string& name,
                    const char* what, const char* option) {
  const auto at = std::ranges::find(names, name);
  if (at == names.end())
    refuse(fmt::format("the model has no {} '{}'; it has '{}'. Name it with {}=NAME", what, name,
                       fmt::join(names, "', '"), option));
  return static_cast<std::size_t>(at - names.begin());
}

/// Builds formulas over the values of a graph builder.
class Formulas {
 public:
  explicit Formulas(GraphBuilder& builder) : builder_(builder) {}

  ValueId op(std::string_view name, std::vector<ValueId> inputs, Attrs attrs = {}) {
    return builder_.add(name, std::move(inputs), std::move(attrs));
  }
  ValueId with(std::string_view name, ValueId a, double b) {
    return op(name, {a, builder_.scalar(builder_.type(a).dtype, b)});
  }
  ValueId with(std::string_view name, ValueId a, std::uint64_t b) {
    return op(name, {a, builder_.constant(Tensor::of<std::uint64_t>(DType::kUInt64, {}, {b}))});
  }
  ValueId cast(ValueId x, DType to) {
    return builder_.type(x).dtype == to ? x : op("Cast", {x}, {{"to", to}});
  }
  ValueId reshape(ValueId x, Shape shape) {
    return builder_.type(x).shape == shape ? x : op("Reshape", {x}, {{"shape", std::move(shape)}});
  }
  ValueId reduce(std::string_view name, ValueId row) {
    return op(name, {row}, {{"axes", Ints{1}}, {"keepdims", std::int64_t{1}}});
  }
  ValueId iota(const Dim& count) {
    return op("Iota", {},
              {{"shape", Shape{1, count}}, {"axis", std::int64_t{1}}, {"dtype", DType::kInt64}});
  }
  ValueId size(const Dim& dim, DType type) {
    if (dim.is_constant()) return builder_.scalar(type, static_cast<double>(dim.value()));
    return op("Size", {}, {{"value", std::vector<Dim>{dim}}, {"dtype", type}});
  }
  /// Elements of a row at `indices` ([n], or [1, n]).
  ValueId gather(ValueId row, ValueId indices) {
    const Shape& shape = builder_.type(indices).shape;
    return op("Gather", {row, reshape(indices, {shape.back()})}, {{"axis", std::int64_t{1}}});
  }

  /// The last row of `x`, as [1, n].
  ValueId last_row(ValueId x) {
    const Shape shape = builder_.type(x).shape;
    Dim rows = 1;
    for (std::size_t d = 0; d + 1 < shape.size(); ++d) rows *= shape[d];
    x = reshape(x, {rows, shape.back()});
    if (rows == Dim(1)) return x;
    return op("Slice", {x},
              {{"starts", std::vector<Dim>{rows - Dim(1), 0}},
               {"steps", Ints{1, 1}},
               {"shape", Shape{1, shape.back()}}});
  }
  /// Index of the largest element of a row as [1, 1], the first of equal ones; the row's length if
  /// an element is NaN.
  ValueId arg_max(ValueId row) {
    const Dim count = builder_.type(row).shape.back();
    const ValueId hit = op("Equal", {row, reduce("ReduceMax", row)});
    return reduce("ReduceMin", op("Where", {hit, iota(count), size(count, DType::kInt64)}));
  }
  /// SplitMix64's output function.
  ValueId mix(ValueId x) {
    x = with("Mul", op("BitwiseXor", {x, with("ShiftRight", x, std::uint64_t{30})}),
             std::uint64_t{0xBF58476D1CE4E5B9});
    x = with("Mul", op("BitwiseXor", {x, with("ShiftRight", x, std::uint64_t{27})}),
             std::uint64_t{0x94D049BB133111EB});
    return op("BitwiseXor", {x, with("ShiftRight", x, std::uint64_t{31})});
  }

 private:
  GraphBuilder& builder_;
};

class Sampler {
 public:
  Sampler(const Graph& graph, const SamplerOptions& options)
      : graph_(graph), options_(options), builder_(graph.name()), formulas_(builder_) {}

  Graph run() {
    check_options();
    find_bindings();
    for (const auto& [symbol, range] : graph_.ranges()) builder_.range(symbol, range);
    std::vector<ValueId> inputs;
    for (const ValueId input : graph_.inputs())
      inputs.push_back(builder_.input(graph_.value(input).name, graph_.type(input)));
    const ValueId last = add_state_input(sampler_names::kTokenState, DType::kInt64);
    ValueId random;
    if (!options_.is_greedy())
      random = add_state_input(sampler_names::kRandomState, DType::kUInt64);

    const ValueId ids = inputs[ids_];
    const TensorType type = builder_.type(ids);
    std::vector<ValueId> outputs, replaced = inputs;
    {
      const GraphBuilder::OriginScope scope(builder_, {"sampler"});
      replaced[ids_] = formulas_.op(
          "Where", {formulas_.with("Less", ids, 0.0), formulas_.cast(last, type.dtype), ids});
    }
    outputs = ir::inline_graph(builder_, graph_, replaced);
    std::vector<int> indices;  // indices of the model's outputs in those of the result
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      indices.push_back(output_count_);
      if (i == logits_ && !options_.keep_logits) continue;
      builder_.output(graph_.output_names()[i], outputs[i]);
      ++output_count_;
    }
    for (const ir::State& state : graph_.states()) {
      if (state.output == static_cast<int>(logits_)) refuse("the logits are a state");
      states_.push_back({state.input, indices[static_cast<std::size_t>(state.output)]});
    }
    const GraphBuilder::OriginScope scope(builder_, {"sampler"});
    const ValueId row = formulas_.last_row(outputs[logits_]);
    std::optional<ValueId> next_random;
    if (random.valid()) next_random = formulas_.with("Add", random, kGamma);
    const ValueId token = formulas_.reshape(
        next_random ? draw(row, *next_random) : or_none(formulas_.arg_max(row), row), {1});
    add_output(std::string(sampler_names::kToken), token);
    add_state(static_cast<int>(inputs.size()), sampler_names::kTokenState, token);
    if (next_random)
      add_state(static_cast<int>(inputs.size()) + 1, sampler_names::kRandomState, *next_random);
    if (position_) {
      const ValueId position_value = inputs[*position_];
      const DType position_type = builder_.type(position_value).dtype;
      add_state(
          static_cast<int>(*position_), graph_.value(graph_.inputs()[*position_]).name,
          formulas_.op("Add", {position_value, formulas_.size(type.shape.back(), position_type)}));
    }
    for (const ir::State& state : states_) builder_.state(state);
    return builder_.finish();
  }

 private:
  void check_options() const {
    const double t = options_.temperature;
    if (!(t >= 0) || std::isinf(t)) refuse(fmt::format("temperature {} is not a number from 0", t));
    if (options_.top_k < 0) refuse(fmt::format("top_k {} is less than 0", options_.top_k));
    if (!(options_.top_p > 0 && options_.top_p <= 1))
      refuse(fmt::format("top_p {} is not in (0, 1]", options_.top_p));
  }

  void require_integers(const std::string& name, const TensorType& type) const {
    if (type.dtype != DType::kInt64 && type.dtype != DType::kInt32)
      refuse(fmt::format("input '{}' is {}, not i64 or i32", name, ir::to_string(type)));
  }

  void find_bindings() {
    const auto inputs = names_of(graph_, graph_.inputs());
    ids_ = require(inputs, options_.ids, "input", "ids");
    logits_ = require(graph_.output_names(), options_.logits, "output", "logits");
    const TensorType& ids = graph_.type(graph_.inputs()[ids_]);
    require_integers(options_.ids, ids);
    const Shape& shape = ids.shape;
    if (shape.empty() || shape.size() > 2 || (shape.size() == 2 && shape[0] != Dim(1)))
      refuse(fmt::format(
          "input '{}' is {}, not [tokens] or [1, tokens]: one sequence at a time "
          "has a sampler (--dim {}=1)",
          options_.ids, ir::to_string(ids), shape.size() == 2 ? shape[0].to_string() : "BATCH"));
    const TensorType& logits = graph_.type(graph_.outputs()[logits_]);
    if (!is_float(logits.dtype) || logits.shape.empty() || !logits.shape.back().is_constant() ||
        logits.shape.back().value() < 1)
      refuse(fmt::format("output '{}' is {}, not floats [.., vocabulary] of a constant vocabulary",
                         options_.logits, ir::to_string(logits)));
    if (options_.position != SamplerOptions().position)
      for (const std::string& name : options_.position) require(inputs, name, "input", "position");
    for (const std::string& name : options_.position) {
      const auto at = std::ranges::find(inputs, name);
      if (at == inputs.end()) continue;
      const auto index = static_cast<std::size_t>(at - inputs.begin());
      const TensorType& type = graph_.type(graph_.inputs()[index]);
      require_integers(name, type);
      // A position for each token has a shape that varies by run: it stays an input.
      if (ir::element_count(type.shape) == Dim(1)) position_ = index;
      break;
    }
  }

  void require_new(const std::string& name) const {
    const auto inputs = names_of(graph_, graph_.inputs());
    const auto& outputs = graph_.output_names();
    if (std::ranges::find(inputs, name) != inputs.end() ||
        std::ranges::find(outputs, name) != outputs.end())
      refuse(fmt::format("the model has an input or output '{}' already, which the sampler adds",
                         name));
  }

  ValueId add_state_input(std::string_view name, DType type) {
    require_new(std::string(name));
    return builder_.input(std::string(name), {type, {1}});
  }
  void add_output(const std::string& name, ValueId value) {
    require_new(name);
    builder_.output(name, value);
    ++output_count_;
  }
  void add_state(int input, std::string_view name, ValueId value) {
    add_output(std::string(sampler_names::kNext) + std::string(name), value);
    states_.push_back({input, output_count_ - 1});
  }

  /// An index of `row`, or -1 if it is past the row's end.
  ValueId or_none(ValueId index, ValueId row, std::optional<ValueId> order = std::nullopt) {
    const auto count = static_cast<double>(builder_.type(row).shape.back().value());
    ValueId id = index;
    if (order) id = formulas_.gather(*order, formulas_.with("Min", index, count - 1));
    return formulas_.op(
        "Where", {formulas_.with("Equal", index, count), builder_.scalar(DType::kInt64, -1), id});
  }

  ValueId draw(ValueId row, ValueId random) {
    Formulas& f = formulas_;
    std::int64_t count = builder_.type(row).shape.back().value();
    std::optional<ValueId> order;
    if (options_.top_k > 0 && options_.top_k < count)
      count = options_.top_k;
    else if (options_.top_p == 1)
      return or_none(
          f.arg_max(noisy(scaled(row, f.reduce("ReduceMax", row)), std::nullopt, random)), row);
    order = f.op("ArgSort", {row},
                 {{"axis", std::int64_t{1}},
                  {"count", std::vector<Dim>{count}},
                  {"descending", std::int64_t{1}}});
    const ValueId sorted = f.gather(row, *order);
    ValueId scores = scaled(sorted, f.gather(row, f.op("Slice", {*order},
                                                       {{"starts", std::vector<Dim>{0, 0}},
                                                        {"steps", Ints{1, 1}},
                                                        {"shape", Shape{1, 1}}})));
    if (options_.top_p < 1) {
      const ValueId weights = f.op("Exp", {scores});
      const ValueId before = f.op("Scan", {weights},
                                  {{"axis", std::int64_t{1}},
                                   {"combine", std::string("sum")},
                                   {"exclusive", std::int64_t{1}}});
      const ValueId bound = f.with("Mul", f.reduce("ReduceSum", weights), options_.top_p);
      constexpr double kInfinity = std::numeric_limits<double>::infinity();
      // NaN fails both comparisons and thus stays.
      scores = f.op("Where", {f.op("GreaterOrEqual", {before, bound}),
                              builder_.scalar(DType::kFloat64, -kInfinity), scores});
    }
    return or_none(f.arg_max(noisy(scores, order, random)), sorted, order);
  }

  /// (logits - largest) / temperature; 0 where both are equal, even if infinite.
  ValueId scaled(ValueId logits, ValueId largest) {
    Formulas& f = formulas_;
    logits = f.cast(logits, DType::kFloat64), largest = f.cast(largest, DType::kFloat64);
    const ValueId scores = f.with("Div", f.op("Sub", {logits, largest}), options_.temperature);
    return f.op("Where",
                {f.op("Equal", {logits, largest}), builder_.scalar(DType::kFloat64, 0), scores});
  }

  ValueId noisy(ValueId scores, std::optional<ValueId> order, ValueId random) {
    Formulas& f = formulas_;
    const ValueId ids = order ? *order : f.iota(builder_.type(scores).shape.back());
    const ValueId number =
        f.with("Mul", f.with("Add", f.cast(ids, DType::kUInt64), std::uint64_t{1}), kGamma);
    const ValueId bits = f.mix(f.op("Add", {number, f.mix(random)}));
    const ValueId x = f.cast(f.with("ShiftRight", bits, std::uint64_t{12}), DType::kFloat64);
    const ValueId u = f.with("Mul", f.with("Add", x, 0.5), 0x1p-52);
    const ValueId exponential = f.op("Neg", {f.op("Log1p", {f.op("Neg", {u})})});
    return f.op("Sub", {scores, f.op("Log", {exponential})});
  }

  const Graph& graph_;
  const SamplerOptions& options_;
  GraphBuilder builder_;
  Formulas formulas_;
  std::size_t ids_ = 0, logits_ = 0;
  std::optional<std::size_t> position_;
  std::vector<ir::State> states_;
  int output_count_ = 0;
};

}  // namespace

Graph append_sampler(const Graph& graph, const SamplerOptions& options) {
  return Sampler(graph, options).run();
}

}  // namespace sinter::fusion
