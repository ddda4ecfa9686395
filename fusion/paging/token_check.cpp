// SPDX-License-Identifier: Apache-2.0
#include "fusion/paging/token_check.h"

#include <algorithm>

#include <fmt/format.h>

#include "fusion/packing/token_axes.h"
#include "fusion/paging/paging_refused.h"
#include "fusion/patterns/expert_rows.h"
#include "fusion/regions/rebuild.h"

namespace sinter::fusion {
namespace {

[[noreturn]] void refuse_node(const Node& node, const std::string& why) {
  throw PagingRefused(fmt::format("{}: {}", describe(node), why));
}

class TokenCheck {
 public:
  explicit TokenCheck(const Graph& graph)
      : graph_(graph), mixtures_(graph), dims_{Dim(1), tokens_, tokens_} {}

  void run() const {
    for (const Node& node : graph_.nodes())
      if (!is_paged(node)) check(node);
  }

 private:
  /// Whether the node is the first of those that make the output of expert_offsets of what a
  /// mixture's rows were sorted by.
  bool counts_experts(const Node& node) const {
    if (node.op->name != "Slice" || mixtures_.role(node.inputs[0]) != RowRole::kOffsets)
      return false;
    for (ValueId value = node.outputs[0];;) {
      for (std::size_t i = 0; i < graph_.outputs().size(); ++i)
        if (graph_.outputs()[i] == value)
          return graph_.output_names()[i] == paged_names::kExpertOffsets;
      const auto& users = graph_.users(value);
      if (users.size() != 1) return false;
      const Node& next = graph_.node(users[0]);
      if (next.op->name != "Reshape" && next.op->name != "Concat") return false;
      value = next.outputs[0];
    }
  }

  /// Attention over the caches, layers with states in slots, and nodes that write rows of them.
  bool is_paged(const Node& node) const {
    if (node.op->name == "Attention") return node.attrs.get_int("paged") != 0;
    if (node.op->name == "LinearAttention") return node.attrs.get_int("ragged") != 0;
    if (node.op->name == "CausalConv" || node.op->name == "CausalConvStates") return true;
    return node.op->name == "Scatter" && graph_.input_number(node.inputs[0]).has_value();
  }

  bool counts(const Dim& dim) const {
    const auto symbols = dim.symbols();
    return std::ranges::any_of(symbols, [](const std::string& symbol) {
      return symbol == paged_names::kTokens || symbol == paged_names::kCachePositions ||
             symbol == paged_names::kSequences;
    });
  }
  bool counts(const Attrs& attrs, const char* name) const {
    return std::ranges::any_of(attrs.get_dims(name), [&](const Dim& dim) { return counts(dim); });
  }
  bool has_tokens(ValueId value) const {
    return std::ranges::find(graph_.type(value).shape, tokens_) != graph_.type(value).shape.end();
  }
  bool is_sample_rows(ValueId value) const {
    return graph_.value(value).name == paged_names::kSampleRows;
  }

  void check(const Node& node) const {
    if (node.op->generate() != nullptr)
      for (const auto& [name, value] : node.attrs.values())
        if (const auto* dims = std::get_if<std::vector<Dim>>(&value))
          if (std::ranges::any_of(*dims, [&](const Dim& dim) { return counts(dim); }))
            refuse_node(node,
                        "it depends on how many tokens there are, which are those of several "
                        "sequences in a step");
    if ((node.op->name == "Slice" && counts(node.attrs, "starts")) ||
        (node.op->name == "Pad" && (counts(node.attrs, "begins") || counts(node.attrs, "ends"))))
      refuse_node(node, "it takes tokens by their number in the sequence");
    if (mixtures_.is_inside(node) || counts_experts(node)) return;
    const auto mixes = [&] { refuse_node(node, "it is not known to compute token by token"); };
    if (std::ranges::any_of(node.inputs,
                            [&](ValueId input) { return mixtures_.role(input).has_value(); }))
      mixes();
    if (std::ranges::none_of(node.inputs, [&](ValueId input) { return has_tokens(input); })) return;
    if (node.op->name == "Gather" && is_sample_rows(node.inputs[1])) return;
    if (node.op->name == "Route" && graph_.type(node.inputs[0]).shape[0] == tokens_) return;
    if (node.outputs.size() != 1) mixes();
    const Shape& shape = graph_.type(node.outputs[0]).shape;
    if (std::ranges::count(shape, tokens_) != 1) mixes();
    const int axis = static_cast<int>(std::ranges::find(shape, tokens_) - shape.begin());
    const auto operands = operand_axes(graph_, node, {axis, axis}, dims_);
    if (!operands) mixes();
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (!has_tokens(node.inputs[i])) continue;
      const auto& own = (*operands)[i];
      const Shape& from = graph_.type(node.inputs[i]).shape;
      if (!own || own->sequence < 0 || from[dimension(own->sequence)] != tokens_) mixes();
    }
  }

  const Graph& graph_;
  const ExpertRows mixtures_;
  Dim tokens_ = Dim::symbol(paged_names::kTokens);
  TokenDims dims_;
};

}  // namespace

void check_tokens(const Graph& paged) { TokenCheck(paged).run(); }

}  // namespace sinter::fusion
