#include "fusion/regions/attention_access.h"

#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "fusion/regions/operand.h"
#include "ir/affine.h"

namespace sinter::fusion {
namespace {

using ir::Dim;
using ir::Graph;
using ir::Node;
using ir::NodeId;
using ir::ValueId;

constexpr std::int64_t kLongestHead = 256;       // of kernels
constexpr std::int64_t kLongestStepHead = 4096;  // as plan.fbs says

/// StridedIndex symbols of a value, one batch dimension possibly as two.
struct StridedIndex {
  ir::Ranges ranges;
  std::vector<Dim> dims;
  std::vector<std::string> symbols;

  StridedIndex(const ir::Shape& shape, const ir::Ranges& graph_ranges) : ranges(graph_ranges) {
    dims = ir::index_symbols(shape, ranges);
    for (std::size_t d = 0; d < shape.size(); ++d)
      symbols.push_back(ir::index_symbol(static_cast<int>(d)));
  }

  void split(std::size_t d, const Dim& outer, std::int64_t factor) {
    const auto add = [&](const std::string& name, const Dim& extent) {
      ir::Range range;
      range.min = 0;
      if (const auto upper = ir::upper_bound(extent, ranges)) range.max = *upper - 1;
      range.symbolic_max = std::make_shared<const Dim>(extent - Dim(1));
      ranges.insert_or_assign(name, std::move(range));
    };
    const std::string low = ir::index_symbol(static_cast<int>(dims.size()));
    add(symbols[d], outer);
    add(low, Dim(factor));
    symbols.push_back(low);
    dims[d] = Dim::symbol(symbols[d]) * Dim(factor) + Dim::symbol(low);
  }
};

bool is_strided_at(const Graph& graph, ValueId value, const StridedIndex& index, bool contiguous) {
  const ir::TracedView view = ir::trace_view(graph, value, index.dims, index.ranges);
  if (view.sources.size() != 1 || !view.sources[0].guards.empty()) return false;
  const ir::TracedSource& source = view.sources[0];
  const auto strides = ir::contiguous_strides(graph.type(source.source).shape);
  Dim address = 0;
  for (std::size_t d = 0; d < source.index.size(); ++d)
    address = address + source.index[d] * strides[d];
  const auto form = ir::linear_form(ir::simplify(address, index.ranges), index.symbols);
  if (!form) return false;
  return !contiguous || form->strides[graph.type(value).shape.size() - 1] == Dim(1);
}

/// The views `views` of a value of type `from` in a graph of their own.
Graph views_only(const Graph& graph, const ir::TensorType& from, std::span<const NodeId> views) {
  ir::GraphBuilder builder("views");
  for (const auto& [symbol, range] : graph.ranges()) builder.range(symbol, range);
  ValueId value = builder.input("source", from);
  for (const NodeId id : views)
    value = builder.add(graph.node(id).op->name, {value}, graph.node(id).attrs);
  builder.output("value", value);
  return builder.finish();
}

/// Undoes transposes and reshapes, last first: the value as a view of what is stored.
Graph inverse_views(const Graph& graph, ValueId value, std::span<const NodeId> views) {
  ir::GraphBuilder builder("stored");
  for (const auto& [symbol, range] : graph.ranges()) builder.range(symbol, range);
  const ValueId last = views.empty() ? value : graph.node(views.back()).outputs[0];
  ValueId result = builder.input("stored", graph.type(last));
  for (auto id = views.rbegin(); id != views.rend(); ++id) {
    const Node& view = graph.node(*id);
    if (view.op->name == "Reshape") {
      result = builder.add("Reshape", {result}, {{"shape", graph.type(view.inputs[0]).shape}});
      continue;
    }
    const auto& perm = view.attrs.get_ints("perm");
    std::vector<std::int64_t> inverse(perm.size());
    for (std::size_t d = 0; d < perm.size(); ++d)
      inverse[static_cast<std::size_t>(perm[d])] = static_cast<std::int64_t>(d);
    result = builder.add("Transpose", {result}, {{"perm", std::move(inverse)}});
  }
  builder.output("value", result);
  return builder.finish();
}

}  // namespace

std::string attention_refusal(const TargetTraits& target, std::span<const ir::TensorType> inputs) {
  const DType type = inputs[0].dtype;
  const bool step = target.attention_steps.count(type) > 0;
  if (!step && !target.attention)
    return fmt::format("this target has no attention of {}", to_string(type));
  if (!step && type != DType::kFloat16 && type != DType::kBFloat16)
    return fmt::format("attention kernels take float16 and bfloat16, not {}", to_string(type));
  if (inputs[1].dtype != type || inputs[2].dtype != type)
    return "attention kernels take queries, keys and values of one type";
  const std::int64_t longest = step ? kLongestStepHead : kLongestHead, multiple = step ? 1 : 8;
  for (const Dim& head : {inputs[1].shape.back(), inputs[2].shape.back()})
    if (!head.is_constant() || head.value() < multiple || head.value() > longest ||
        head.value() % multiple != 0)
      return fmt::format("attention kernels take heads of a multiple of {} up to {}, not {}",
                         multiple, longest, head.to_string());
  if (inputs.size() > 3 && inputs[3].dtype == DType::kFloat64)
    return "attention kernels add no float64 mask";
  return "";
}

bool is_strided_rows(const Graph& graph, ValueId value, bool contiguous) {
  const ir::Shape& shape = graph.type(value).shape;
  if (shape.size() < 2) return !contiguous;
  const StridedIndex whole(shape, graph.ranges());
  if (is_strided_at(graph, value, whole, contiguous)) return true;
  for (std::size_t d = 0; d + 2 < shape.size(); ++d) {
    for (std::int64_t factor = 2; factor <= 256; ++factor) {
      const auto outer = ir::divide_exactly(shape[d], Dim(factor));
      if (!outer || *outer == Dim(1)) continue;
      StridedIndex index = whole;
      index.split(d, *outer, factor);
      if (is_strided_at(graph, value, index, contiguous)) return true;
    }
  }
  return false;
}

FoldedViews fold_views(const Graph& graph, ValueId value, bool contiguous) {
  FoldedViews best{value, {}}, next = best;
  while (true) {
    const NodeId id = graph.value(next.source).producer;
    if (!id.valid() || !is_single_view(graph.node(id))) return best;
    next.source = graph.node(id).inputs[0];
    next.views.insert(next.views.begin(), id);
    const Graph views = views_only(graph, graph.type(next.source), next.views);
    if (is_strided_rows(views, views.outputs()[0], contiguous)) best = next;
  }
}

std::vector<NodeId> stored_views(const Graph& graph, ValueId value) {
  std::vector<NodeId> best, next;
  ValueId current = value;
  while (true) {
    const auto& users = graph.users(current);
    if (graph.is_output(current) || users.size() != 1) return best;
    const Node& reader = graph.node(users[0]);
    if (reader.op->name != "Transpose" && reader.op->name != "Reshape") return best;
    next.push_back(users[0]);
    current = reader.outputs[0];
    if (reader.op->name != "Transpose") continue;
    const Graph inverse = inverse_views(graph, value, next);
    if (is_strided_rows(inverse, inverse.outputs()[0], true)) best = next;
  }
}

}  // namespace sinter::fusion
