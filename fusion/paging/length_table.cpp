// SPDX-License-Identifier: Apache-2.0
#include "fusion/paging/length_table.h"

#include <algorithm>

#include <fmt/format.h>

#include "fusion/paging/paging_refused.h"

namespace sinter::fusion {

const Node* length_table(const Graph& graph, const Node& node, const DecoderInputs& inputs,
                         const PositionTrials& trials) {
  if (node.op->name != "Gather" || !trials.positions(node.inputs[1])) return nullptr;
  const Node* const table = graph.producer(node.inputs[0]);
  if (table == nullptr || table->op->name != "Slice" || !graph.is_constant(table->inputs[0]))
    return nullptr;
  const auto axis = static_cast<std::size_t>(node.attrs.get_int("axis"));
  const Shape &all = graph.type(table->inputs[0]).shape, &rows = table->attrs.get_dims("shape"),
              &starts = table->attrs.get_dims("starts");
  for (std::size_t d = 0; d < all.size(); ++d)
    if (d != axis && (rows[d] != all[d] || starts[d] != Dim(0))) return nullptr;
  const auto symbols = starts[axis].symbols();
  const auto counts_all = [&](const std::string& symbol) {
    return std::ranges::any_of(inputs.masks, [&](ValueId mask) {
      return graph.type(mask).shape.back() == Dim::symbol(symbol);
    });
  };
  const bool is_chosen = table->attrs.get_ints("steps")[axis] == 1 && !symbols.empty() &&
                         std::ranges::all_of(symbols, counts_all);
  return is_chosen ? table : nullptr;
}

ValueId of_lengths(GraphBuilder& builder, const Dim& dim, ValueId lengths) {
  const DType type = builder.type(lengths).dtype;
  ValueId sum;
  for (const Dim::Term& term : dim.terms()) {
    ValueId product = builder.scalar(type, static_cast<double>(term.coefficient));
    for (const auto& factor : term.factors) {
      using Kind = ir::DimAtom::Kind;
      ValueId value = lengths;
      if (factor->kind == Kind::kFloorDiv)
        throw PagingRefused(
            fmt::format("a table is chosen by '{}' of all tokens: minima and maxima may do so",
                        dim.to_string()));
      if (factor->kind != Kind::kSymbol)
        value = builder.add(
            factor->kind == Kind::kMin ? "Min" : "Max",
            {of_lengths(builder, factor->a, lengths), of_lengths(builder, factor->b, lengths)});
      product = builder.add("Mul", {product, value});
    }
    sum = sum.valid() ? builder.add("Add", {sum, product}) : product;
  }
  return sum.valid() ? sum : builder.scalar(type, 0);
}

}  // namespace sinter::fusion
