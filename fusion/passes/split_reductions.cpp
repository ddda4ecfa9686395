// Few long rows leave most of a GPU idle: such a reduction becomes one of parts and one of their
// results. Both have a fixed order, so results stay the same from run to run.
#include <algorithm>
#include <array>

#include "fusion/passes/passes.h"

namespace sinter::fusion {
namespace {

// What a GPU's multiprocessors take at once, and rows that fill them by themselves; below so many
// bytes a second launch costs more than it saves.
constexpr std::int64_t kParts = 528, kMostRows = 16, kShortestPart = 2048;
constexpr std::int64_t kLeastBytes = 4 << 20;
// Rows whose elements are far apart are done side by side: a cache line of them in a block at
// least.
constexpr std::int64_t kLine = 128, kMostLines = 66, kShortestColumn = 128;
constexpr std::int64_t kFewestParts = 8;  // fewer are not worth it

struct Kind {
  std::string_view whole, of_parts;
  bool rounds;  // parts in 16 bits would lose what the whole does not
};
constexpr std::array<Kind, 6> kKinds = {{{"ReduceSum", "ReduceSum", true},
                                         {"ReduceMean", "ReduceMean", true},
                                         {"ReduceSumSquare", "ReduceSum", true},
                                         {"ReduceProd", "ReduceProd", true},
                                         {"ReduceMax", "ReduceMax", false},
                                         {"ReduceMin", "ReduceMin", false}}};

/// The greatest divisor of `n` up to `most`.
std::int64_t greatest_divisor(std::int64_t n, std::int64_t most) {
  for (std::int64_t d = std::min(n, most); d > 1; --d)
    if (n % d == 0) return d;
  return 1;
}

/// Of a reduction over axes of constant size: one of them in `parts` parts.
struct Split {
  std::size_t axis = 0;
  std::int64_t parts = 0;
};

std::optional<Split> find_split(const TensorType& type, const Ints& axes) {
  std::int64_t kept = 1, reduced = 1;
  for (std::size_t d = 0; d < type.shape.size(); ++d) {
    if (!type.shape[d].is_constant()) return std::nullopt;
    const bool is_reduced = std::ranges::find(axes, static_cast<std::int64_t>(d)) != axes.end();
    (is_reduced ? reduced : kept) *= type.shape[d].value();
  }
  const auto bytes = kept * reduced * static_cast<std::int64_t>(size_of(type.dtype));
  const bool columns = kept > 1 && !axes.empty() &&
                       axes.back() + 1 < static_cast<std::int64_t>(type.shape.size()) &&
                       type.shape.back() != Dim(1);
  const std::int64_t side_by_side = kLine / static_cast<std::int64_t>(size_of(type.dtype));
  const std::int64_t rows = columns ? (kept + side_by_side - 1) / side_by_side : kept;
  if (kept == 0 || rows > (columns ? kMostLines : kMostRows) || bytes < kLeastBytes)
    return std::nullopt;
  const std::int64_t most =
      std::min(kParts / rows, reduced / (columns ? kShortestColumn : kShortestPart));
  Split best;  // the outermost of equals
  for (const std::int64_t axis : axes) {
    const auto d = static_cast<std::size_t>(axis);
    const std::int64_t parts = greatest_divisor(type.shape[d].value(), most);
    if (parts > best.parts) best = {d, parts};
  }
  if (best.parts < kFewestParts) return std::nullopt;
  return best;
}

ValueId reduce_in_parts(GraphBuilder& builder, const Node& node, const Kind& kind,
                        const Split& split, ValueId input, const TensorType& result) {
  const DType type = builder.type(input).dtype;
  const bool widen = kind.rounds && (type == DType::kFloat16 || type == DType::kBFloat16);
  if (widen) input = builder.add("Cast", {input}, {{"to", DType::kFloat32}});
  Shape shape = builder.type(input).shape;
  Ints axes;
  std::int64_t kept_before = static_cast<std::int64_t>(split.axis);
  for (const std::int64_t axis : node.attrs.get_ints("axes")) {
    if (axis < static_cast<std::int64_t>(split.axis)) --kept_before;
    // Behind the parts' own dimension.
    axes.push_back(axis < static_cast<std::int64_t>(split.axis) ? axis : axis + 1);
  }
  shape[split.axis] = Dim(shape[split.axis].value() / split.parts);
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(split.axis), Dim(split.parts));
  ValueId value = builder.add("Reshape", {input}, {{"shape", shape}});
  value = builder.add(kind.whole, {value}, {{"axes", axes}, {"keepdims", std::int64_t{0}}});
  value = builder.add(kind.of_parts, {value},
                      {{"axes", Ints{kept_before}}, {"keepdims", std::int64_t{0}}});
  if (builder.type(value).shape != result.shape)
    value = builder.add("Reshape", {value}, {{"shape", result.shape}});
  if (widen) value = builder.add("Cast", {value}, {{"to", type}});
  return value;
}

}  // namespace

Graph split_reductions(const Graph& graph, Context& context) {
  if (!context.target.splits_reductions) return graph;
  return ir::rewrite(
      graph,
      [](GraphBuilder& builder, const Graph& old, const Node& node,
         std::span<const ValueId> inputs) -> std::optional<std::vector<ValueId>> {
        const auto kind =
            std::ranges::find_if(kKinds, [&](const Kind& k) { return k.whole == node.op->name; });
        if (kind == kKinds.end()) return std::nullopt;
        const auto split = find_split(old.type(node.inputs[0]), node.attrs.get_ints("axes"));
        if (!split) return std::nullopt;
        return std::vector{
            reduce_in_parts(builder, node, *kind, *split, inputs[0], old.type(node.outputs[0]))};
      });
}

}  // namespace sinter::fusion
