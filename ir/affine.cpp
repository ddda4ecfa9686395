// SPDX-License-Identifier: Apache-2.0
#include "ir/affine.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <sinter/error.h>

#include "ir/dim/dim_internal.h"

namespace sinter::ir {
namespace {

/// A view's sources for one output index, without guards that always hold, and without sources
/// whose guards never hold.
struct Sources {
  std::vector<ViewSource> list;
  /// True if some element may be the fill. A view of several sources (Concat) divides its elements
  /// among them; one with a single guarded source (Pad, Unfold) fills where the guard fails.
  bool may_fill = false;
};

Sources sources_at(const Graph& graph, const Node& node, ValueId value, std::span<const Dim> index,
                   const Ranges& ranges) {
  Sources sources;
  sources.list =
      node.op->view().map(node.attrs, graph.types(node.inputs), graph.type(value), index, ranges);
  const bool single = sources.list.size() <= 1;
  std::erase_if(sources.list, [&](ViewSource& source) {
    bool never = false;
    std::erase_if(source.guards, [&](const ViewSource::Guard& guard) {
      never = never || proves_le(guard.extent, guard.value, ranges) ||
              proves_le(guard.value, Dim(-1), ranges);
      return proves_le(Dim(0), guard.value, ranges) &&
             proves_le(guard.value, guard.extent - Dim(1), ranges);
    });
    return never;
  });
  sources.may_fill = single && (sources.list.empty() || !sources.list.front().guards.empty());
  return sources;
}

double fill_of(const Node& node) {
  if (node.attrs.has("fill")) return node.attrs.get_float("fill");
  return node.op->view().fill;
}

class Tracer {
 public:
  Tracer(const Graph& graph, const Ranges& ranges, const std::function<bool(const Node&)>& through)
      : graph_(graph), ranges_(ranges), through_(through) {}

  TracedView trace(ValueId value, std::vector<Dim> index) {
    follow({value, std::move(index), {}});
    view_.fill = fill_.value_or(0);
    return std::move(view_);
  }

 private:
  void follow(TracedSource at) {
    const Node* node = graph_.producer(at.source);
    // Concatenations of slices of concatenations double the paths with each level.
    constexpr int kMost = 1000;
    if (!node || ++followed_ > kMost || node->op->kind != OpKind::kView ||
        (through_ && !through_(*node))) {
      view_.sources.push_back(std::move(at));
      return;
    }
    const auto sources = sources_at(graph_, *node, at.source, at.index, ranges_);
    if (sources.may_fill) {
      const double fill = fill_of(*node);
      if (fill_ && *fill_ != fill) {  // two fills: the inner view remains a source
        view_.sources.push_back(std::move(at));
        return;
      }
      fill_ = fill;
    }
    for (const ViewSource& source : sources.list) {
      TracedSource next{node->inputs[static_cast<std::size_t>(source.input)], source.index,
                        at.guards};
      next.guards.insert(next.guards.end(), source.guards.begin(), source.guards.end());
      follow(std::move(next));
    }
  }

  const Graph& graph_;
  const Ranges& ranges_;
  const std::function<bool(const Node&)>& through_;
  TracedView view_;
  std::optional<double> fill_;
  int followed_ = 0;
};

bool mentions(const Dim& dim, std::span<const std::string> symbols) {
  for (const auto& name : dim.symbols())
    if (std::ranges::find(symbols, name) != symbols.end()) return true;
  return false;
}

}  // namespace

TracedView trace_view(const Graph& graph, ValueId value, std::span<const Dim> index,
                      const Ranges& ranges, const std::function<bool(const Node&)>& through) {
  if (index.size() != graph.type(value).shape.size())
    throw Error(ErrorCode::kInternal,
                fmt::format("a value of type {} is traced at an index of {} dimensions",
                            to_string(graph.type(value)), index.size()));
  return Tracer(graph, ranges, through).trace(value, {index.begin(), index.end()});
}

std::optional<TracedSource> trace_to_source(const Graph& graph, ValueId value,
                                            std::span<const Dim> index, const Ranges& ranges,
                                            const std::function<bool(const Node&)>& through) {
  TracedView view = trace_view(graph, value, index, ranges, through);
  if (view.sources.size() != 1 || !view.sources[0].guards.empty()) return std::nullopt;
  return std::move(view.sources[0]);
}

std::optional<StridedAccess> strided_access(const Graph& graph, ValueId value,
                                            const std::function<bool(const Node&)>& through) {
  const Shape& shape = graph.type(value).shape;
  Ranges ranges = graph.ranges();
  const auto index = index_symbols(shape, ranges);
  const auto source = trace_to_source(graph, value, index, ranges, through);
  if (!source) return std::nullopt;
  auto linear = linear_form(linearize(source->index, graph.type(source->source).shape),
                            index_symbol_names(shape.size()));
  if (!linear) return std::nullopt;
  return StridedAccess{source->source, std::move(linear->offset), std::move(linear->strides)};
}

std::optional<LinearForm> linear_form(const Dim& expr, std::span<const std::string> symbols) {
  LinearForm form{Dim(0), std::vector<Dim>(symbols.size(), Dim(0))};
  for (const auto& term : expr.terms()) {
    Dim coefficient = term.coefficient;
    std::optional<std::size_t> position;
    for (const auto& atom : term.factors) {
      if (atom->kind == DimAtom::Kind::kSymbol) {
        const auto found = std::ranges::find(symbols, atom->name);
        if (found != symbols.end()) {
          if (position) return std::nullopt;
          position = static_cast<std::size_t>(found - symbols.begin());
          continue;
        }
        coefficient *= DimBuilder::from_atom(atom);
        continue;
      }
      if (mentions(atom->a, symbols) || mentions(atom->b, symbols)) return std::nullopt;
      coefficient *= DimBuilder::from_atom(atom);
    }
    Dim& part = position ? form.strides[*position] : form.offset;
    part += coefficient;
  }
  return form;
}

std::string index_symbol(int d) { return "$" + std::to_string(d); }

std::vector<std::string> index_symbol_names(std::size_t count) {
  std::vector<std::string> names;
  for (std::size_t d = 0; d < count; ++d) names.push_back(index_symbol(static_cast<int>(d)));
  return names;
}

std::vector<Dim> index_symbols(const Shape& shape, Ranges& ranges) {
  std::vector<Dim> symbols;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const std::string name = index_symbol(static_cast<int>(d));
    ranges.insert_or_assign(name, index_range(shape[d], ranges));
    symbols.push_back(Dim::symbol(name));
  }
  return symbols;
}

namespace {

/// One primitive of a scalar expression on Dims; nothing if it is not integer arithmetic, or may
/// overflow.
std::optional<Dim> apply_to_dims(ScalarOp op, std::span<const Dim> args, const Ranges& ranges) {
  switch (op) {
    case ScalarOp::kAdd: return args[0] + args[1];
    case ScalarOp::kSub: return args[0] - args[1];
    case ScalarOp::kMul: return args[0] * args[1];
    case ScalarOp::kMin: return min(args[0], args[1], ranges);
    case ScalarOp::kMax: return max(args[0], args[1], ranges);
    case ScalarOp::kNeg: return Dim(0) - args[0];
    case ScalarOp::kDiv:
    case ScalarOp::kMod: {
      const auto low = lower_bound(args[0], ranges), divisor = lower_bound(args[1], ranges);
      if (!divisor || *divisor < 1) return std::nullopt;
      if (op == ScalarOp::kMod) return mod(args[0], args[1], ranges);
      if (!low || *low < 0) return std::nullopt;  // truncation would differ from floor
      return floor_div(args[0], args[1], ranges);
    }
    default: return std::nullopt;
  }
}

/// Arithmetic in 32 bits or less may overflow, unless bounds exclude it.
bool fits_type(const Dim& dim, DType dtype, const Ranges& ranges) {
  if (dtype == DType::kInt64) return true;
  const int bits = static_cast<int>(size_of(dtype)) * 8;
  if (dtype == DType::kBool || bits == 64) return false;
  const auto low = lower_bound(dim, ranges), high = upper_bound(dim, ranges);
  const bool is_signed = is_signed_integer(dtype);
  const std::int64_t most = std::int64_t{1} << (is_signed ? bits - 1 : bits);
  return low && high && *low >= (is_signed ? -most : 0) && *high < most;
}

/// `left`: budget of values; x + x visits x twice at each level.
std::optional<Dim> index_of_value(const Graph& graph, ValueId value, std::span<const Dim> index,
                                  const Ranges& ranges, int& left) {
  if (--left < 0) return std::nullopt;
  const TensorType& type = graph.type(value);
  if (!is_integer(type.dtype)) return std::nullopt;
  if (const auto& constant = graph.value(value).constant)
    return constant->element_count() == 1 ? std::optional(Dim(constant->at_int(0))) : std::nullopt;
  const Node* node = graph.producer(value);
  if (node == nullptr) return std::nullopt;
  const auto checked = [&](std::optional<Dim> dim) {
    return dim && fits_type(*dim, type.dtype, ranges) ? dim : std::nullopt;
  };
  if (const GenerateDef* def = node->op->generate()) return checked(def->value(node->attrs, index));
  if (node->op->kind == OpKind::kView) {
    const auto sources =
        node->op->view().map(node->attrs, graph.types(node->inputs), type, index, ranges);
    if (sources.size() != 1 || !sources[0].guards.empty()) return std::nullopt;
    return index_of_value(graph, node->inputs[static_cast<std::size_t>(sources[0].input)],
                          sources[0].index, ranges, left);
  }
  if (node->op->kind != OpKind::kPointwise) return std::nullopt;
  std::vector<Dim> values;
  for (const ScalarNode& step : node->op->pointwise().expression(node->attrs).nodes) {
    std::optional<Dim> result;
    switch (step.kind) {
      case ScalarNode::Kind::kOperand: {
        const ValueId input = node->inputs[static_cast<std::size_t>(step.operand)];
        const Shape& shape = graph.type(input).shape;
        std::vector<Dim> at(index.end() - static_cast<std::ptrdiff_t>(shape.size()), index.end());
        for (std::size_t d = 0; d < shape.size(); ++d)
          if (shape[d] == Dim(1)) at[d] = Dim(0);
        result = index_of_value(graph, input, at, ranges, left);
        break;
      }
      case ScalarNode::Kind::kConstant:
        if (step.constant == std::floor(step.constant) && std::abs(step.constant) < 1e9)
          result = Dim(static_cast<std::int64_t>(step.constant));
        break;
      case ScalarNode::Kind::kAttr: break;
      case ScalarNode::Kind::kOp: {
        std::vector<Dim> args;
        for (int a = 0; a < arity_of(step.op); ++a)
          args.push_back(values[static_cast<std::size_t>(step.args[a])]);
        // A cast of integers: the result's range is checked afterwards.
        result = step.op == ScalarOp::kCast ? args[0] : apply_to_dims(step.op, args, ranges);
        break;
      }
    }
    if (!result || !fits_type(*result, type.dtype, ranges)) return std::nullopt;
    values.push_back(std::move(*result));
  }
  return values.back();
}

}  // namespace

std::optional<Dim> index_of_value(const Graph& graph, ValueId value, std::span<const Dim> index,
                                  const Ranges& ranges) {
  int left = 1000;
  return index_of_value(graph, value, index, ranges, left);
}

}  // namespace sinter::ir
