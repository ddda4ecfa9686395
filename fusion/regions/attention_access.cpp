// SPDX-License-Identifier: Apache-2.0
#include "fusion/regions/attention_access.h"

#include <algorithm>

#include <fmt/format.h>

#include "fusion/regions/broadcast.h"
#include "fusion/regions/operand.h"
#include "ir/affine.h"
#include "ir/attention_inputs.h"

namespace sinter::fusion {
namespace {

constexpr std::int64_t kLongestHead = 256;       // of generated kernels
constexpr std::int64_t kLongestStepHead = 4096;  // limit in plan.fbs

/// Index symbols of a value; one batch dimension may be split in two.
struct StridedIndex {
  Ranges ranges;
  std::vector<Dim> dims;
  std::vector<std::string> symbols;

  StridedIndex(const Shape& shape, const Ranges& graph_ranges) : ranges(graph_ranges) {
    dims = ir::index_symbols(shape, ranges);
    symbols = ir::index_symbol_names(shape.size());
  }

  void split(std::size_t d, const Dim& outer, std::int64_t factor) {
    const std::string low = ir::index_symbol(static_cast<int>(dims.size()));
    for (const auto& [name, extent] : {std::pair(symbols[d], outer), std::pair(low, Dim(factor))})
      ranges.insert_or_assign(name, ir::index_range(extent, ranges));
    symbols.push_back(low);
    dims[d] = Dim::symbol(symbols[d]) * Dim(factor) + Dim::symbol(low);
  }
};

bool is_strided_at(const Graph& graph, ValueId value, const StridedIndex& index, bool contiguous) {
  const auto source = ir::trace_to_source(graph, value, index.dims, index.ranges);
  if (!source) return false;
  const Dim address = linearize(source->index, graph.type(source->source).shape);
  const auto form = ir::linear_form(ir::simplify(address, index.ranges), index.symbols);
  if (!form) return false;
  return !contiguous || form->strides[graph.type(value).shape.size() - 1] == Dim(1);
}

/// Undoes transposes and reshapes, last first: the value as a view of the stored tensor.
Graph inverse_views(const Graph& graph, ValueId value, std::span<const NodeId> views) {
  GraphBuilder builder("stored");
  for (const auto& [symbol, range] : graph.ranges()) builder.range(symbol, range);
  const ValueId last = views.empty() ? value : graph.node(views.back()).outputs[0];
  ValueId result = builder.input("stored", graph.type(last));
  for (auto id = views.rbegin(); id != views.rend(); ++id) {
    const Node& view = graph.node(*id);
    if (view.op->name == "Reshape") {
      result = builder.add("Reshape", {result}, {{"shape", graph.type(view.inputs[0]).shape}});
      continue;
    }
    result = builder.add("Transpose", {result}, {{"perm", inverse(view.attrs.get_ints("perm"))}});
  }
  builder.output("value", result);
  return builder.finish();
}

/// Why matmuls and a softmax in float32 are not one kernel.
std::string float32_refusal(const Context& context, std::span<const TensorType> inputs) {
  if (context.precision == Precision::kTf32) return "attention kernels do not round to TF32";
  if (inputs.size() > 3) return "float32 attention kernels take no masks, limits or sequences";
  if (inputs[1].dtype != DType::kFloat32 || inputs[2].dtype != DType::kFloat32)
    return "attention kernels take queries, keys and values of one type";
  const Shape &q = inputs[0].shape, &k = inputs[1].shape, &v = inputs[2].shape;
  constexpr std::int64_t kLongest = 128, kHeadUnit = 8, kValueUnit = 32, kLeastRows = 64;
  for (const auto& [head, unit] : {std::pair(k.back(), kHeadUnit), std::pair(v.back(), kValueUnit)})
    if (!head.is_constant() || head.value() % unit != 0 || head.value() > kLongest)
      return fmt::format(
          "float32 attention kernels take heads of a multiple of {} up to {}, not {}", unit,
          kLongest, head.to_string());
  Shape scores = q;
  scores.back() = k[k.size() - 2];
  const Dim rows = q[q.size() - 2], bytes = ir::element_count(scores) * Dim(4);
  if (!bytes.is_constant() || bytes.value() <= context.target.float32_attention_bytes ||
      rows.value() < kLeastRows)
    return fmt::format("float32 scores that fit the L2 are stored: {} bytes of at most {}",
                       bytes.to_string(), context.target.float32_attention_bytes);
  return "";
}

}  // namespace

std::string attention_refusal(const Context& context, std::span<const TensorType> inputs) {
  const TargetTraits& target = context.target;
  const DType type = inputs[0].dtype;
  if (ir::is_eight_bit_attention(type))  // the pass has checked the heads
    return target.first_of("Attention", false) != nullptr
               ? ""
               : fmt::format("this target has no attention of {}", to_string(type));
  const bool step = target.attention_steps.count(type) > 0;
  if (!step && !target.attention)
    return fmt::format("this target has no attention of {}", to_string(type));
  if (!step && type == DType::kFloat32 && target.float32_attention_bytes > 0)
    return float32_refusal(context, inputs);
  if (!step && type != DType::kFloat16 && type != DType::kBFloat16)
    return fmt::format("attention kernels take float16 and bfloat16, not {}", to_string(type));
  const DType keys = inputs[1].dtype;
  const ir::OperandFormats* const scaled = target.takes("Attention", type, to_string(keys), true);
  if (inputs[2].dtype != keys || (keys != type && scaled == nullptr))
    return "attention kernels take queries, keys and values of one type";
  const std::int64_t longest = step ? kLongestStepHead : kLongestHead,
                     multiple = std::max<std::int64_t>(1, scaled != nullptr ? scaled->unit : 1);
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
  const Shape& shape = graph.type(value).shape;
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
