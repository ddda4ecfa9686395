// SPDX-License-Identifier: Apache-2.0
// Encoders without padding: nodes that compute token by token run on a batch's concatenated tokens,
// and attention stays within each sequence.
#include <algorithm>
#include <optional>
#include <set>

#include <fmt/format.h>
#include <sinter/error.h>

#include "fusion/packing/packing.h"
#include "fusion/packing/token_cases.h"
#include "fusion/passes/passes.h"
#include "fusion/patterns/masks.h"
#include "fusion/patterns/scores.h"
#include "fusion/regions/rebuild.h"
#include "ir/affine.h"
#include "ir/attention_inputs.h"

namespace sinter::fusion {
namespace {

[[noreturn]] void refuse(const Node& node, const std::string& why) {
  throw Error(ErrorCode::kUnsupported,
              fmt::format("--packed: {}: {}; compile without --packed", describe(node), why));
}

bool is_integer_cast(const Graph& graph, const Node& node) {
  return node.op->name == "Cast" && is_integer(graph.type(node.outputs[0]).dtype);
}

/// Whether the input `value` is an index into something, and thus no mask.
bool is_index(const Graph& graph, ValueId value) {
  return std::ranges::any_of(graph.users(value), [&](NodeId user) {
    const Node& node = graph.node(user);
    if (node.op->take() != nullptr || node.op->scatter() != nullptr)
      return std::find(node.inputs.begin() + 1, node.inputs.end(), value) != node.inputs.end();
    const bool passes = node.op->kind == OpKind::kView || is_integer_cast(graph, node);
    return passes && is_index(graph, node.outputs[0]);
  });
}

/// An attention whose keys are masked where a mask marks padding.
struct MaskedAttention {
  ValueId mask;  // the input
  TokenAxes axes;
};

/// `node` in this form; otherwise `why` has the reason.
std::optional<MaskedAttention> masked_attention(const Graph& graph, const Node& node,
                                                std::string& why) {
  const auto no = [&](std::string reason) {
    why = std::move(reason);
    return std::nullopt;
  };
  const ir::AttentionInputs which =
      ir::attention_inputs(node.attrs, node.inputs.size(), graph.type(node.inputs[1]).dtype);
  if (which.key_scales) return no("its keys and values have 8 bits and scales");
  if (node.attrs.get_int("causal") != 0)
    return no("its rows see the keys in front of them alone (causal)");
  if (which.limits) return no("its rows see the keys before a limit");
  if (!which.mask) return no("it has no mask");
  const Shape &q = graph.type(node.inputs[0]).shape, &k = graph.type(node.inputs[1]).shape,
              &v = graph.type(node.inputs[2]).shape;
  const std::size_t rank = q.size();
  if (k.size() != rank || v.size() != rank || q[rank - 2] != k[rank - 2])
    return no(
        fmt::format("its queries {} are not as many as its keys {}", to_string(q), to_string(k)));
  Shape scores = graph.type(node.outputs[0]).shape;
  scores.back() = k[rank - 2];
  Ranges ranges = graph.ranges();
  const auto index = ir::index_symbols(scores, ranges);
  const ValueId mask = node.inputs[*which.mask];
  const Shape& shape = graph.type(mask).shape;
  std::vector<Dim> own_index(index.end() - static_cast<std::ptrdiff_t>(shape.size()), index.end());
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (shape[d] == Dim(1)) own_index[d] = Dim(0);
  const auto cases = token_cases(graph, mask, own_index, ranges);
  if (!cases || cases->is_constant())
    return no("its mask depends on more than a mask [batch, sequence] that is an input");
  const Value& input = graph.value(cases->mask);
  const bool selects = graph.type(mask).dtype == DType::kBool;
  const double absent = cases->absent.at(0), present = cases->present.at(0);
  if (selects ? present == 0 || absent != 0 || node.attrs.get_float("fill") > kHidden
              : present != 0 || !(absent <= kHidden))
    return no(
        fmt::format("its mask does not hide the keys where '{}' is 0 from all others", input.name));
  if (is_index(graph, cases->mask))
    return no(
        fmt::format("its mask is made of '{}', which chooses elements of others and so is "
                    "no mask of 0 and 1",
                    input.name));
  if (cases->index[1] != index.back())
    return no(fmt::format("the last dimension of '{}' is not that of its keys", input.name));
  for (std::size_t d = 0; d + 2 < rank; ++d) {
    const bool is_batch = cases->index[0] == (input.type.shape[0] == Dim(1) ? Dim(0) : index[d]) &&
                          (input.type.shape[0] != Dim(1) || scores[d] == Dim(1));
    if (!is_batch) continue;
    for (const Shape* operand : {&q, &k, &v})
      if ((*operand)[d] != input.type.shape[0])
        return no(
            fmt::format("its operands have a batch of {}, '{}' of {}: if they are one, say "
                        "so with --dim {}={}",
                        (*operand)[d].to_string(), input.name, input.type.shape[0].to_string(),
                        input.type.shape[0].to_string(), (*operand)[d].to_string()));
    if (q[rank - 2] != input.type.shape[1])
      return no(fmt::format("its sequences are of {}, '{}' of {}", q[rank - 2].to_string(),
                            input.name, input.type.shape[1].to_string()));
    return MaskedAttention{cases->mask, {static_cast<int>(d), static_cast<int>(rank) - 2, Dim(1)}};
  }
  return no(fmt::format("no dimension of its queries is the batch of '{}'", input.name));
}

class SequencePacker {
 public:
  SequencePacker(const Graph& graph, bool first) : graph_(graph), first_(first) {}

  Graph run() {
    find_attention();
    return ir::rewrite(
        graph_, [&](GraphBuilder& builder, const Graph&, const Node& node,
                    std::span<const ValueId> inputs) { return visit(builder, node, inputs); });
  }

  /// Whether a node reads the first position of each sequence.
  bool reads_first() const { return reads_first_; }
  std::string note() const {
    return fmt::format(
        "packed: {} attention(s) within the sequences of '{}', whose tokens are "
        "counted when it is set",
        attentions_.size(), graph_.value(mask_).name);
  }

 private:
  void find_attention() {
    std::string first_why;
    const Node* first = nullptr;
    for (const Node& node : graph_.nodes()) {
      if (node.op->name != "Attention") continue;
      std::string why;
      const auto found = masked_attention(graph_, node, why);
      if (found && (!mask_.valid() || found->mask == mask_)) {
        mask_ = found->mask;
        attentions_.emplace(node.outputs[0], found->axes);
        continue;
      }
      if (found) why = "it has another mask than the attention in front";
      whys_.emplace(node.outputs[0], why);
      if (first == nullptr) {
        first = &node;
        first_why = why;
      }
    }
    if (mask_.valid()) return;
    if (first != nullptr) refuse(*first, first_why);
    throw Error(ErrorCode::kUnsupported,
                "--packed: no attention was found for which the target has a kernel (on a GPU it "
                "takes --precision fp16 or bf16): compile without --packed");
  }

  std::optional<std::vector<ValueId>> visit(GraphBuilder& builder, const Node& node,
                                            std::span<const ValueId> inputs) {
    if (!packing_) packing_.emplace(builder, graph_, mask_, symbol(), first_);
    for (std::size_t i = 0; i < inputs.size(); ++i) packing_->set_copy(node.inputs[i], inputs[i]);
    if (const auto found = attentions_.find(node.outputs[0]); found != attentions_.end())
      return with_node(node, [&] { return std::vector{attention(builder, node, found->second)}; });
    std::optional<std::size_t> operand;
    for (std::size_t i = 0; i < node.inputs.size() && !operand; ++i)
      if (means_nothing(node.inputs[i])) operand = i;
    if (!operand) return std::nullopt;
    return with_node(node, [&] { return token_wise(builder, node, inputs, *operand); });
  }

  /// Adds the node's name to packing errors.
  template <typename Make>
  static auto with_node(const Node& node, const Make& make) -> decltype(make()) {
    try {
      return make();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnsupported ||
          std::string_view(error.what()).starts_with("--packed"))
        throw;
      refuse(node, error.what());
    }
  }

  /// A name that no other size has.
  std::string symbol() const {
    std::string name = "tokens";
    const auto is_taken = [&] {
      return graph_.ranges().contains(name) ||
             std::ranges::any_of(graph_.inputs(), [&](const ValueId input) {
               return std::ranges::any_of(graph_.type(input).shape, [&](const Dim& dim) {
                 const auto symbols = dim.symbols();
                 return std::ranges::find(symbols, name) != symbols.end();
               });
             });
    };
    while (is_taken()) name += "_";
    return name;
  }

  /// Whether the padding of `value` differs from that of a padded run.
  bool means_nothing(ValueId value) const {
    return packing_->axes_of(value) != nullptr && !cleared_.contains(value);
  }

  ValueId attention(GraphBuilder& builder, const Node& node, const TokenAxes& axes) {
    std::vector<ValueId> operands;
    for (std::size_t i = 0; i < 3; ++i) operands.push_back(packing_->packed(node.inputs[i], axes));
    operands.push_back(packing_->bounds());
    GraphBuilder::OriginScope scope(builder, node.origins);
    const auto result =
        node.attrs.get_int("score_operands") > 0
            ? std::nullopt
            : add_attention_of(builder, node, operands,
                               {{"scale", node.attrs.get_float("scale")},
                                {"guard", node.attrs.get_int("guard")},
                                {"packed", std::vector<Dim>{packing_->dims().sequence}}});
    if (!result) refuse(node, "its scores depend on more than queries and keys");
    packing_->set_packed(node.outputs[0], axes, *result);
    return packing_->padded(node.outputs[0], graph_.type(node.outputs[0]), axes);
  }

  std::optional<std::vector<ValueId>> token_wise(GraphBuilder& builder, const Node& node,
                                                 std::span<const ValueId> inputs,
                                                 std::size_t operand) {
    const TokenDims& dims = packing_->dims();
    const auto axes =
        result_axes(graph_, node, operand, *packing_->axes_of(node.inputs[operand]), dims);
    const auto operands = axes ? operand_axes(graph_, node, *axes, dims) : std::nullopt;
    const bool fits = operands && std::ranges::all_of(node.inputs, [&](const ValueId& input) {
                        const auto i = static_cast<std::size_t>(&input - node.inputs.data());
                        return !means_nothing(input) || (*operands)[i] == *packing_->axes_of(input);
                      });
    if (!fits) {
      check_mixing(node);
      return std::nullopt;
    }
    std::vector<ValueId> packed;
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      packed.push_back((*operands)[i] ? packing_->packed(node.inputs[i], *(*operands)[i])
                                      : inputs[i]);
    const ValueId result = node.outputs[0];
    packing_->set_packed(result, *axes, add_packed(builder, graph_, node, *axes, packed, dims));
    if (clears(node, *axes)) {
      cleared_.insert(result);
      return std::nullopt;  // its padded form is computed from padded operands
    }
    return std::vector{packing_->padded(result, graph_.type(result), *axes)};
  }

  /// Whether a mask makes the result's padding equal to that of a padded run.
  bool clears(const Node& node, const TokenAxes& axes) const {
    const bool multiplies = node.op->name == "Mul", selects = node.op->name == "Where";
    if (!multiplies && !selects) return false;
    const Shape& shape = graph_.type(node.outputs[0]).shape;
    Ranges ranges = graph_.ranges();
    const auto index = ir::index_symbols(shape, ranges);
    /// The operand at padding positions.
    const auto absent = [&](ValueId value) -> std::optional<double> {
      const Shape& own = graph_.type(value).shape;
      std::vector<Dim> own_index(index.end() - static_cast<std::ptrdiff_t>(own.size()),
                                 index.end());
      for (std::size_t d = 0; d < own.size(); ++d)
        if (own[d] == Dim(1)) own_index[d] = Dim(0);
      const auto cases = token_cases(graph_, value, own_index, ranges);
      if (!cases || cases->mask != mask_ || axes.is_flat() || axes.merged != Dim(1) ||
          cases->index[0] != index_at(shape, index, axes.batch) ||
          cases->index[1] != index_at(shape, index, axes.sequence))
        return std::nullopt;
      return cases->absent.at(0);
    };
    if (multiplies) return absent(node.inputs[0]) == 0.0 || absent(node.inputs[1]) == 0.0;
    const auto chosen = absent(node.inputs[0]);
    return chosen && !means_nothing(node.inputs[*chosen != 0 ? 1 : 2]);
  }

  static Dim index_at(const Shape& shape, const std::vector<Dim>& index, int axis) {
    const auto d = static_cast<std::size_t>(axis);
    return shape[d] == Dim(1) ? Dim(0) : index[d];
  }

  /// A node that mixes tokens may read values with meaningless padding only at each sequence's
  /// first position.
  void check_mixing(const Node& node) {
    for (const ValueId input : node.inputs) {
      if (!means_nothing(input)) continue;
      const TokenAxes& axes = *packing_->axes_of(input);
      if (takes_first(node, input, axes)) {
        reads_first_ = true;
        continue;
      }
      if (const auto why = whys_.find(node.outputs[0]); why != whys_.end())
        refuse(node, why->second);
      refuse(node, fmt::format("it is not computed token by token, and reads {} also where a "
                               "sequence has no token",
                               to_string(graph_.type(input))));
    }
  }

  bool takes_first(const Node& node, ValueId input, const TokenAxes& axes) const {
    if (axes.is_flat()) return false;
    const auto d = static_cast<std::size_t>(axes.sequence);
    if (node.op->name == "Slice")
      return node.attrs.get_dims("starts")[d] == Dim(0) &&
             node.attrs.get_dims("shape")[d] == Dim(1);
    if (node.op->name == "Gather")
      return node.inputs[0] == input && node.attrs.get_int("axis") == axes.sequence &&
             splat_value(graph_, node.inputs[1]) == 0.0;
    return false;
  }

  const Graph& graph_;
  bool first_;
  ValueId mask_;
  std::map<ValueId, TokenAxes> attentions_;  // by result
  std::map<ValueId, std::string> whys_;      // of attentions that do not qualify
  std::optional<Packing> packing_;
  std::set<ValueId> cleared_;
  bool reads_first_ = false;
};

/// If there is no attention because something similar is none: reports why.
void require_attention(const Graph& graph, const Context& context) {
  const bool has_one = std::ranges::any_of(
      graph.nodes(), [](const Node& node) { return node.op->name == "Attention"; });
  if (has_one) return;
  for (const Decision& decision : context.decisions)
    if (decision.sought == "Attention" && !decision.fused)
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("--packed: {} is taken for no attention ({}); compile without "
                              "--packed",
                              decision.consumer, decision.reason));
}

}  // namespace

Graph pack_sequences(const Graph& graph, Context& context) {
  if (!context.packed) return graph;
  if (!context.fuse)
    throw Error(
        ErrorCode::kUsage,
        "--packed packs attention, which --fuse=off does not look for: leave one of both out");
  require_attention(graph, context);
  SequencePacker packer(graph, false);
  Graph packed = packer.run();
  context.notes.push_back(packer.note());
  // The token count, which has the constraint on masks, precedes all readers of positions.
  if (packer.reads_first()) packed = SequencePacker(graph, true).run();
  return packed;
}

}  // namespace sinter::fusion
