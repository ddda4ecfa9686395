// SPDX-License-Identifier: Apache-2.0
#include "fusion/patterns/scores.h"

#include <algorithm>
#include <map>
#include <set>

#include "fusion/regions/operand.h"
#include "fusion/regions/rebuild.h"
#include "ir/scale_format.h"

namespace sinter::fusion {
namespace {

// Operators of a body, which each score runs through.
constexpr std::size_t kMostNodes = 64;

class ScoreReader {
 public:
  ScoreReader(const Graph& graph, ValueId value, double tail, ValueId sink)
      : graph_(graph), value_(value), sink_(sink), tail_(tail), shape_(graph.type(value).shape) {}

  std::optional<ScoreProgram> read(std::string& refusal) {
    find_product(value_);
    if (result_.product == nullptr) return std::nullopt;
    if (!collect(refusal)) return std::nullopt;
    wide_ = compute_type(graph_.type(result_.product->inputs[0]).dtype);
    const ValueId scaled = take_factors();
    if (scaled == value_) {
      result_.factor *= tail_;
      tail_ = 1;
      if (!sink_.valid()) return std::move(result_);
    }
    known_[scaled] = builder_.input("scores", {wide_, shape_});
    for (const auto& [symbol, range] : graph_.ranges()) builder_.range(symbol, range);
    ValueId made = build(value_);
    if (tail_ != 1) made = builder_.add("Mul", {made, builder_.scalar(wide_, tail_)});
    if (built_ > kMostNodes || !(builder_.type(made) == TensorType{wide_, shape_})) {
      refusal = "the scores go through too many operators";
      return std::nullopt;
    }
    builder_.output("", made);
    if (sink_.valid()) {
      result_.operands.push_back(sink_);
      builder_.output("", wide(builder_.input("sink", graph_.type(sink_))));
    }
    result_.body = std::make_shared<const Graph>(builder_.finish());
    return std::move(result_);
  }

 private:
  bool is_score(ValueId value) const {
    return graph_.type(value).shape == shape_ && !graph_.is_constant(value);
  }
  bool is_between(const Node& node) const {
    return node.op->kind == OpKind::kPointwise && node.outputs.size() == 1;
  }

  /// The first matmul that pointwise operators on the scores' shape lead back to.
  void find_product(ValueId value) {
    const Node* node = graph_.producer(value);
    if (result_.product != nullptr || node == nullptr || !is_score(value) ||
        !seen_.insert(value).second)
      return;
    if (ir::is_plain_matmul(*node)) {
      result_.product = node;
      return;
    }
    if (!is_between(*node)) return;
    for (const ValueId input : node->inputs) find_product(input);
  }

  /// Whether `value` depends on the product.
  bool depends(ValueId value) {
    const Node* node = graph_.producer(value);
    if (node == nullptr || !is_score(value)) return false;
    if (node == result_.product) return true;
    const auto [at, is_new] = depends_.try_emplace(value, false);
    if (!is_new || !is_between(*node)) return at->second;
    bool any = false;
    for (const ValueId input : node->inputs) any = depends(input) || any;
    return depends_[value] = any;
  }

  /// Finds the nodes between; false if others read what they make.
  bool collect(std::string& refusal) {
    depends(value_);
    std::set<const Node*> own{result_.product};
    for (const auto& [value, is_own] : depends_)
      if (is_own) own.insert(graph_.producer(value));
    for (const Node* node : own) {
      const ValueId made = node->outputs[0];
      const bool is_inside =
          made == value_ ||
          (!graph_.is_output(made) && std::ranges::all_of(graph_.users(made), [&](NodeId user) {
            return own.contains(&graph_.node(user));
          }));
      if (!is_inside) {
        refusal = "'" + describe(*node) + "' has other readers";
        return false;
      }
    }
    result_.nodes.assign(own.begin(), own.end());
    std::ranges::sort(result_.nodes);
    return true;
  }

  bool is_float_cast(const Node& node) const {
    return node.op->name == "Cast" && is_arithmetic_float(graph_.type(node.inputs[0]).dtype) &&
           is_arithmetic_float(graph_.type(node.outputs[0]).dtype);
  }

  /// Takes factors next to the product; returns what is left to compute from.
  ValueId take_factors() {
    ValueId value = result_.product->outputs[0];
    while (value != value_ && graph_.users(value).size() == 1) {
      const Node& reader = graph_.node(graph_.users(value)[0]);
      if (!is_float_cast(reader)) {
        const auto factor = scalar_factor(graph_, reader, value);
        if (!factor) break;
        result_.factor *= *factor;
      }
      value = reader.outputs[0];
    }
    return value;
  }

  /// Whether it is cheaper to compute `value` for each score than to store it: few operators make
  /// it of vectors, or of the numbers of rows and keys.
  bool is_made_here(ValueId value) const {
    constexpr std::size_t kFewOperators = 12;
    std::set<ValueId> made;
    return makes(value, made) && made.size() <= kFewOperators;
  }
  bool makes(ValueId value, std::set<ValueId>& made) const {
    const Node* node = graph_.producer(value);
    if (node == nullptr) return false;
    if (!made.insert(value).second || node->op->name == "Iota" || node->op->name == "Size")
      return true;
    const auto dims = [&](ValueId of) {
      const Shape& shape = graph_.type(of).shape;
      return std::ranges::count_if(shape, [](const Dim& dim) { return dim != Dim(1); });
    };
    return is_between(*node) && std::ranges::all_of(node->inputs, [&](ValueId input) {
             return splat_value(graph_, input).has_value() || dims(input) < dims(value) ||
                    makes(input, made);
           });
  }

  ValueId wide(ValueId inner) {
    const DType type = builder_.type(inner).dtype;
    return is_arithmetic_float(type) && type != wide_
               ? builder_.add("Cast", {inner}, {{"to", ir::Attr(wide_)}})
               : inner;
  }

  ValueId build(ValueId value) {
    if (const auto known = known_.find(value); known != known_.end()) return known->second;
    const DType type = graph_.type(value).dtype;
    const auto number = splat_value(graph_, value);
    ValueId result;
    if (number && is_float(type)) {
      result = builder_.scalar(wide_, *number);
    } else if (number && graph_.value(value).constant) {
      result = builder_.scalar(type, *number);
    } else if (const bool is_own = depends_.contains(value) && depends_.at(value);
               (is_own || is_made_here(value)) && built_ <= kMostNodes) {
      const Node& node = *graph_.producer(value);
      std::vector<ValueId> inputs;
      for (const ValueId input : node.inputs) inputs.push_back(build(input));
      ++built_;
      if (is_float_cast(node)) {
        result = inputs[0];
      } else if (node.op->name == "Cast" && is_arithmetic_float(type)) {
        result = builder_.add("Cast", inputs, {{"to", ir::Attr(wide_)}});
      } else {
        result = wide(builder_.add(node.op->name, inputs, node.attrs));
      }
    } else {
      result_.operands.push_back(value);
      result = wide(builder_.input(graph_.value(value).name, graph_.type(value)));
    }
    known_[value] = result;
    return result;
  }

  const Graph& graph_;
  ValueId value_, sink_;
  double tail_;
  const Shape& shape_;
  DType wide_ = DType::kFloat32;
  std::set<ValueId> seen_;
  std::map<ValueId, bool> depends_;
  ScoreProgram result_;
  GraphBuilder builder_{"scores"};
  std::map<ValueId, ValueId> known_;
  std::size_t built_ = 0;
};

}  // namespace

std::optional<ScoreProgram> score_program(const Graph& graph, ValueId value, double tail,
                                          ValueId sink, std::string& refusal) {
  return ScoreReader(graph, value, tail, sink).read(refusal);
}

std::optional<ValueId> add_attention_of(GraphBuilder& builder, const Node& node,
                                        std::vector<ValueId> inputs, const Attrs& attrs,
                                        bool may_count_keys) {
  if (!node.body) return builder.add("Attention", std::move(inputs), attrs);
  const auto counts_keys = [](const Node& each) {
    if (each.op->name != "Iota") return false;
    const auto& shape = each.attrs.get_dims("shape");
    return each.attrs.get_int("axis") + 1 == std::ssize(shape) &&
           std::all_of(shape.begin(), shape.end() - 1,
                       [](const Dim& dim) { return dim == Dim(1); });
  };
  for (const Node& each : node.body->nodes())
    if (each.op->kind != OpKind::kPointwise && !(may_count_keys && counts_keys(each)))
      return std::nullopt;
  Attrs all = attrs;
  for (const ir::AttrSpec& spec : node.op->attrs)
    if (spec.default_value && !attrs.has(spec.name)) all.set(spec.name, *spec.default_value);
  all.set("score_operands", node.attrs.get_int("score_operands"));
  std::vector<TensorType> types;
  for (const ValueId input : inputs) types.push_back(builder.type(input));
  types = node.op->body_inputs(all, types);
  // The same operators on values of other types.
  const Graph& old = *node.body;
  GraphBuilder body(old.name());
  for (const auto& [symbol, range] : builder.ranges()) body.range(symbol, range);
  std::vector<ValueId> mapped(old.values().size());
  for (std::size_t i = 0; i < types.size(); ++i)
    mapped[old.inputs()[i].position()] = body.input(old.value(old.inputs()[i]).name, types[i]);
  for (std::size_t i = 0; i < mapped.size(); ++i)
    if (const auto& constant = old.values()[i].constant) mapped[i] = body.constant(constant);
  for (const Node& each : old.nodes()) {
    std::vector<ValueId> operands;
    for (const ValueId input : each.inputs) operands.push_back(mapped[input.position()]);
    Attrs own = each.attrs;
    if (each.op->name == "Iota") {
      Shape shape = own.get_dims("shape");
      shape.back() = types[0].shape.back();
      own.set("shape", std::move(shape));
    }
    mapped[each.outputs[0].position()] = body.add(each.op->name, operands, own);
  }
  for (const ValueId output : old.outputs()) body.output("", mapped[output.position()]);
  return builder.add_multi("Attention", std::move(inputs), all,
                           std::make_shared<const Graph>(body.finish()))[0];
}

}  // namespace sinter::fusion
