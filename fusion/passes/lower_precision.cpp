// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "fusion/paging/decoder_inputs.h"
#include "fusion/passes/passes.h"
#include "fusion/patterns/caches.h"
#include "fusion/precision/lowering_policy.h"
#include "fusion/precision/sensitivity.h"
#include "fusion/precision/wide_values.h"
#include "fusion/regions/operand.h"
#include "fusion/regions/rebuild.h"
#include "ir/scale_format.h"

namespace sinter::fusion {
namespace {

constexpr DType kWide = DType::kFloat32;

/// Results for a graph and its bodies, for the notes.
struct Tally {
  std::map<std::string, std::vector<std::string>> kept;  // nodes, by reason
  std::vector<std::string> clamped;
  std::size_t inputs = 0, outputs = 0, weights = 0, lowered = 0;
  double weight_bytes = 0;
};

/// Rebuilds a graph with float32 values in a narrower type.
class Lowering {
 public:
  Lowering(const Graph& graph, Context& context, DType narrow, Tally& tally,
           std::shared_ptr<const Sensitivity> sensitivity = nullptr)
      : old_(graph),
        context_(context),
        policy_(narrow),
        tally_(tally),
        sensitivity_(std::move(sensitivity)),
        builder_(graph.name()),
        mapped_(graph.values().size()) {
    for (const auto& [symbol, range] : old_.ranges()) builder_.range(symbol, range);
    if (sensitivity_ == nullptr)
      sensitivity_ = std::make_shared<const Sensitivity>(find_sensitivity(old_, context_.fuse));
  }

  Graph run() {
    find_caches();
    wide_values_ = find_wide_values(old_, context_, policy_.narrow());
    // Masked scores and the like have rules of their own.
    std::erase_if(wide_values_, [&](const auto& each) {
      return sensitivity_->nodes[old_.value(each.first).producer.position()] != Kept::kNo;
    });
    for (ValueId input : old_.inputs()) {
      const Value& info = old_.value(input);
      TensorType type = info.type;
      if (caches_.contains(input)) type.dtype = policy_.narrow();
      map(input) = builder_.input(info.name, type);
      if (type.dtype != kWide) continue;
      ++tally_.inputs;
      map(input) = cast(map(input), policy_.narrow());
    }
    lower_nodes();
    for (std::size_t i = 0; i < old_.outputs().size(); ++i) {
      const ValueId output = old_.outputs()[i];
      ValueId value =
          old_.is_constant(output) ? builder_.constant(old_.value(output).constant) : map(output);
      const DType wanted = caches_.contains(output) ? policy_.narrow() : old_.type(output).dtype;
      if (builder_.type(value).dtype != wanted) {
        ++tally_.outputs;
        value = cast(value, wanted);
      }
      builder_.output(old_.output_names()[i], value);
    }
    for (const ir::State& state : old_.states()) builder_.state(state);
    write_notes();
    return builder_.finish();
  }

  /// Lowers the body of a loop whose inputs have `types`; returns the resulting types of its
  /// outputs.
  std::vector<DType> lower_body(std::span<const DType> types, Accumulation accumulation) {
    accumulation_ = std::move(accumulation);
    for (std::size_t i = 0; i < types.size(); ++i) {
      const Value& info = old_.value(old_.inputs()[i]);
      map(old_.inputs()[i]) = builder_.input(info.name, {types[i], info.type.shape});
    }
    lower_nodes();
    std::vector<DType> found;
    for (const ValueId output : old_.outputs())
      found.push_back(old_.is_constant(output) ? policy_.narrow()
                                               : builder_.type(map(output)).dtype);
    return found;
  }

  /// The body, with outputs of these types.
  Graph finish_body(std::span<const DType> types) {
    for (std::size_t i = 0; i < types.size(); ++i)
      builder_.output(old_.output_names()[i], operand(old_.outputs()[i], types[i]));
    return builder_.finish();
  }

 private:
  void lower_nodes() {
    for (const Node& node : old_.nodes()) {
      GraphBuilder::OriginScope scope(builder_, node.origins);
      const auto results = lower(node);
      for (std::size_t i = 0; i < results.size(); ++i) {
        map(node.outputs[i]) = results[i];
        builder_.name(results[i], old_.value(node.outputs[i]).name);
        if (old_.type(node.outputs[i]).dtype == kWide &&
            builder_.type(results[i]).dtype == policy_.narrow())
          ++tally_.lowered;
      }
    }
  }

  /// Cache elements are rounded when stored, as they would be when read. Other states keep their
  /// type: rounding errors would accumulate over runs.
  void find_caches() {
    for (const ir::State& state : old_.states()) {
      const ValueId input = old_.inputs()[static_cast<std::size_t>(state.input)];
      const ValueId output = old_.outputs()[static_cast<std::size_t>(state.output)];
      const auto history = cache_history(old_, output);
      const bool once = std::ranges::count(old_.outputs(), output) == 1;
      if (old_.type(input).dtype == kWide && history && history->input == input && once)
        caches_.insert({input, output});
    }
    // Those of a plan that pages them are no inputs of its user's: their type is free.
    if (!context_.paging) return;
    for (const DecoderCache& cache : decoder_caches(old_)) {
      const ValueId output = old_.outputs()[static_cast<std::size_t>(cache.output)];
      if (old_.type(cache.input).dtype == kWide && old_.type(output).dtype == kWide &&
          std::ranges::count(old_.outputs(), output) == 1)
        caches_.insert({cache.input, output});
    }
  }

  ValueId& map(ValueId old) { return mapped_[old.position()]; }

  /// A narrowed value that is needed wide again uses the original.
  ValueId cast(ValueId value, DType to) {
    const DType from = builder_.type(value).dtype;
    if (from == to) return value;
    if (const auto wide = wide_.find(value); to == kWide && wide != wide_.end())
      return wide->second;
    const ValueId result = builder_.add("Cast", {value}, {{"to", to}});
    if (from == kWide && to == policy_.narrow()) wide_[result] = value;
    return result;
  }

  /// A constant in type `to`; narrowed under the policy, with a note if a value changes. `stays`:
  /// values computed from it are never narrowed.
  ValueId constant(ValueId old, DType to, bool stays = false) {
    const Value& info = old_.value(old);
    if (info.type.dtype != kWide) return builder_.constant(info.constant, info.name);
    // A mask must survive a later cast: it is clamped in float32 too.
    const bool unchanged = to == kWide && (stays || !policy_.is_mask(*info.constant));
    if (unchanged) return builder_.constant(info.constant, info.name);
    const auto known = constants_.find({old, to});
    if (known != constants_.end()) return known->second;
    NarrowedConstant narrowed = policy_.clamp_constant(*info.constant, to);
    if (narrowed.clamped > 0)
      tally_.clamped.push_back(fmt::format(
          "clamped: {} value(s) of constant {} ({:g}) to the largest finite {}", narrowed.clamped,
          constant_name(old), narrowed.example, to_string(policy_.narrow())));
    if (to != kWide) {
      ++tally_.weights;
      tally_.weight_bytes += static_cast<double>(info.constant->byte_count());
    }
    return constants_[{old, to}] = builder_.constant(std::move(narrowed.tensor), info.name);
  }

  std::string constant_name(ValueId old) const {
    if (!old_.value(old).name.empty()) return "'" + old_.value(old).name + "'";
    const auto& users = old_.users(old);
    return users.empty() ? "?" : "of '" + describe(old_.node(users[0])) + "'";
  }

  ValueId operand(ValueId old, DType to, bool stays = false) {
    if (old_.is_constant(old)) return constant(old, to, stays);
    return old_.type(old).dtype != kWide ? map(old) : cast(map(old), to);
  }

  std::size_t node_index(const Node& node) const {
    return old_.value(node.outputs[0]).producer.position();
  }

  bool has_wide_float(const Node& node) const {
    const auto is_wide = [&](ValueId value) { return old_.type(value).dtype == kWide; };
    return std::ranges::any_of(node.inputs, is_wide) || std::ranges::any_of(node.outputs, is_wide);
  }

  /// True if a non-constant operand has stayed float32.
  bool reads_kept(const Node& node) {
    bool kept = false, narrow = false;
    for (ValueId input : node.inputs) {
      if (old_.is_constant(input) || old_.type(input).dtype != kWide) continue;
      (builder_.type(map(input)).dtype == kWide ? kept : narrow) = true;
    }
    return kept && !narrow;
  }

  bool accumulates(const Node& node) const {
    if (accumulation_.nodes.empty()) return false;
    return accumulation_.nodes[node_index(node)];
  }

  /// Captured values keep their outer type, so that iterations cast nothing. A state has the type
  /// that an iteration computes, except accumulations of the loop.
  std::vector<ValueId> lower_loop(const Node& node) {
    const Graph& body = *node.body;
    const std::size_t count = node.outputs.size();
    const Accumulation accumulation = find_accumulation(body, count);
    const std::vector<bool>& sensitive = sensitivity_->states.at(node_index(node));
    const auto& inside = sensitivity_->bodies.at(node_index(node));
    std::vector<bool> wide = accumulation.states;
    for (std::size_t k = 0; k < count; ++k) wide[k] = wide[k] || sensitive[k];
    for (;;) {
      std::vector<ValueId> inputs;
      std::vector<DType> types, states;
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const ValueId old = node.inputs[i];
        const bool is_state = i > 0 && i <= count;
        const bool kept = is_state ? wide[i - 1] : inside->inputs[i];
        const bool captured = !is_state && !kept && !old_.is_constant(old);
        inputs.push_back(captured ? map(old) : operand(old, kept ? kWide : policy_.narrow()));
        types.push_back(builder_.type(inputs.back()).dtype);
        if (is_state) states.push_back(types.back());
      }
      Tally tally = tally_;
      Lowering lowering(body, context_, policy_.narrow(), tally, inside);
      const std::vector<DType> made = lowering.lower_body(types, accumulation);
      bool changed = false;
      for (std::size_t k = 0; k < count; ++k)
        if (made[k] == kWide && !wide[k]) wide[k] = changed = true;
      if (changed) continue;
      auto lowered = std::make_shared<const Graph>(lowering.finish_body(states));
      tally_ = std::move(tally);
      return builder_.add_multi(node.op->name, inputs, node.attrs, std::move(lowered));
    }
  }

  /// A recurrent layer reads narrow operands, and states that its loop accumulates in float32; the
  /// types of its results follow.
  std::vector<ValueId> lower_recurrent(const Node& node) {
    const bool has_bias = node.attrs.get_int("bias") != 0;
    const std::size_t first_state = has_bias ? 3 : 2;
    const std::size_t states =
        static_cast<std::size_t>(node.attrs.get_int("initial_h") + node.attrs.get_int("initial_c"));
    std::vector<ValueId> inputs;
    std::vector<DType> types;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const bool is_state = i >= first_state && i < first_state + states;
      inputs.push_back(operand(node.inputs[i], is_state ? kWide : policy_.narrow()));
      types.push_back(builder_.type(inputs.back()).dtype);
    }
    Lowering lowering(*node.body, context_, policy_.narrow(), tally_);
    const std::vector<DType> made = lowering.lower_body(types, {});
    return builder_.add_multi(node.op->name, inputs, node.attrs,
                              std::make_shared<const Graph>(lowering.finish_body(made)));
  }

  /// Queries, keys and values are narrow; states, which add up, and gates keep their types.
  std::vector<ValueId> lower_linear_attention(const Node& node) {
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs)
      inputs.push_back(operand(input, inputs.size() < 3 ? policy_.narrow() : kWide));
    return builder_.add_multi(node.op->name, inputs, node.attrs);
  }

  std::vector<ValueId> lower(const Node& node) {
    const OpKind kind = node.op->kind;
    if (node.op->name == "Recurrent") return lower_recurrent(node);
    if (node.op->name == "LinearAttention") return lower_linear_attention(node);
    if (kind == OpKind::kWhile) return lower_loop(node);
    if (!has_wide_float(node)) return add(node, kWide, node.attrs);
    if (accumulates(node)) {
      keep(node, "a loop adds up what it makes: rounding would add up, too");
      return add(node, kWide, node.attrs);
    }
    if (node.op->name == "Conv" && context_.target.has_conv && !context_.target.conv_any_float) {
      keep(node, "the target's convolutions are of float32");
      return {cast(add(node, kWide, node.attrs)[0], policy_.narrow())};
    }
    if (const std::string* why = wide_reason(node)) return lower_beyond(node, *why);
    if (makes_spectra(node)) {
      keep(node, "spectra of sound");
      return add(node, kWide, node.attrs);
    }
    switch (sensitivity_->nodes[node_index(node)]) {
      case Kept::kExact: return lower_exact(node);
      case Kept::kLogits:
        keep(node, "an exponential, or what it reads");
        return add(node, kWide, node.attrs, true);
      case Kept::kMatmul:
        keep(node, "a matmul stores its sums for what reads float32");
        return {cast(add(node, policy_.narrow(), node.attrs)[0], kWide)};
      case Kept::kNo: break;
    }
    if (node.op->name == "Cast") return {lower_cast(node)};
    if (kind == OpKind::kReduce || node.op->scan()) return {lower_reduce(node)};
    // Only selects among existing values: they keep their types.
    if (node.op->name == "ArgSort" && reads_kept(node)) return add(node, kWide, node.attrs);
    if (node.op->numerics.own_types) {
      keep(node, "the operator has code or tables for this type");
      return add(node, kWide, node.attrs);
    }
    if (kind == OpKind::kPointwise || kind == OpKind::kView) {
      if (reads_kept(node)) {
        keep(node, "computed from kept values only");
        return add(node, kWide, node.attrs);
      }
      if (const auto reason = policy_.overflow_reason(old_, node)) {
        keep(node, *reason);
        return add(node, kWide, node.attrs);
      }
      if (const auto reason = policy_.unfit_constant(old_, node)) {
        keep(node, *reason);
        auto results = add(node, kWide, node.attrs);
        for (ValueId& result : results)
          if (builder_.type(result).dtype == kWide) result = cast(result, policy_.narrow());
        return results;
      }
    }
    return add(node, policy_.narrow(), node.attrs);
  }

  /// Why a node reads or makes a value that must not be narrow; null for others.
  const std::string* wide_reason(const Node& node) const {
    for (const auto* values : {&node.outputs, &node.inputs})
      for (const ValueId value : *values)
        if (const auto at = wide_values_.find(value); at != wide_values_.end()) return &at->second;
    return nullptr;
  }

  /// What it makes is narrow again where that holds it. A product of narrow operands stores its
  /// sums.
  std::vector<ValueId> lower_beyond(const Node& node, const std::string& why) {
    keep(node, why);
    const auto is_beyond = [&](ValueId value) { return wide_values_.contains(value); };
    const bool stores_sums = node.op->kind == OpKind::kLibrary && node.outputs.size() == 1 &&
                             ir::is_plain_matmul(node) &&
                             std::ranges::none_of(node.inputs, is_beyond) &&
                             !why.starts_with("--keep");
    if (stores_sums) return {cast(add(node, policy_.narrow(), node.attrs)[0], kWide)};
    std::vector<ValueId> results = add(node, kWide, node.attrs);
    for (std::size_t i = 0; i < results.size(); ++i)
      if (builder_.type(results[i]).dtype == kWide && !is_beyond(node.outputs[i]))
        results[i] = cast(results[i], policy_.narrow());
    return results;
  }

  /// Other readers may narrow the value, so that masks in it must survive that.
  std::vector<ValueId> lower_exact(const Node& node) {
    const std::string& readers = sensitivity_->readers[node_index(node)];
    keep(node, readers.empty()
                   ? "an error of an operand counts absolutely"
                   : fmt::format("an error of what {} reads counts absolutely", readers));
    const auto stays_wide = [&](NodeId user) {
      const Kept kept = sensitivity_->nodes[user.position()];
      return kept == Kept::kExact || kept == Kept::kLogits;
    };
    return add(node, kWide, node.attrs,
               std::ranges::all_of(old_.users(node.outputs[0]), stays_wide));
  }

  std::vector<ValueId> add(const Node& node, DType type, const Attrs& attrs, bool stays = false) {
    std::vector<ValueId> inputs;
    for (ValueId input : node.inputs) {
      // Scales of quantized weights have their own type.
      const bool own =
          ir::ProductFormats(node.attrs).w && !inputs.empty() && old_.is_constant(input);
      inputs.push_back(own ? builder_.constant(old_.value(input).constant)
                           : operand(input, type, stays));
    }
    return builder_.add_multi(node.op->name, inputs, attrs, node.body);
  }

  ValueId lower_cast(const Node& node) {
    const ValueId old = node.inputs[0];
    const DType from = old_.type(old).dtype, to = old_.type(node.outputs[0]).dtype;
    if (to != kWide) {
      const ValueId value = old_.is_constant(old) ? constant(old, policy_.narrow()) : map(old);
      return cast(value, to);
    }
    // Integers may be counts or positions, which a narrow type would round.
    if (!is_float(from)) {
      if (from != DType::kBool) keep(node, "an integer as a float: a narrow type would round it");
      return cast(operand(old, kWide), from == DType::kBool ? policy_.narrow() : kWide);
    }
    return cast(operand(old, policy_.narrow()), policy_.narrow());
  }

  /// With fusion, widening before a reduction is free, and its result is small. An unfused
  /// reduction reads and writes the given type and accumulates in float32.
  ValueId lower_reduce(const Node& node) {
    const bool grows = policy_.overflow_reason(old_, node).has_value();
    if (!context_.fuse && !reads_kept(node) && !grows)
      return add(node, policy_.narrow(), node.attrs)[0];
    keep(node, "the result of a reduction");
    return add(node, kWide, node.attrs)[0];
  }

  void keep(const Node& node, const std::string& reason) {
    auto& kept = tally_.kept[reason];
    kept.push_back(describe(node));
  }

  void write_notes() {
    auto& out = context_.precision_notes;
    const auto name = to_string(policy_.narrow());
    out.push_back(
        fmt::format("{}: {} constant(s) lowered from float32 ({:.1f} MB to {:.1f} MB), "
                    "{} intermediate value(s) lowered",
                    name, tally_.weights, tally_.weight_bytes / 1e6, tally_.weight_bytes / 2e6,
                    tally_.lowered));
    out.push_back(
        fmt::format("{}: {} input(s) and {} output(s) stay float32 and are cast at the "
                    "border; arithmetic within kernels stays float32",
                    name, tally_.inputs, tally_.outputs));
    if (!caches_.empty())
      out.push_back(fmt::format("{}: {} cache(s), which are states, are kept in it", name,
                                caches_.size() / 2));
    constexpr std::size_t kShown = 4;
    for (const auto& [reason, nodes] : tally_.kept) {
      const std::vector<std::string> shown(
          nodes.begin(),
          nodes.begin() + static_cast<std::ptrdiff_t>(std::min(nodes.size(), kShown)));
      std::string list;
      for (const std::string& node : shown) list += (list.empty() ? "" : ", ") + node;
      out.push_back(fmt::format("kept float32: {} node(s), {}: {}{}", nodes.size(), reason, list,
                                nodes.size() > kShown ? ", ..." : ""));
    }
    out.insert(out.end(), tally_.clamped.begin(), tally_.clamped.end());
  }

  const Graph& old_;
  Context& context_;
  LoweringPolicy policy_;
  Tally& tally_;
  std::shared_ptr<const Sensitivity> sensitivity_;
  GraphBuilder builder_;
  std::vector<ValueId> mapped_;
  std::set<ValueId> caches_;  // inputs and outputs
  std::map<ValueId, std::string> wide_values_;
  Accumulation accumulation_;        // in a body
  std::map<ValueId, ValueId> wide_;  // originals of narrowed values
  std::map<std::pair<ValueId, DType>, ValueId> constants_;
};

/// A matmul over few terms as multiplications and a sum, which no option rounds.
ValueId as_sum(GraphBuilder& builder, const Graph& graph, const Node& node,
               std::span<const ValueId> inputs) {
  Shape left = graph.type(node.inputs[0]).shape, right = graph.type(node.inputs[1]).shape;
  left.emplace_back(1);
  right.insert(right.end() - 2, Dim(1));
  const ValueId product =
      builder.add("Mul", {builder.add("Reshape", {inputs[0]}, {{"shape", left}}),
                          builder.add("Reshape", {inputs[1]}, {{"shape", right}})});
  const auto axis = static_cast<std::int64_t>(builder.type(product).shape.size()) - 2;
  return builder.add("ReduceSum", {product},
                     {{"axes", ir::Ints{axis}}, {"keepdims", std::int64_t{0}}});
}

Graph without_rounded_angles(const Graph& graph, Context& context) {
  const Sensitivity sensitivity = find_sensitivity(graph, false);
  std::size_t kept = 0;
  Graph result =
      ir::rewrite(graph,
                  [&](GraphBuilder& builder, const Graph&, const Node& node,
                      std::span<const ValueId> inputs) -> std::optional<std::vector<ValueId>> {
                    const auto position = static_cast<std::size_t>(&node - graph.nodes().data());
                    if (sensitivity.nodes[position] != Kept::kExact || !ir::is_plain_matmul(node))
                      return std::nullopt;
                    ++kept;
                    return std::vector{as_sum(builder, graph, node, inputs)};
                  });
  if (kept > 0)
    context.precision_notes.push_back(fmt::format(
        "kept float32: {} matmul(s) of few terms, since an error of angles or positions counts "
        "absolutely",
        kept));
  return result;
}

}  // namespace

Graph lower_precision(const Graph& graph, Context& context) {
  Tally tally;
  switch (context.precision) {
    case Precision::kModel: return graph;
    case Precision::kTf32:
      context.precision_notes.push_back(
          "tf32: float32 products round their operands to 10 bits of mantissa; everything else "
          "stays float32");
      return without_rounded_angles(graph, context);
    case Precision::kFloat16: return Lowering(graph, context, DType::kFloat16, tally).run();
    case Precision::kBFloat16: return Lowering(graph, context, DType::kBFloat16, tally).run();
  }
  return graph;
}

}  // namespace sinter::fusion
