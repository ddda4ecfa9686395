// SPDX-License-Identifier: Apache-2.0
// Matches spelled-out attention: matmul, scale, softcap, masks, softmax, matmul.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "fusion/passes/passes.h"
#include "fusion/patterns/masks.h"
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
    const Factored q = factored(scores->inputs[0]), k = factored(scores->inputs[1]);
    scale_ *= q.factor * k.factor;
    if (softcap_ != 0) scale_ *= softcap_;
    const ValueId v = product_.inputs[1];
    if (graph_.type(q.source).shape.size() < 2 || graph_.type(k.source).shape.size() < 2)
      return std::nullopt;
    // Only the last dimension of k's type is used here, the second to last of k'.
    std::vector<TensorType> types{graph_.type(scores->inputs[0]), graph_.type(scores->inputs[1]),
                                  graph_.type(v)};
    std::swap(types[1].shape[types[1].shape.size() - 1], types[1].shape[types[1].shape.size() - 2]);
    if (mask_.value.valid()) types.push_back(graph_.type(mask_.value));
    refusal_ = attention_refusal(context_.target, types);
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

  /// The QK' matmul that the softmax reads, through masks and scales.
  const Node* walk_scores(const Node& softmax) {
    scores_shape_ = graph_.type(softmax.inputs[0]).shape;
    ValueId value = softmax.inputs[0];
    // The guard against hidden rows reads the scores, too.
    const bool shared =
        guard_ == ir::kGuardHidden && graph_.users(value).size() == 2 && !graph_.is_output(value);
    for (const Node* node = shared ? graph_.producer(value) : only(value); node != nullptr;
         node = only(value)) {
      if (graph_.type(value).shape != scores_shape_) return nullptr;
      if (ir::is_plain_matmul(*node)) {
        take(*node);
        return node;
      }
      const auto next = before(*node);
      if (!next) return nullptr;
      take(*node);
      value = *next;
    }
    return nullptr;
  }

  /// The input of `node` if it scales, caps, masks or casts scores.
  std::optional<ValueId> before(const Node& node) {
    if (is_wide_cast(node)) return node.inputs[0];
    if (node.op->name == "Where") return unscaled(selected(node));
    if (node.op->name == "Mul" || node.op->name == "Div") {
      for (const ValueId input : node.inputs) {
        const auto factor = scalar_factor(graph_, node, input);
        if (!factor) continue;
        scale_ *= *factor;
        scaled_ = true;
        return input;
      }
    }
    if (node.op->name == "Add") return unscaled(added(node));
    if (node.op->name == "Tanh") return uncapped(node);
    return std::nullopt;
  }

  /// The masked value, unless the masked scores were scaled or capped.
  std::optional<ValueId> unscaled(std::optional<ValueId> scores) {
    if (!scores || !scaled_) return scores;
    refusal_ =
        softcap_ != 0 ? "the masked scores are capped" : "the masked scores are scaled once more";
    return std::nullopt;
  }

  /// The input of a softcap: scores are scale_ * tanh(input); further factors precede it.
  std::optional<ValueId> uncapped(const Node& node) {
    if (softcap_ != 0) {
      refusal_ = "the scores have two soft caps";
      return std::nullopt;
    }
    // The factor's sign can move inside: tanh is odd.
    softcap_ = static_cast<float>(std::abs(scale_));
    if (softcap_ == 0 || std::isinf(softcap_)) {
      refusal_ = "the soft cap of the scores is no float32";
      return std::nullopt;
    }
    scale_ = std::copysign(1.0, scale_);
    scaled_ = true;
    return node.inputs[0];
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
      const bool may_pass = is_wide_cast(*node) || node->op->name == "Where" ||
                            node->op->name == "Add" || node->op->name == "Mul" ||
                            node->op->name == "Div" || node->op->name == "Tanh";
      if (!may_pass) return false;
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
    if (mask_.value.valid()) {
      refusal_ = "the scores have two masks";
      return std::nullopt;
    }
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
      if (mask_.value.valid()) {
        refusal_ = "the scores have two masks";
        return std::nullopt;
      }
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
    if (softcap_ != 0) attrs.set("softcap", softcap_);
    if (limits_) attrs.set("limited", std::int64_t{1});
    const FoldedViews mask = mask_source();
    Piece piece;
    piece.reads = {q.source, k.source, v};
    if (mask_.value.valid()) piece.reads.push_back(mask.source);
    if (limits_) piece.reads.push_back(limits_->operand);
    piece.writes = product_.outputs;
    piece.emit = [&graph = graph_, q_views = q.views, k_views = k.views, mask_views = mask.views,
                  negated = mask_.negated, has_mask = mask_.value.valid(), limits = limits_, attrs,
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
      if (limits) inputs.push_back(add_limits(builder, graph, *limits, reads.back()));
      return std::vector{builder.add("Attention", inputs, attrs)};
    };
    return piece;
  }

  const Graph& graph_;
  Context& context_;
  const Node& product_;
  Shape scores_shape_;
  double scale_ = 1, fill_ = -kInfinity, softcap_ = 0;  // 0: no softcap
  Mask mask_;
  std::optional<KeyLimits> limits_;
  int causal_ = 0;
  std::int64_t guard_ = ir::kGuardNone;
  bool scaled_ = false;
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
