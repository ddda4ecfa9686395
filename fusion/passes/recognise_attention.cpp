// SPDX-License-Identifier: Apache-2.0
// Matches spelled-out attention: matmul, a program of scores, masks, softmax, matmul.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "fusion/passes/passes.h"
#include "fusion/patterns/masks.h"
#include "fusion/patterns/scores.h"
#include "fusion/regions/attention_access.h"
#include "fusion/regions/operand.h"
#include "fusion/regions/rebuild.h"
#include "ir/attention_inputs.h"
#include "ir/scale_format.h"

namespace sinter::fusion {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// An operand whose scalar factors moved into the scale; its views stay.
struct Factored {
  ValueId source;
  std::vector<NodeId> views;  // from the source on
  double factor = 1;
};

/// A bool mask, negated if `negated`, or an additive float mask; after `views`.
struct Mask {
  ValueId value;
  bool negated = false;
  std::vector<NodeId> views = {};  // from the value on
};

ValueId add_views(GraphBuilder& builder, const Graph& graph, ValueId value,
                  std::span<const NodeId> views) {
  for (const NodeId id : views) {
    const Node& view = graph.node(id);
    GraphBuilder::OriginScope scope(builder, view.origins);
    value = builder.add(view.op->name, {value}, view.attrs);
  }
  return value;
}

/// The lowest finite value of a float type.
double lowest(DType type) {
  if (type == DType::kFloat16) return -65504;
  constexpr double kLowestBFloat = -0x1.FEp127;
  return type == DType::kBFloat16  ? kLowestBFloat
         : type == DType::kFloat32 ? std::numeric_limits<float>::lowest()
                                   : std::numeric_limits<double>::lowest();
}

/// Swaps the last two dimensions, merged with a preceding transpose.
ValueId swapped(GraphBuilder& builder, ValueId value) {
  Ints perm(builder.type(value).shape.size());
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  if (const Node* before = builder.producer(value); before && before->op->name == "Transpose") {
    const Ints first = before->attrs.get_ints("perm");
    for (std::int64_t& d : perm) d = first[static_cast<std::size_t>(d)];
    value = before->inputs[0];
    if (std::ranges::is_sorted(perm)) return value;
  }
  return builder.add("Transpose", {value}, {{"perm", std::move(perm)}});
}

/// Traverses from the PV matmul back to the QK' matmul.
class AttentionMatcher {
 public:
  AttentionMatcher(const Graph& graph, Context& context, const Node& product)
      : graph_(graph), context_(context), product_(product) {}

  std::optional<Piece> match() {
    const Node* softmax = weights(product_.inputs[0]);
    if (softmax == nullptr) return std::nullopt;
    const Node* scores = walk_scores(*softmax);
    if (scores == nullptr) return refused(*softmax);
    take(*scores);
    const Factored q = factored(scores->inputs[0]), k = factored(scores->inputs[1]);
    scale_ *= q.factor * k.factor;
    const ValueId v = product_.inputs[1];
    if (program_.body && !has_batch_of_scores()) {
      refusal_ = "its values have another batch than its scores";
      return refused(*softmax);
    }
    if (graph_.type(q.source).shape.size() < 2 || graph_.type(k.source).shape.size() < 2)
      return std::nullopt;
    // Only the last dimension of k's type is used here, the second to last of k'.
    std::vector<TensorType> types{graph_.type(scores->inputs[0]), graph_.type(scores->inputs[1]),
                                  graph_.type(v)};
    std::swap(types[1].shape[types[1].shape.size() - 1], types[1].shape[types[1].shape.size() - 2]);
    if (mask_.value.valid()) types.push_back(graph_.type(mask_.value));
    refusal_ = attention_refusal(context_, types);
    if (!refusal_.empty()) return refused(*softmax);
    return piece(q, k, v);
  }

 private:
  std::optional<Piece> refused(const Node& softmax) {
    if (refusal_.empty()) return std::nullopt;
    decide(context_, softmax, product_, false, refusal_);
    context_.decisions.back().sought = "Attention";
    return std::nullopt;
  }

  const Node* only(ValueId value) {
    const Node* node = graph_.producer(value);
    if (node == nullptr) return nullptr;
    if (graph_.users(value).size() != 1 || graph_.is_output(value)) {
      refusal_ = "'" + describe(*node) + "' has other readers";
      return nullptr;
    }
    return node;
  }

  void take(const Node& node) {
    origins_.insert(origins_.end(), node.origins.begin(), node.origins.end());
    taken_.push_back(&node);
  }

  bool is_wide_cast(const Node& node) const {
    return node.op->name == "Cast" && is_arithmetic_float(graph_.type(node.inputs[0]).dtype) &&
           is_arithmetic_float(graph_.type(node.outputs[0]).dtype);
  }

  /// The softmax that computes the weights `value`, through casts and a NaN guard.
  const Node* weights(ValueId value) {
    for (const Node* node = only(value); node != nullptr; node = only(value)) {
      const std::string& op = node->op->name;
      if (op == "Softmax") {
        const auto rank = static_cast<std::int64_t>(graph_.type(value).shape.size());
        if (node->attrs.get_int("axis") != rank - 1) return nullptr;
        take(*node);
        return node;
      }
      if (is_wide_cast(*node)) {
        take(*node);
        value = node->inputs[0];
      } else if (drops_last_key(*node)) {
        take(*node);
        drops_last_ = true;
        value = node->inputs[0];
      } else if (const auto guarded = guarded_value(*node); guarded && guard_ == ir::kGuardNone) {
        const bool by_nan = graph_.producer(node->inputs[0])->op->name == "IsNan";
        guard_ = by_nan ? ir::kGuardNan : ir::kGuardHidden;
        take(*node);
        const Node* softmax = graph_.producer(*guarded);
        if (softmax == nullptr || softmax->op->name != "Softmax" ||
            graph_.users(*guarded).size() != (by_nan ? 2 : 1) || graph_.is_output(*guarded))
          return nullptr;
        const auto rank = static_cast<std::int64_t>(graph_.type(*guarded).shape.size());
        if (softmax->attrs.get_int("axis") != rank - 1) return nullptr;
        take(*softmax);
        return softmax;
      } else {
        return nullptr;
      }
    }
    return nullptr;
  }

  /// x, if `node` is Where(IsNan(x), 0, x), or Where(ReduceMax(s) == -inf, 0, x) with x =
  /// Softmax(s).
  std::optional<ValueId> guarded_value(const Node& node) const {
    if (node.op->name != "Where" || splat_value(graph_, node.inputs[1]) != 0.0) return std::nullopt;
    const Node* test = graph_.producer(node.inputs[0]);
    if (test == nullptr) return std::nullopt;
    if (test->op->name == "IsNan" && test->inputs[0] == node.inputs[2]) return node.inputs[2];
    const Node* softmax = graph_.producer(node.inputs[2]);
    if (test->op->name != "Equal" || softmax == nullptr || softmax->op->name != "Softmax")
      return std::nullopt;
    for (const std::size_t i : {0, 1}) {
      const Node* most = graph_.producer(test->inputs[i]);
      if (most == nullptr || most->op->name != "ReduceMax" ||
          most->inputs[0] != softmax->inputs[0] ||
          most->attrs.get_ints("axes") != std::vector{softmax->attrs.get_int("axis")} ||
          most->attrs.get_int("keepdims") == 0 ||
          splat_value(graph_, test->inputs[1 - i]) != -kInfinity ||
          graph_.users(test->inputs[i]).size() != 1 || graph_.users(node.inputs[0]).size() != 1)
        continue;
      return node.inputs[2];
    }
    return std::nullopt;
  }

  /// The QK' matmul that the softmax reads. Masks next to the softmax are the attention's own, what
  /// is between them and the matmul is the program of scores.
  const Node* walk_scores(const Node& softmax) {
    ValueId value = without_sink(softmax.inputs[0]);
    if (!value.valid()) return nullptr;
    scores_shape_ = graph_.type(value).shape;
    // The guard against hidden rows reads the scores, too.
    if (guard_ == ir::kGuardHidden && graph_.users(value).size() == 2 && !graph_.is_output(value))
      guarded_ = value;
    double factor = 1;
    const ValueId masked = behind_factors(value, factor);
    const Node* last = graph_.producer(masked);
    // A factor behind masks is a part of the program, and so are they.
    if (std::abs(factor - 1) < 1e-6 || (last != nullptr && ir::is_plain_matmul(*last))) {
      value = masked;
      while (const auto next = unmasked(value)) value = *next;
    } else {
      value = masked;
    }
    const auto program = score_program(graph_, value, factor, sink_, refusal_);
    if (!program) return nullptr;
    if (!is_read_once(value)) return nullptr;
    program_ = *program;
    scale_ *= program_.factor;
    for (const Node* node : program_.nodes)
      if (node != program_.product) take(*node);
    return program_.product;
  }

  /// Whether `node` takes all weights but those of the last key.
  bool drops_last_key(const Node& node) const {
    if (node.op->name != "Slice" || drops_last_) return false;
    Shape kept = graph_.type(node.outputs[0]).shape;
    const auto is = [](const auto& number) { return [&](const auto& x) { return x == number; }; };
    if (kept.empty() || !std::ranges::all_of(node.attrs.get_dims("starts"), is(Dim(0))) ||
        !std::ranges::all_of(node.attrs.get_ints("steps"), is(std::int64_t{1})))
      return false;
    kept.back() += Dim(1);
    return graph_.type(node.inputs[0]).shape == kept;
  }

  /// The scores in `value`, of which a last column belongs to a key whose weights are dropped.
  /// Invalid if it is anything else.
  ValueId without_sink(ValueId value) {
    if (!drops_last_) return value;
    const Node* joined = graph_.producer(value);
    const std::size_t readers = guard_ == ir::kGuardHidden ? 2 : 1;
    if (joined == nullptr || joined->op->name != "Concat" || joined->inputs.size() != 2 ||
        joined->attrs.get_int("axis") != std::ssize(graph_.type(value).shape) - 1 ||
        graph_.type(joined->inputs[1]).shape.back() != Dim(1) ||
        graph_.users(value).size() != readers || graph_.is_output(value))
      return {};
    take(*joined);
    sink_ = joined->inputs[1];
    // What was expanded to all rows is read once for each.
    for (const Node* view = graph_.producer(sink_); view && view->op->name == "Expand";
         view = graph_.producer(sink_))
      sink_ = view->inputs[0];
    return joined->inputs[0];
  }

  /// Whether only the matched nodes read `value`.
  bool is_read_once(ValueId value) {
    if (value == guarded_ || value == shifted_) return true;
    return only(value) != nullptr;
  }

  /// `value` in front of scalar factors, and of the row's maximum that is subtracted from it: a
  /// softmax does not depend on that.
  ValueId behind_factors(ValueId value, double& factor) {
    while (is_read_once(value) && graph_.type(value).shape == scores_shape_) {
      const Node& node = *graph_.producer(value);
      std::optional<ValueId> next;
      if (is_wide_cast(node)) next = node.inputs[0];
      for (std::size_t i = 0; !next && i < node.inputs.size(); ++i)
        if (const auto by = scalar_factor(graph_, node, node.inputs[i]); by && *by > 0) {
          factor *= *by;
          next = node.inputs[i];
        }
      if (!next && subtracts_maximum(node)) next = shifted_ = node.inputs[0];
      if (!next || graph_.is_constant(*next)) break;
      take(node);
      value = *next;
    }
    return value;
  }

  /// x - ReduceMax(x) along the keys, and nothing else reads either.
  bool subtracts_maximum(const Node& node) {
    if (node.op->name != "Sub" || shifted_.valid()) return false;
    const ValueId x = node.inputs[0];
    const Node* most = graph_.producer(node.inputs[1]);
    if (most == nullptr || most->op->name != "ReduceMax" || most->inputs[0] != x ||
        most->attrs.get_int("keepdims") == 0 ||
        most->attrs.get_ints("axes") != Ints{std::ssize(scores_shape_) - 1} ||
        graph_.users(x).size() != 2 || graph_.is_output(x) ||
        graph_.users(node.inputs[1]).size() != 1 || graph_.is_output(node.inputs[1]))
      return false;
    take(*most);
    return true;
  }

  /// `value` in front of a mask, or of a cast.
  std::optional<ValueId> unmasked(ValueId value) {
    if (graph_.type(value).shape != scores_shape_ || !is_read_once(value)) return std::nullopt;
    const Node* node = graph_.producer(value);
    std::optional<ValueId> next;
    if (node == nullptr) return std::nullopt;
    if (is_wide_cast(*node)) next = node->inputs[0];
    if (node->op->name == "Where") next = selected(*node);
    if (node->op->name == "Add") next = added(*node);
    if (next) take(*node);
    return next;
  }

  bool has_batch_of_scores() const {
    const Shape& result = graph_.type(product_.outputs[0]).shape;
    return result.size() == scores_shape_.size() &&
           std::equal(result.begin(), result.end() - 1, scores_shape_.begin());
  }

  bool is_scores(ValueId value) const {
    const Node* node = graph_.producer(value);
    return node != nullptr && graph_.type(value).shape == scores_shape_ &&
           !graph_.is_constant(value);
  }

  /// True if the path back from `value` soon reaches the scores' matmul.
  bool leads_to_product(ValueId value) const {
    constexpr int kSteps = 8;
    for (int step = 0; step < kSteps; ++step) {
      const Node* node = graph_.producer(value);
      if (node == nullptr || !is_scores(value)) return false;
      if (ir::is_plain_matmul(*node)) return true;
      if (node->op->kind != OpKind::kPointwise) return false;
      std::optional<ValueId> next;
      for (const ValueId input : node->inputs)
        if (is_scores(input) && is_float(graph_.type(input).dtype)) next = input;
      if (!next) return false;
      value = *next;
    }
    return false;
  }

  std::optional<ValueId> selected(const Node& node) {
    const auto fill_then = splat_value(graph_, node.inputs[1]);
    const auto fill_else = splat_value(graph_, node.inputs[2]);
    if (fill_then.has_value() == fill_else.has_value()) return std::nullopt;
    const bool negated = fill_then.has_value();
    const double fill = negated ? *fill_then : *fill_else;
    const ValueId scores = node.inputs[negated ? 2 : 1];
    if (std::isnan(fill) || graph_.type(scores).shape != scores_shape_) return std::nullopt;
    const Mask mask{node.inputs[0], negated};
    if (fill <= kHidden && (take_causal(mask) || take_limits(mask))) return scores;
    if (mask_.value.valid()) return std::nullopt;  // a part of the program
    mask_ = {node.inputs[0], negated};
    fill_ = fill;
    return scores;
  }

  bool take_causal(const Mask& mask) {
    // Views that keep the order leave the scores' last two dimensions last; causal_of() rejects
    // others.
    const bool in_order = std::ranges::all_of(mask.views, [&](NodeId view) {
      const std::string& op = graph_.node(view).op->name;
      return op == "Reshape" || op == "Expand";
    });
    if (causal_ != 0 || !in_order) return false;
    causal_ = causal_of(graph_, mask.value, scores_shape_, mask.negated);
    return causal_ != 0;
  }

  /// A mask of all keys from an index on becomes a limit. As for causal masks, no row is assumed to
  /// be fully masked.
  bool take_limits(const Mask& mask) {
    if (limits_) return false;
    limits_ = limits_of(graph_, mask.value, mask.views, scores_shape_.back(), mask.negated);
    return limits_.has_value();
  }

  /// The bool mask behind `value`: 0 where it attends, elsewhere the lowest value of its type,
  /// which absorbs any score. Adding that equals replacing the score.
  std::optional<Mask> lowest_mask(ValueId value, double& fill) const {
    Mask mask;
    const Node* node = graph_.producer(value);
    while (node != nullptr && node->op->kind == OpKind::kView && node->inputs.size() == 1 &&
           node->op->name != "Pad") {
      mask.views.insert(mask.views.begin(), graph_.value(value).producer);
      value = node->inputs[0];
      node = graph_.producer(value);
    }
    if (node == nullptr || node->op->name != "Where") return std::nullopt;
    const auto then = splat_value(graph_, node->inputs[1]);
    const auto otherwise = splat_value(graph_, node->inputs[2]);
    if (!then || !otherwise || (*then != 0.0 && *otherwise != 0.0)) return std::nullopt;
    mask.negated = *then != 0.0;
    const double low = mask.negated ? *then : *otherwise;
    const TensorType& type = graph_.type(value);
    if (!(low <= lowest(type.dtype))) return std::nullopt;
    mask.value = node->inputs[0];
    if (!mask.views.empty() && graph_.type(mask.value).shape != type.shape) return std::nullopt;
    fill = low;
    return mask;
  }

  std::optional<ValueId> added(const Node& node) {
    for (const std::size_t i : {0, 1}) {
      const ValueId scores = node.inputs[i], other = node.inputs[1 - i];
      if (!leads_to_product(scores) || scores == other) continue;
      if (const int causal = causal_of(graph_, other, scores_shape_, false);
          causal != 0 && causal_ == 0) {
        causal_ = causal;
        return scores;
      }
      double fill = -kInfinity;
      const std::optional<Mask> selects = lowest_mask(other, fill);
      if (selects && (take_causal(*selects) || take_limits(*selects))) return scores;
      if (mask_.value.valid()) return std::nullopt;  // a part of the program
      mask_ = selects ? *selects : Mask{other, false};
      fill_ = fill;
      return scores;
    }
    return std::nullopt;
  }

  /// Traces an operand of the scores back to its first scalar factor, maybe of a wider type; the
  /// views in between stay.
  Factored factored(ValueId value) const {
    Factored best{value, {}, 1}, next = best;
    while (true) {
      const NodeId id = graph_.value(next.source).producer;
      if (!id.valid()) return best;
      const Node& node = graph_.node(id);
      if (node.op->kind == OpKind::kView && node.inputs.size() == 1) {
        next.source = node.inputs[0];
        next.views.insert(next.views.begin(), id);
        continue;
      }
      if (is_wide_cast(node)) {
        next.source = node.inputs[0];
        if (next.factor != best.factor && same_type(next.source, value)) best = next;
        continue;
      }
      std::optional<double> factor;
      for (const ValueId input : node.inputs)
        if (!factor && (factor = scalar_factor(graph_, node, input))) next.source = input;
      if (!factor) return best;
      next.factor *= *factor;
      if (same_type(next.source, value)) best = next;
    }
  }

  bool same_type(ValueId a, ValueId b) const {
    return graph_.type(a).dtype == graph_.type(b).dtype;
  }

  /// The value before a mask's views: negation happens there, where it is smallest.
  FoldedViews mask_source() const {
    FoldedViews result{mask_.value, mask_.views};
    while (mask_.negated) {
      const NodeId id = graph_.value(result.source).producer;
      if (!id.valid() || graph_.node(id).op->kind != OpKind::kView ||
          graph_.node(id).inputs.size() != 1 || graph_.node(id).op->name == "Pad")
        break;
      result.source = graph_.node(id).inputs[0];
      result.views.insert(result.views.begin(), id);
    }
    return result;
  }

  Piece piece(const Factored& q, const Factored& k, ValueId v) {
    take(product_);
    for (std::size_t i = 0; i + 1 < taken_.size(); ++i)
      decide(context_, *taken_[i], product_, true, "a step of attention");
    // As float32, as all kernels use it: 1/sqrt(32) and twice 32^-1/4 then are the same scale.
    Attrs attrs{{"scale", double{static_cast<float>(scale_)}}, {"causal", std::int64_t{causal_}}};
    if (mask_.value.valid() && graph_.type(mask_.value).dtype == DType::kBool)
      attrs.set("fill", fill_);
    if (guard_ != ir::kGuardNone) attrs.set("guard", guard_);
    if (program_.body) attrs.set("score_operands", std::ssize(program_.operands));
    if (limits_) attrs.set("limited", std::int64_t{1});
    const FoldedViews mask = mask_source();
    Piece piece;
    piece.reads = {q.source, k.source, v};
    if (mask_.value.valid()) piece.reads.push_back(mask.source);
    if (limits_) piece.reads.push_back(limits_->operand);
    piece.reads.insert(piece.reads.end(), program_.operands.begin(), program_.operands.end());
    for (const Node* node : taken_)
      piece.extents.insert(piece.extents.end(), node->extents.begin(), node->extents.end());
    piece.writes = product_.outputs;
    piece.emit = [&graph = graph_, q_views = q.views, k_views = k.views, mask_views = mask.views,
                  negated = mask_.negated, has_mask = mask_.value.valid(), limits = limits_, attrs,
                  body = program_.body, operands = program_.operands.size(),
                  origins = origins_](GraphBuilder& builder, std::span<const ValueId> reads) {
      std::vector<ValueId> inputs{add_views(builder, graph, reads[0], q_views)};
      const ValueId keys = add_views(builder, graph, reads[1], k_views);
      GraphBuilder::OriginScope scope(builder, origins);
      inputs.push_back(swapped(builder, keys));
      inputs.push_back(reads[2]);
      if (has_mask) {
        const ValueId source = negated ? builder.add("Not", {reads[3]}) : reads[3];
        inputs.push_back(add_views(builder, graph, source, mask_views));
      }
      const auto [scores, of_scores] =
          std::pair(reads.first(reads.size() - operands), reads.last(operands));
      if (limits) inputs.push_back(add_limits(builder, graph, *limits, scores.back()));
      inputs.insert(inputs.end(), of_scores.begin(), of_scores.end());
      return builder.add_multi("Attention", inputs, attrs, body);
    };
    return piece;
  }

  const Graph& graph_;
  Context& context_;
  const Node& product_;
  Shape scores_shape_;
  double scale_ = 1, fill_ = -kInfinity;
  ScoreProgram program_;
  ValueId guarded_, shifted_;  // scores that a guard, a row's maximum read, too
  bool drops_last_ = false;    // weights are without those of the last key
  ValueId sink_;               // its scores
  Mask mask_;
  std::optional<KeyLimits> limits_;
  int causal_ = 0;
  std::int64_t guard_ = ir::kGuardNone;
  std::string refusal_;
  std::vector<std::string> origins_;
  std::vector<const Node*> taken_;
};

}  // namespace

Graph recognise_attention(const Graph& graph, Context& context) {
  if (!context.target.attention && context.target.attention_steps.empty()) return graph;
  std::vector<Piece> pieces;
  for (const Node& node : graph.nodes())
    if (ir::is_plain_matmul(node))
      if (auto piece = AttentionMatcher(graph, context, node).match())
        pieces.push_back(std::move(*piece));
  return rebuild(graph, pieces);
}

}  // namespace sinter::fusion
