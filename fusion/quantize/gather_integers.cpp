#include "fusion/quantize/gather_integers.h"

#include <algorithm>
#include <map>

#include "fusion/patterns/dequantization.h"

namespace sinter::fusion {
namespace {

using ir::Dim;
using ir::Graph;
using ir::Node;
using ir::OpKind;
using ir::Shape;
using ir::ValueId;

/// Adds the rows that `indices` name of values that are computed row by row.
class RowSink {
 public:
  RowSink(const Graph& graph, ConstantValues& values, ir::GraphBuilder& builder, ValueId indices,
          Dim rows)
      : graph_(graph),
        values_(values),
        builder_(builder),
        indices_(indices),
        rows_(std::move(rows)) {}

  ValueId gathered(ValueId value) {
    const auto known = done_.find(value);
    if (known != done_.end()) return known->second;
    return done_[value] = gather(value);
  }

 private:
  bool has_rows(ValueId value, std::size_t rank) const {
    const Shape& shape = graph_.type(value).shape;
    return shape.size() == rank && !shape.empty() && shape[0] == rows_;
  }

  ValueId gather(ValueId value) {
    const Node* node = graph_.producer(value);
    if (node != nullptr && node->op->kind == OpKind::kPointwise) {
      const std::size_t rank = graph_.type(value).shape.size();
      std::vector<ValueId> inputs;
      // What is the same in all rows broadcasts from behind.
      for (const ValueId input : node->inputs)
        inputs.push_back(has_rows(input, rank) ? gathered(input)
                                               : builder_.constant(values_.tensor(input)));
      return builder_.add(node->op->name, std::move(inputs), node->attrs);
    }
    if (node != nullptr && keeps_rows(*node)) return view(*node);
    return builder_.add("Gather", {builder_.constant(values_.tensor(value)), indices_},
                        {{"axis", std::int64_t{0}}});
  }

  /// True for a view that leaves rows what and where they are.
  bool keeps_rows(const Node& node) const {
    const Shape &from = graph_.type(node.inputs[0]).shape, &to = graph_.type(node.outputs[0]).shape;
    if (from.empty() || to.empty() || from[0] != rows_ || to[0] != rows_) return false;
    if (node.op->name == "Slice")
      return node.attrs.get_dims("starts")[0] == Dim(0) && node.attrs.get_ints("steps")[0] == 1;
    return node.op->name == "Reshape" || (node.op->name == "Expand" && from.size() == to.size());
  }

  ValueId view(const Node& node) {
    const ValueId input = gathered(node.inputs[0]);
    const Shape places = builder_.type(indices_).shape;
    const auto with_places = [&](auto list, auto place) {
      list.erase(list.begin());
      for (std::size_t d = places.size(); d-- > 0;) list.insert(list.begin(), place(d));
      return list;
    };
    ir::Attrs attrs = node.attrs;
    attrs.set("shape",
              with_places(node.attrs.get_dims("shape"), [&](auto d) { return places[d]; }));
    if (node.op->name == "Slice") {
      attrs.set("starts", with_places(node.attrs.get_dims("starts"), [](auto) { return Dim(0); }));
      attrs.set("steps",
                with_places(node.attrs.get_ints("steps"), [](auto) { return std::int64_t{1}; }));
    }
    return builder_.add(node.op->name, {input}, std::move(attrs));
  }

  const Graph& graph_;
  ConstantValues& values_;
  ir::GraphBuilder& builder_;
  ValueId indices_;
  Dim rows_;
  std::map<ValueId, ValueId> done_;
};

}  // namespace

std::optional<Piece> gather_integers(const Graph& graph, ConstantValues& values, const Node& node) {
  if (node.op->name != "Gather" || node.attrs.get_int("axis") != 0) return std::nullopt;
  const ValueId data = node.inputs[0], indices = node.inputs[1];
  if (graph.is_constant(data) || graph.type(data).shape.size() < 2 || values.knows(indices))
    return std::nullopt;
  if (!match_dequantization(graph, data, [&](ValueId value) { return values.knows(value); }))
    return std::nullopt;
  Piece piece;
  piece.reads = {indices};
  piece.writes = node.outputs;
  piece.emit = [&graph, &values, &node, data](ir::GraphBuilder& builder,
                                              std::span<const ValueId> reads) {
    ir::GraphBuilder::OriginScope scope(builder, node.origins);
    RowSink sink(graph, values, builder, reads[0], graph.type(data).shape[0]);
    return std::vector{sink.gathered(data)};
  };
  return piece;
}

}  // namespace sinter::fusion
