// SPDX-License-Identifier: Apache-2.0
// Splits reductions of few long rows, which leave most of a GPU idle, into one over parts and one
// over their results. Both have a fixed order: results are reproducible. A mean and its variance
// become those of the parts, combined from the parts' means and variances (Chan, Golub and LeVeque,
// Updating Formulae and a Pairwise Algorithm for Computing Sample Variances, 1979). That is as
// accurate as two passes over the row.
#include <algorithm>
#include <array>
#include <map>

#include "fusion/passes/passes.h"
#include "fusion/patterns/producer.h"

namespace sinter::fusion {
namespace {

using ir::ReductionSplit;

// Strided rows are computed side by side, in lines.
constexpr std::int64_t kLine = 128;
// For means with variances: the rows are read again afterwards in any case, and a single block
// uses little of the bandwidth for strided elements. Contiguous rows that a cluster can hold stay
// whole.
constexpr std::int64_t kLeastMomentBytes = 1 << 20, kLongestWhole = 1 << 16;
constexpr std::int64_t kMostMomentLines = 512;

struct Kind {
  std::string_view whole, of_parts;
  bool rounds;  // 16-bit partial results would lose precision
};
constexpr std::array<Kind, 6> kKinds = {{{"ReduceSum", "ReduceSum", true},
                                         {"ReduceMean", "ReduceMean", true},
                                         {"ReduceSumSquare", "ReduceSum", true},
                                         {"ReduceProd", "ReduceProd", true},
                                         {"ReduceMax", "ReduceMax", false},
                                         {"ReduceMin", "ReduceMin", false}}};

/// The largest divisor of `n` up to `most`.
std::int64_t greatest_divisor(std::int64_t n, std::int64_t most) {
  for (std::int64_t d = std::min(n, most); d > 1; --d)
    if (n % d == 0) return d;
  return 1;
}

/// For a reduction over axes of constant size: the axis to split, and the number of parts.
struct Split {
  std::size_t axis = 0;
  std::int64_t parts = 0;
};

/// Sizes of a reduction over the dimensions `axes`, of constant size: reduced and kept elements,
/// and their layout.
struct Extents {
  std::int64_t kept = 1, reduced = 1;
  std::int64_t inner = 1;       // of `reduced`, inside of all kept dimensions
  std::size_t inner_begin = 0;  // first dimension of these

  /// Rows with a stride between elements, with other rows in between.
  bool strided() const { return kept > 1 && inner < reduced; }
};

std::optional<Extents> extents_of(const Shape& shape, const Ints& axes) {
  Extents result;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (!shape[d].is_constant()) return std::nullopt;
    const std::int64_t size = shape[d].value();
    if (std::ranges::find(axes, static_cast<std::int64_t>(d)) != axes.end()) {
      result.reduced *= size;
      result.inner *= size;
    } else {
      result.kept *= size;
      if (size != 1) result.inner = 1, result.inner_begin = d + 1;
    }
  }
  return result;
}

/// The axis before dimension `end` with the most parts up to `most`; on ties the outermost.
Split best_split(const Shape& shape, const Ints& axes, std::size_t end, std::int64_t most) {
  Split best;
  for (const std::int64_t axis : axes) {
    const auto d = static_cast<std::size_t>(axis);
    if (d >= end) continue;
    const std::int64_t parts = greatest_divisor(shape[d].value(), most);
    if (parts > best.parts) best = {d, parts};
  }
  return best;
}

/// Rows of strided runs that one kernel can hold.
bool stays_whole(const Extents& extents, std::int64_t size, const ReductionSplit& rule) {
  const std::int64_t run = extents.inner * size;
  const std::int64_t rows = std::max<std::int64_t>((rule.run_bytes + run - 1) / run, 1);
  return extents.inner % 2 == 0 && rows * extents.reduced * size <= rule.held_row_bytes &&
         extents.kept * extents.reduced * size <= rule.held_bytes;
}

/// How to split a mean and a variance. With strided elements: by columns, and by parts of their
/// length.
std::optional<Split> find_moment_split(const TensorType& stored, const Ints& axes,
                                       const ReductionSplit& rule) {
  const auto extents = extents_of(stored.shape, axes);
  if (!extents) return std::nullopt;
  const auto size = static_cast<std::int64_t>(size_of(stored.dtype));
  if (extents->kept * extents->reduced * size < kLeastMomentBytes) return std::nullopt;
  std::int64_t most = 0;
  if (extents->strided()) {
    if (stays_whole(*extents, size, rule)) return std::nullopt;
    const std::int64_t length = extents->reduced / extents->inner;
    const std::int64_t lines =
        std::max<std::int64_t>(extents->kept * extents->inner * size / kLine, 1);
    if (lines > kMostMomentLines) return std::nullopt;
    most = std::min(std::max(rule.parts / lines, length / (4 * rule.shortest_column)),
                    length / rule.shortest_column);
  } else {
    if (extents->reduced <= kLongestWhole || extents->kept > rule.parts / 4) return std::nullopt;
    most = std::min(rule.parts / extents->kept, extents->reduced / rule.shortest_part);
  }
  const std::size_t end = extents->strided() ? extents->inner_begin : stored.shape.size();
  const Split best = best_split(stored.shape, axes, end, most);
  return best.parts < rule.fewest_parts ? std::nullopt : std::optional(best);
}

std::optional<Split> find_split(const TensorType& type, const Ints& axes,
                                const ReductionSplit& rule) {
  const auto extents = extents_of(type.shape, axes);
  if (!extents) return std::nullopt;
  const std::int64_t kept = extents->kept, reduced = extents->reduced;
  const auto bytes = kept * reduced * static_cast<std::int64_t>(size_of(type.dtype));
  const bool columns = kept > 1 && !axes.empty() &&
                       axes.back() + 1 < static_cast<std::int64_t>(type.shape.size()) &&
                       type.shape.back() != Dim(1);
  const std::int64_t side_by_side = kLine / static_cast<std::int64_t>(size_of(type.dtype));
  const std::int64_t rows = columns ? (kept + side_by_side - 1) / side_by_side : kept;
  const bool few = bytes < rule.least_bytes &&
                   (columns || bytes / std::max<std::int64_t>(rows, 1) < rule.least_row_bytes);
  if (kept == 0 || rows > (columns ? rule.most_lines : rule.most_rows) || few) return std::nullopt;
  const std::int64_t most =
      std::min(rule.parts / rows, reduced / (columns ? rule.shortest_column : rule.shortest_part));
  const Split best = best_split(type.shape, axes, type.shape.size(), most);
  if (best.parts < rule.fewest_parts) return std::nullopt;
  return best;
}

/// The last axis of a maximum or minimum over several, if other sizes are unknown: rows of its
/// length are reduced first, side by side.
std::optional<std::int64_t> rows_first(const TensorType& type, const Node& node,
                                       const ReductionSplit& rule) {
  constexpr std::int64_t kLeastLength = 64;
  const Ints& axes = node.attrs.get_ints("axes");
  const auto last = static_cast<std::int64_t>(type.shape.size()) - 1;
  if ((node.op->name != "ReduceMax" && node.op->name != "ReduceMin") || axes.size() < 2 ||
      static_cast<std::int64_t>(axes.size()) != last + 1 || extents_of(type.shape, axes))
    return std::nullopt;
  const Dim& length = type.shape.back();
  if (rule.parts == 0 || !length.is_constant() || length.value() < kLeastLength)
    return std::nullopt;
  return last;
}

bool same_axes(const Node& a, const Node& b) {
  return a.attrs.get_ints("axes") == b.attrs.get_ints("axes");
}

/// The mean of the variance `node`, ReduceMean(Square(Sub(x, mean))); otherwise null.
const Node* mean_of_variance(const Graph& graph, const Node& node) {
  if (node.op->name != "ReduceMean") return nullptr;
  const Node* square = producer_of(graph, node.inputs[0], "Square");
  const Node* deviation =
      square == nullptr ? nullptr : producer_of(graph, square->inputs[0], "Sub");
  const Node* mean =
      deviation == nullptr ? nullptr : producer_of(graph, deviation->inputs[1], "ReduceMean");
  const bool fits = mean != nullptr && mean->inputs[0] == deviation->inputs[0] &&
                    same_axes(*mean, node) && mean->attrs.get_int("keepdims") == 1;
  return fits ? mean : nullptr;
}

/// The type in memory of `x`, before a widening cast.
TensorType stored_type(const Graph& graph, ValueId x) {
  const Node* cast = producer_of(graph, x, "Cast");
  return graph.type(cast == nullptr ? x : cast->inputs[0]);
}

/// Means and variances of parts, combined to those of whole rows.
class MomentsInParts {
 public:
  MomentsInParts(GraphBuilder& builder, const Node& mean, const Split& split, ValueId x)
      : builder_(builder), split_(split) {
    Shape shape = builder.type(x).shape;
    const auto extents = extents_of(shape, mean.attrs.get_ints("axes"));
    for (const std::int64_t axis : mean.attrs.get_ints("axes")) {
      const auto d = static_cast<std::size_t>(axis);
      const bool behind = extents->strided() && d >= extents->inner_begin;
      if (d == split.axis || behind) whole_.push_back(axis);
      if (!behind) part_.push_back(d < split.axis ? axis : axis + 1);
    }
    shape[split.axis] = Dim(shape[split.axis].value() / split.parts);
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(split.axis), Dim(split.parts));
    x_ = builder.add("Reshape", {x}, {{"shape", shape}});
    part_mean_ = mean_of(x_, part_);
    mean_ = mean_of(of_parts(part_mean_), whole_);
  }

  ValueId mean() const { return mean_; }
  ValueId variance(const Node& node) const {
    const ValueId inside = of_parts(mean_of(squared_distance(x_, part_mean_), part_));
    const ValueId between = squared_distance(of_parts(part_mean_), mean_);
    Attrs attrs = node.attrs;
    const ValueId value = mean_of(builder_.add("Add", {inside, between}), whole_);
    if (attrs.get_int("keepdims") == 1) return value;
    Shape shape;
    for (std::size_t d = 0; d < builder_.type(value).shape.size(); ++d)
      if (std::ranges::find(attrs.get_ints("axes"), static_cast<std::int64_t>(d)) ==
          attrs.get_ints("axes").end())
        shape.push_back(builder_.type(value).shape[d]);
    return builder_.add("Reshape", {value}, {{"shape", shape}});
  }

 private:
  ValueId mean_of(ValueId value, const Ints& axes) const {
    return builder_.add("ReduceMean", {value}, {{"axes", axes}, {"keepdims", std::int64_t{1}}});
  }
  ValueId squared_distance(ValueId a, ValueId b) const {
    return builder_.add("Square", {builder_.add("Sub", {a, b})});
  }
  /// Partial results, with the parts in place of the divided dimension.
  ValueId of_parts(ValueId value) const {
    Shape shape = builder_.type(value).shape;
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(split_.axis) + 1);
    return builder_.add("Reshape", {value}, {{"shape", shape}});
  }

  GraphBuilder& builder_;
  Split split_;
  Ints part_, whole_;  // axes reduced within a part, then over all parts
  ValueId x_, part_mean_, mean_;
};

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
    // After the dimension of parts.
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
  const ReductionSplit& rule = context.target.reduction_split;
  if (rule.parts == 0) return graph;
  // Means whose variances are also computed, by the mean's value.
  std::map<std::int32_t, Split> moments;
  for (const Node& node : graph.nodes()) {
    const Node* mean = mean_of_variance(graph, node);
    if (mean == nullptr || !context.target.reduces_strided) continue;
    const ValueId x = mean->inputs[0];
    if (graph.type(x).dtype != DType::kFloat32 && graph.type(x).dtype != DType::kFloat64) continue;
    const TensorType stored{stored_type(graph, x).dtype, graph.type(x).shape};
    if (const auto split = find_moment_split(stored, node.attrs.get_ints("axes"), rule))
      moments.emplace(mean->outputs[0].index, *split);
  }
  std::map<std::int32_t, MomentsInParts> made;
  return ir::rewrite(
      graph,
      [&](GraphBuilder& builder, const Graph& old, const Node& node,
          std::span<const ValueId> inputs) -> std::optional<std::vector<ValueId>> {
        const TensorType& result = old.type(node.outputs[0]);
        if (const auto own = moments.find(node.outputs[0].index); own != moments.end()) {
          const MomentsInParts parts(builder, node, own->second, inputs[0]);
          made.emplace(own->first, parts);
          return std::vector{parts.mean()};
        }
        if (const Node* mean = mean_of_variance(old, node); mean != nullptr)
          if (const auto own = made.find(mean->outputs[0].index); own != made.end())
            return std::vector{own->second.variance(node)};
        const auto kind =
            std::ranges::find_if(kKinds, [&](const Kind& k) { return k.whole == node.op->name; });
        if (kind == kKinds.end()) return std::nullopt;
        if (const auto last = rows_first(old.type(node.inputs[0]), node, rule)) {
          Ints axes = node.attrs.get_ints("axes");
          std::erase(axes, *last);
          Attrs attrs = node.attrs;
          const bool keeps = attrs.get_int("keepdims") == 1;
          const ValueId rows =
              builder.add(node.op->name, {inputs[0]},
                          {{"axes", Ints{*last}}, {"keepdims", std::int64_t{keeps ? 1 : 0}}});
          attrs.set("axes", axes);
          ValueId value = builder.add(node.op->name, {rows}, std::move(attrs));
          return std::vector{value};
        }
        const auto split = find_split(old.type(node.inputs[0]), node.attrs.get_ints("axes"), rule);
        if (!split) return std::nullopt;
        return std::vector{reduce_in_parts(builder, node, *kind, *split, inputs[0], result)};
      });
}

}  // namespace sinter::fusion
