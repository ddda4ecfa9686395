// SPDX-License-Identifier: Apache-2.0
// A reshape joins dimensions, some of which are then reduced together, as GroupNorm is often
// spelled: [n, c, h, w] becomes [n, groups, c / groups * h * w]. This pass computes on [n, groups,
// c / groups, h, w] instead, so that these dimensions may have another memory layout, such as
// channels last.
//
// It does the same for values after a norm over [n, groups, c / groups, h, w] whose result is
// joined again, which then fuse with the norm.
//
// A value of a joined shape has a *spread* twin, whose shape has the parts instead of the joined
// dimension. Pointwise nodes and reductions of such values are computed on the twins; other nodes
// read the twin reshaped.
#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "fusion/passes/passes.h"

namespace sinter::fusion {
namespace {

/// For each dimension of a shape, the number of dimensions in the spread shape.
using Counts = std::vector<std::size_t>;

struct Spread {
  Shape shape;
  Counts counts;

  bool joined(std::size_t dim) const { return counts[dim] > 1; }
  bool any_joined() const {
    return std::ranges::any_of(counts, [](std::size_t count) { return count > 1; });
  }
  std::size_t begin(std::size_t dim) const {
    return std::accumulate(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(dim),
                           std::size_t{0});
  }
};

/// `to` in terms of the dimensions of `from`, which may be split; nothing if symbolic sizes leave
/// it undecided.
std::optional<Spread> spread(const Shape& from, const Shape& to) {
  Spread result;
  std::size_t i = 0;
  Dim left(1);  // remainder of dimension i - 1 of `from`
  for (const Dim& dim : to) {
    const std::size_t before = result.shape.size();
    Dim rest = dim;
    while (!(rest == Dim(1))) {
      while (left == Dim(1)) {
        if (i == from.size()) return std::nullopt;
        left = from[i++];
      }
      if (const auto more = ir::divide_exactly(rest, left)) {
        result.shape.push_back(left);
        rest = *more;
        left = Dim(1);
      } else if (const auto part = ir::divide_exactly(left, rest)) {
        result.shape.push_back(rest);
        left = *part;
        rest = Dim(1);
      } else {
        return std::nullopt;
      }
    }
    if (result.shape.size() == before) result.shape.push_back(dim);
    result.counts.push_back(result.shape.size() - before);
  }
  if (!(left == Dim(1)) || std::any_of(from.begin() + static_cast<std::ptrdiff_t>(i), from.end(),
                                       [](const Dim& d) { return !(d == Dim(1)); }))
    return std::nullopt;
  return result;
}

/// Reshapes whose results are reduced over joined dimensions, and reshapes that join dimensions
/// over which their operand was normalized; by output.
class Wanted {
 public:
  explicit Wanted(const Graph& graph) : graph_(graph), from_(graph.values().size()) {
    for (const Node& node : graph.nodes()) look_at(node);
  }
  bool contains(ValueId reshaped) const { return wanted_.contains(reshaped.index); }

 private:
  /// A value that is computed elementwise from a reshaped one, or reduced from it.
  struct From {
    std::int32_t reshaped = -1;
    std::vector<bool> joined;   // by its own dimensions
    std::vector<bool> reduced;  // dimensions over which an operand was reduced; may be empty
  };

  From& from(ValueId value) { return from_[value.position()]; }

  void look_at(const Node& node) {
    const ValueId output = node.outputs.at(0);
    const std::size_t rank = graph_.type(output).shape.size();
    if (node.op->name == "Reshape") {
      const Shape& given = graph_.type(node.inputs[0]).shape;
      const auto parts = spread(given, graph_.type(node.outputs[0]).shape);
      if (!parts || !parts->any_joined()) return;
      const auto& reduced = from(node.inputs[0]).reduced;
      for (std::size_t d = 0; d < rank; ++d)
        for (std::size_t i = 0; i < parts->counts[d] && parts->joined(d); ++i)
          if (!reduced.empty() && parts->shape == given && reduced[parts->begin(d) + i])
            wanted_.insert(output.index);
      From& own = from(output);
      own.reshaped = output.index;
      for (std::size_t d = 0; d < rank; ++d) own.joined.push_back(parts->joined(d));
    } else if (node.op->kind == OpKind::kPointwise) {
      From own;
      for (const ValueId input : node.inputs) {
        const From& other = from(input);
        if (graph_.type(input).shape.size() != rank) continue;
        if (own.reshaped < 0) own.reshaped = other.reshaped, own.joined = other.joined;
        own.reduced.resize(std::max(own.reduced.size(), other.reduced.size()));
        for (std::size_t d = 0; d < other.reduced.size(); ++d)
          if (other.reduced[d]) own.reduced[d] = true;
      }
      from(output) = std::move(own);
    } else if (node.op->kind == OpKind::kReduce) {
      From own = from(node.inputs[0]);
      own.reduced.assign(graph_.type(node.inputs[0]).shape.size(), false);
      for (const std::int64_t axis : node.attrs.get_ints("axes")) {
        const auto d = static_cast<std::size_t>(axis);
        own.reduced[d] = true;
        if (own.reshaped < 0) continue;
        if (own.joined[d]) wanted_.insert(own.reshaped);
        own.joined[d] = false;
      }
      if (node.attrs.get_int("keepdims") == 1) from(output) = std::move(own);
    }
  }

  const Graph& graph_;
  std::vector<From> from_;
  std::set<std::int32_t> wanted_;
};

class ReduceParts {
 public:
  explicit ReduceParts(const Graph& graph) : wanted_(graph) {}

  std::optional<std::vector<ValueId>> visit(GraphBuilder& builder, const Graph& old,
                                            const Node& node, std::span<const ValueId> inputs) {
    std::optional<Twin> twin;
    if (node.op->name == "Reshape")
      twin = reshaped(builder, old, node, inputs);
    else if (node.op->kind == OpKind::kPointwise)
      twin = pointwise(builder, old, node, inputs);
    else if (node.op->kind == OpKind::kReduce)
      twin = reduced(builder, old, node);
    if (!twin) return std::nullopt;
    // Becomes dead if all its readers have twins.
    const ValueId plain =
        builder.add("Reshape", {twin->value}, {{"shape", old.type(node.outputs[0]).shape}});
    if (twin->spread.any_joined()) twins_.emplace(node.outputs[0].index, std::move(*twin));
    return std::vector{plain};
  }

 private:
  struct Twin {
    ValueId value;
    Spread spread;
  };

  const Twin* twin(ValueId value) const {
    const auto found = twins_.find(value.index);
    return found == twins_.end() ? nullptr : &found->second;
  }

  /// The twin of a reshape that joins reduced dimensions, or that joins a twin's parts differently
  /// (usually back).
  std::optional<Twin> reshaped(GraphBuilder& builder, const Graph& old, const Node& node,
                               std::span<const ValueId> inputs) const {
    const Shape& to = old.type(node.outputs[0]).shape;
    if (const Twin* other = twin(node.inputs[0])) {
      auto parts = spread(other->spread.shape, to);
      if (!parts || parts->shape != other->spread.shape) return std::nullopt;
      return Twin{other->value, std::move(*parts)};
    }
    if (!wanted_.contains(node.outputs[0])) return std::nullopt;
    auto parts = spread(old.type(node.inputs[0]).shape, to);
    if (!parts) return std::nullopt;
    const ValueId value = builder.add("Reshape", {inputs[0]}, {{"shape", parts->shape}});
    return Twin{value, std::move(*parts)};
  }

  /// An operand that broadcasts with spread values as it did with joined ones.
  static ValueId operand(GraphBuilder& builder, ValueId value, const Spread& parts) {
    const Shape& own = builder.type(value).shape;
    Shape shape;
    const std::size_t first = parts.counts.size() - own.size();
    for (std::size_t d = 0; d < own.size(); ++d) {
      const auto begin = parts.shape.begin() + static_cast<std::ptrdiff_t>(parts.begin(first + d));
      const auto count = static_cast<std::ptrdiff_t>(parts.counts[first + d]);
      if (own[d] == Dim(1))
        shape.insert(shape.end(), static_cast<std::size_t>(count), Dim(1));
      else
        shape.insert(shape.end(), begin, begin + count);
    }
    if (shape == own) return value;
    return builder.add("Reshape", {value}, {{"shape", shape}});
  }

  std::optional<Twin> pointwise(GraphBuilder& builder, const Graph& old, const Node& node,
                                std::span<const ValueId> inputs) {
    const Shape& shape = old.type(node.outputs[0]).shape;
    const Spread* parts = nullptr;
    for (const ValueId input : node.inputs)
      if (const Twin* other = twin(input); other != nullptr && old.type(input).shape == shape)
        parts = &other->spread;
    if (parts == nullptr) return std::nullopt;
    std::vector<ValueId> operands;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const Twin* other = twin(node.inputs[i]);
      const bool fits = other != nullptr && other->spread.counts == parts->counts;
      operands.push_back(fits ? other->value : operand(builder, inputs[i], *parts));
    }
    Spread own = *parts;
    const ValueId value = builder.add(node.op->name, operands, node.attrs);
    own.shape = builder.type(value).shape;
    return Twin{value, std::move(own)};
  }

  std::optional<Twin> reduced(GraphBuilder& builder, const Graph& old, const Node& node) {
    const Twin* input = twin(node.inputs[0]);
    if (input == nullptr) return std::nullopt;
    const auto& reduced = node.attrs.get_ints("axes");
    const bool keeps = node.attrs.get_int("keepdims") == 1;
    Ints axes;
    Spread own;
    for (std::size_t d = 0; d < old.type(node.inputs[0]).shape.size(); ++d) {
      const std::size_t begin = input->spread.begin(d), count = input->spread.counts[d];
      const bool goes = std::ranges::find(reduced, static_cast<std::int64_t>(d)) != reduced.end();
      for (std::size_t part = begin; goes && part < begin + count; ++part)
        axes.push_back(static_cast<std::int64_t>(part));
      if (!goes || keeps) own.counts.push_back(count);
    }
    Attrs attrs = node.attrs;
    attrs.set("axes", axes);
    const ValueId value = builder.add(node.op->name, {input->value}, attrs);
    own.shape = builder.type(value).shape;
    return Twin{value, std::move(own)};
  }

  Wanted wanted_;
  std::map<std::int32_t, Twin> twins_;  // by old value
};

}  // namespace

Graph reduce_parts(const Graph& graph, Context& context) {
  if (!context.target.reduces_strided) return graph;
  ReduceParts parts(graph);
  return simplify(ir::rewrite(graph,
                              [&](GraphBuilder& builder, const Graph& old, const Node& node,
                                  std::span<const ValueId> inputs) {
                                return parts.visit(builder, old, node, inputs);
                              }),
                  context);
}

}  // namespace sinter::fusion
