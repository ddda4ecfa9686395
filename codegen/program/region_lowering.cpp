// SPDX-License-Identifier: Apache-2.0
#include "codegen/program/region_lowering.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sinter/error.h>

#include "codegen/program/describe.h"
#include "codegen/program/loop_builder.h"
#include "codegen/program/region_space.h"

namespace sinter::codegen {
namespace {

Shape without_ones(const Shape& shape) {
  Shape result;
  std::copy_if(shape.begin(), shape.end(), std::back_inserter(result),
               [](const Dim& dim) { return dim != Dim(1); });
  return result;
}

/// The value that all elements of `constant` have, if they are equal.
std::optional<std::int64_t> splat_element(const Tensor& constant) {
  const std::size_t size = size_of(constant.dtype());
  const std::byte* data = constant.bytes().data();
  for (std::int64_t i = 1; i < constant.element_count(); ++i)
    if (std::memcmp(data, data + static_cast<std::size_t>(i) * size, size) != 0)
      return std::nullopt;
  if (constant.element_count() == 0) return std::nullopt;
  return 0;
}

/// One attempt to lower a body over fixed loops.
class RegionLowering {
 public:
  RegionLowering(const Graph& body, Buffers inputs, Buffers outputs, const LoopSpace& space,
                 ExprTable& exprs)
      : body_(body), inputs_(inputs), space_(space), build_(space, exprs) {
    for (std::size_t d = 0; d < space.shape().size(); ++d) {
      (space.is_inner(d) ? row_shape_ : outer_shape_).push_back(space.shape()[d]);
      (space.is_inner(d) ? row_index_ : outer_index_).push_back(space.index()[d]);
    }
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      const ValueId value = body.outputs()[k];
      if (const Node* node = body.producer(value); node && node->op->scatter()) {
        scatter(*node, outputs[k]);
        continue;
      }
      const std::vector<Dim> index = output_index(value);
      const std::uint32_t result = eval(value, index, {});
      build_.store(outputs[k], linearize(index, body.type(value).shape), result);
    }
  }

  /// Why these loops fail, if they do; another split may work.
  const std::optional<std::string>& refusal() const { return refusal_; }
  LoopBuilder& builder() { return build_; }
  /// Indices, by dimension of the space, at which another source of a view begins.
  const Cuts& cuts() const { return cuts_; }

 private:
  using Guards = std::vector<ir::ViewSource::Guard>;

  /// `value` at `index`. Loads read only where all of `guards` hold.
  std::uint32_t eval(ValueId value, std::vector<Dim> index, const Guards& guards) {
    const Shape& shape = body_.type(value).shape;
    for (std::size_t d = 0; d < shape.size(); ++d)
      if (shape[d] == Dim(1) && !build_.is_check(index[d])) index[d] = Dim(0);
    std::string key = fmt::format("{}", value.index);
    for (const Dim& dim : index) key += "," + dim.to_string();
    for (const auto& guard : guards)
      key += fmt::format(" [{} < {}]", guard.value.to_string(), guard.extent.to_string());
    if (const auto known = known_.find(key); known != known_.end()) return known->second;
    // Regions have a few hundred operators, each needed at a few indices.
    constexpr std::size_t kMostEvaluations = 100'000;
    if (known_.size() >= kMostEvaluations)
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("a fused region needs more than {} elements for one of its own: "
                              "compile with --fuse=off",
                              kMostEvaluations));
    const std::uint32_t result = eval_new(value, index, guards);
    known_.emplace(std::move(key), result);
    return result;
  }

  std::uint32_t eval_new(ValueId value, const std::vector<Dim>& index, const Guards& guards) {
    const ir::Value& info = body_.value(value);
    if (info.constant) return constant(*info.constant);
    const Node* node = body_.producer(value);
    if (!node) return load(value, index, guards, 0);
    switch (node->op->kind) {
      case OpKind::kPointwise: return pointwise(*node, value, index, guards);
      case OpKind::kReduce: return reduce(*node, value, index);
      case OpKind::kView: return view(*node, value, index, guards);
      case OpKind::kIndexed:
        if (node->op->take()) return take(*node, index, guards);
        if (node->op->scan()) return scan(*node, value, index);
        if (const auto* def = node->op->generate())
          return build_.op(ScalarOp::kCast, compute_type(body_.type(value).dtype),
                           {build_.index_value(def->value(node->attrs, index))});
        break;
      default: break;
    }
    throw Error(ErrorCode::kUnsupported,
                fmt::format("{} has no place in a generated kernel: it must be decomposed or stay "
                            "outside the fused region",
                            describe(*node)));
  }

  std::uint32_t constant(const Tensor& tensor) {
    const auto element = splat_element(tensor);
    if (!element)
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("a constant {} within a fused region: constants of more than one "
                              "value must be inputs of the region",
                              ir::to_string(tensor.type())));
    const DType type = compute_type(tensor.dtype());
    return is_float(type) ? build_.constant(type, tensor.at(*element))
                          : build_.integer(type, tensor.at_int(*element));
  }

  std::uint32_t load(ValueId value, const std::vector<Dim>& index, const Guards& guards,
                     double fill) {
    const TensorType& type = body_.type(value);
    return build_.load(inputs_[body_.input_number(value).value()], compute_type(type.dtype),
                       linearize(index, type.shape), guards, fill);
  }

  std::uint32_t pointwise(const Node& node, ValueId value, const std::vector<Dim>& index,
                          const Guards& guards) {
    std::vector<std::uint32_t> operands;
    std::vector<DType> types;
    for (const ValueId input : node.inputs) {
      const std::size_t rank = body_.type(input).shape.size();
      // Broadcasting aligns the last dimensions; eval() uses index 0 along dimensions of extent 1.
      operands.push_back(
          eval(input, {index.end() - static_cast<std::ptrdiff_t>(rank), index.end()}, guards));
      types.push_back(build_.type(operands.back()));
    }
    return expand(node.op->pointwise().expression(node.attrs), node.attrs, operands, types,
                  body_.type(value).dtype);
  }

  /// `declared` is the graph's type of the result.
  std::uint32_t expand(const ir::ScalarExpr& expr, const Attrs& attrs,
                       std::span<const std::uint32_t> operands, std::span<const DType> types,
                       DType declared) {
    const DType result = compute_type(declared);
    const std::vector<DType> node_types = ir::infer_scalar_types(expr, types, result);
    std::vector<std::uint32_t> values;
    for (std::size_t i = 0; i < expr.nodes.size(); ++i) {
      const ir::ScalarNode& node = expr.nodes[i];
      switch (node.kind) {
        case ir::ScalarNode::Kind::kOperand:
          values.push_back(operands[static_cast<std::size_t>(node.operand)]);
          break;
        case ir::ScalarNode::Kind::kConstant:
          values.push_back(build_.constant(node_types[i], node.constant));
          break;
        case ir::ScalarNode::Kind::kAttr: {
          const ir::Attr& attr = attrs.get(node.attr);
          const auto* integer = std::get_if<std::int64_t>(&attr);
          values.push_back(build_.constant(
              node_types[i], integer ? static_cast<double>(*integer) : std::get<double>(attr)));
          break;
        }
        case ir::ScalarNode::Kind::kOp: {
          std::vector<std::uint32_t> args;
          for (int a = 0; a < arity_of(node.op); ++a)
            args.push_back(values[static_cast<std::size_t>(node.args[a])]);
          values.push_back(build_.op(node.op, node_types[i], std::move(args), declared));
          break;
        }
      }
    }
    return build_.op(ScalarOp::kCast, result, {values.back()});
  }

  std::uint32_t reduce(const Node& node, ValueId value, const std::vector<Dim>& index) {
    const Shape& shape = body_.type(node.inputs[0]).shape;
    const ReduceShape parts = reduce_shape(body_, node);
    const auto kept = matching_index(parts.kept_extents, outer_shape_, outer_index_);
    const auto reduced = matching_index(parts.reduced_extents, row_shape_, row_index_);
    if (!kept || !reduced)
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("{} reduces axes {} of {}, but the region's rows are {} of {}: it "
                              "needs a kernel of its own",
                              describe(node), fmt::join(node.attrs.get_ints("axes"), ","),
                              ir::to_string(shape), ir::to_string(row_shape_),
                              ir::to_string(space_.shape())));
    // A reduction's result can be read only in its own row.
    const bool keepdims = node.attrs.get_int("keepdims") != 0;
    std::size_t k = 0, position = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (parts.reduced[d]) {
        position += keepdims ? 1 : 0;
        continue;
      }
      const Dim difference = ir::simplify(index[position++] - (*kept)[k++], build_.ranges());
      if (shape[d] == Dim(1) || difference == Dim(0) || refusal_) continue;
      build_.want_split(difference);
      refusal_ = fmt::format(
          "the result of {} is read at another row than its own ({} instead of {}): it must be "
          "stored by a kernel of its own first",
          describe(node), index[position - 1].to_string(), (*kept)[k - 1].to_string());
    }
    std::vector<Dim> operand_index;
    k = 0;
    std::size_t r = 0;
    for (std::size_t d = 0; d < shape.size(); ++d)
      operand_index.push_back(parts.reduced[d] ? (*reduced)[r++] : (*kept)[k++]);

    const ir::ReduceDef& def = node.op->reduce();
    const DType result = compute_type(body_.type(value).dtype);
    // The reduction's row exists even where the reader's guards fail.
    const std::uint32_t element = eval(node.inputs[0], operand_index, {});
    const DType types[2] = {build_.type(element), result};
    const DType declared = body_.type(value).dtype;
    const std::uint32_t pre = expand(def.pre, node.attrs, {&element, 1}, {types, 1}, declared);
    const std::uint32_t combined = build_.reduce(def.combine, pre);
    std::vector<std::uint32_t> operands = {combined};
    std::vector<DType> operand_types = {result};
    const bool counts = std::ranges::any_of(def.finish.nodes, [](auto& n) {
      return n.kind == ir::ScalarNode::Kind::kOperand && n.operand == 1;
    });
    if (counts) {
      operands.push_back(build_.size(result, ir::element_count(parts.reduced_extents)));
      operand_types.push_back(result);
    }
    return expand(def.finish, node.attrs, operands, operand_types, declared);
  }

  std::uint32_t scan(const Node& node, ValueId value, const std::vector<Dim>& index) {
    const Shape& shape = body_.type(value).shape;
    const Combine combine = node.op->scan()->combine(node.attrs);
    const bool exclusive = node.attrs.get_int("exclusive") != 0;
    if (shape[static_cast<std::size_t>(node.attrs.get_int("axis"))] == Dim(1))  // no row
      return exclusive ? build_.constant(compute_type(body_.type(value).dtype),
                                         combine == Combine::kProd ? 1 : 0)
                       : eval(node.inputs[0], index, {});
    const auto own = matching_index(shape, space_.shape(), space_.index());
    bool here = own.has_value();
    for (std::size_t d = 0; here && d < shape.size(); ++d)
      here = shape[d] == Dim(1) || ir::simplify(index[d] - (*own)[d], build_.ranges()) == Dim(0);
    if (!here)
      throw Error(
          ErrorCode::kUnsupported,
          fmt::format("the result of {} is read at another element than its own: it must be "
                      "stored by a kernel of its own first",
                      describe(node)));
    return build_.scan(combine, eval(node.inputs[0], *own, {}), exclusive);
  }

  /// `index`, over `extents`, as an index of `shape`, if both enumerate the same elements.
  std::optional<std::vector<Dim>> matching_index(const Shape& shape, const Shape& extents,
                                                 const std::vector<Dim>& index) {
    if (without_ones(shape) == without_ones(extents)) {
      std::vector<Dim> result;
      std::size_t next = 0;
      for (const Dim& extent : shape) {
        if (extent == Dim(1)) {
          result.push_back(Dim(0));
          continue;
        }
        while (extents[next] == Dim(1)) ++next;
        result.push_back(index[next++]);
      }
      return result;
    }
    if (ir::element_count(shape) != ir::element_count(extents)) return std::nullopt;
    return delinearize(linearize(index, extents), shape, build_.ranges());
  }

  /// The source element of `value` at `index`, through views with one source and no guards.
  std::pair<ValueId, std::vector<Dim>> behind_views(ValueId value, std::vector<Dim> index) {
    for (const Node* view = body_.producer(value);
         view != nullptr && view->op->kind == OpKind::kView && view->inputs.size() == 1;
         view = body_.producer(value)) {
      std::vector<ir::ViewSource> sources = view->op->view().map(
          view->attrs, body_.types(view->inputs), body_.type(value), index, build_.ranges());
      if (sources.size() != 1 || !sources[0].guards.empty()) break;
      index = std::move(sources[0].index);
      value = view->inputs[0];
    }
    return {value, std::move(index)};
  }

  std::uint32_t view(const Node& node, ValueId value, const std::vector<Dim>& index,
                     const Guards& guards) {
    const ir::ViewDef& def = node.op->view();
    std::vector<ir::ViewSource> sources =
        def.map(node.attrs, body_.types(node.inputs), body_.type(value), index, build_.ranges());
    for (ir::ViewSource& source : sources)
      std::erase_if(source.guards, [&](const auto& guard) {
        const auto low = ir::lower_bound(guard.value, build_.ranges());
        return low && *low >= 0 &&
               ir::proves_le(guard.value, guard.extent - Dim(1), build_.ranges());
      });
    std::erase_if(sources, [&](const ir::ViewSource& source) {
      return std::ranges::any_of(source.guards, [&](const auto& guard) {
        return ir::proves_le(guard.value, Dim(-1), build_.ranges()) ||
               ir::proves_le(guard.extent, guard.value, build_.ranges());
      });
    });
    const auto whole =
        std::ranges::find_if(sources, [](const auto& source) { return source.guards.empty(); });
    if (whole != sources.end()) sources.erase(whole + 1, sources.end());
    if (sources.size() > 1)
      for (const ir::ViewSource& source : sources) note_cuts(source.guards);
    const double fill = node.attrs.has("fill") ? node.attrs.get_float("fill") : def.fill;
    const DType type = compute_type(body_.type(value).dtype);

    std::optional<std::uint32_t> result;
    for (std::size_t s = sources.size(); s-- > 0;) {
      const ir::ViewSource& source = sources[s];
      const ValueId from = node.inputs[static_cast<std::size_t>(source.input)];
      if (source.guards.empty()) {
        result = eval(from, source.index, guards);
        continue;
      }
      Guards all = guards;
      all.insert(all.end(), source.guards.begin(), source.guards.end());
      // The load of the last source can supply the fill value.
      const auto [stored, stored_index] = node.inputs.size() == 1 ? behind_views(from, source.index)
                                                                  : std::pair(from, source.index);
      if (!result && !body_.producer(stored) && !body_.is_constant(stored)) {
        std::vector<Dim> at = stored_index;
        const Shape& shape = body_.type(stored).shape;
        for (std::size_t d = 0; d < shape.size(); ++d)
          if (shape[d] == Dim(1) && !build_.is_check(at[d])) at[d] = Dim(0);
        result = load(stored, at, all, fill);
        continue;
      }
      const std::uint32_t otherwise = result ? *result : build_.constant(type, fill);
      const std::uint32_t inside = eval(from, source.index, all);
      result = build_.op(ScalarOp::kSelect, type, {build_.holds(source.guards), inside, otherwise});
    }
    return result ? *result : build_.constant(type, fill);
  }

  /// Adds the bounds of guards between sources as cuts.
  void note_cuts(const Guards& guards) {
    for (const auto& guard : guards) {
      if (!guard.extent.is_constant()) continue;
      for (std::size_t d = 0; d < space_.shape().size(); ++d) {
        const Dim offset = guard.value - space_.index()[d];
        const Dim& extent = space_.shape()[d];
        if (space_.is_inner(d) || !offset.is_constant() || !extent.is_constant()) continue;
        for (const std::int64_t cut : {-offset.value(), guard.extent.value() - offset.value()})
          if (cut > 0 && cut < extent.value()) cuts_[d].insert(cut);
      }
    }
  }

  std::uint32_t take(const Node& node, const std::vector<Dim>& index, const Guards& guards) {
    const auto at =
        data_index(node, node.op->take()->map(node.attrs, body_.types(node.inputs), index), guards);
    return with_context(describe(node), [&] { return eval(node.inputs[0], at, guards); });
  }

  /// Evaluates the updates before their indices: loads precede the store.
  void scatter(const Node& node, std::uint32_t buffer) {
    const auto index = step_index(body_.type(node.inputs[1]).shape);
    if (!index)
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("{} in a region over {}: it needs a kernel of its own",
                              describe(node), ir::to_string(space_.shape())));
    const ir::ScatterDef& def = *node.op->scatter();
    const std::uint32_t value = eval(node.inputs[1], *index, {});
    const auto at = data_index(node, def.map(node.attrs, body_.types(node.inputs), *index), {});
    build_.scatter(buffer, linearize(at, body_.type(node.inputs[0]).shape), value,
                   def.combine(node.attrs));
  }

  /// Indices that follow from the loops become part of the address; others are gathered.
  std::vector<Dim> data_index(const Node& node, const std::vector<ir::DataIndex>& map,
                              const Guards& guards) {
    const Shape& data = body_.type(node.inputs[0]).shape;
    std::vector<Dim> result;
    for (std::size_t d = 0; d < map.size(); ++d) {
      if (map[d].input < 0) {
        result.push_back(map[d].at[0]);
        continue;
      }
      const ValueId input = node.inputs[static_cast<std::size_t>(map[d].input)];
      if (const auto known = ir::index_of_value(body_, input, map[d].at, build_.ranges()))
        if (const auto usable = usable_position(*known, data[d])) {
          result.push_back(*usable);
          continue;
        }
      result.push_back(build_.gather(eval(input, map[d].at, guards), data[d]));
    }
    return result;
  }

  /// `position` in a dimension of `extent` elements, if it is proved in range and is linear in the
  /// loops, possibly after a split.
  std::optional<Dim> usable_position(Dim position, const Dim& extent) const {
    if (position.is_constant() && position.value() < 0) position += extent;
    const auto low = ir::lower_bound(position, build_.ranges());
    if (!low || *low < 0 || !ir::proves_le(position, extent - Dim(1), build_.ranges()))
      return std::nullopt;
    const bool linear = std::ranges::all_of(position.terms(), [](const Dim::Term& term) {
      return std::ranges::all_of(term.factors, [](const auto& atom) {
        return atom->kind == ir::DimAtom::Kind::kSymbol || !uses_index(dim_of(*atom, {}));
      });
    });
    if (!linear && !space_.find_split(position)) return std::nullopt;
    return position;
  }

  /// The loops' index in `shape`, whose dimensions are those of the elements or of the rows.
  std::optional<std::vector<Dim>> step_index(const Shape& shape) {
    // Rows first: for other shapes, a match of elements by size alone is the weakest evidence.
    if (!row_shape_.empty() && without_ones(shape) != without_ones(space_.shape()))
      if (auto rows = matching_index(shape, outer_shape_, outer_index_)) return rows;
    return matching_index(shape, space_.shape(), space_.index());
  }

  /// The loops' index in the dimensions of output `value`.
  std::vector<Dim> output_index(ValueId value) {
    // With reductions the loops are fixed: an output that is a view of a result is stored through
    // the view's inverse. Without reductions the loops are the output's own.
    std::vector<const Node*> views;
    ValueId base = value;
    while (!row_shape_.empty()) {
      const Node* node = body_.producer(base);
      if (!node || (node->op->name != "Reshape" && node->op->name != "Transpose")) break;
      views.push_back(node);
      base = node->inputs[0];
    }
    const Shape& shape = body_.type(base).shape;
    auto index = step_index(shape);
    if (!index)
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("an output of shape {} of a fused region over {}: neither its "
                              "elements nor its rows",
                              ir::to_string(shape), ir::to_string(space_.shape())));
    for (auto it = views.rbegin(); it != views.rend(); ++it) {
      const Node& node = **it;
      const Shape& from = body_.type(node.inputs[0]).shape;
      const Shape& to = body_.type(node.outputs[0]).shape;
      std::vector<Dim> next(to.size());
      if (node.op->name == "Transpose") {
        const auto& perm = node.attrs.get_ints("perm");
        for (std::size_t d = 0; d < to.size(); ++d)
          next[d] = (*index)[static_cast<std::size_t>(perm[d])];
      } else {
        next = delinearize(linearize(*index, from), to, build_.ranges());
      }
      index = std::move(next);
    }
    return *index;
  }

  const Graph& body_;
  Buffers inputs_;
  const LoopSpace& space_;
  LoopBuilder build_;
  Shape outer_shape_, row_shape_;
  std::vector<Dim> outer_index_, row_index_;
  std::map<std::string, std::uint32_t> known_;
  Cuts cuts_;
  std::optional<std::string> refusal_;
};

}  // namespace

LoopProgramT lower_over(const Graph& body, Buffers inputs, Buffers outputs, ExprTable& exprs,
                        LoopSpace space, Cuts* cuts) {
  if (inputs.size() != body.inputs().size() || outputs.size() != body.outputs().size())
    throw Error(ErrorCode::kInternal, "buffers do not match the body of a fused region");
  // Every split removes a division. The bound stops expressions that never become linear, which
  // stay non-affine.
  constexpr int kMostSplits = 32;
  for (int attempt = 0;; ++attempt) {
    RegionLowering region(body, inputs, outputs, space, exprs);
    if (cuts && attempt == 0) *cuts = region.cuts();
    const auto& wanted = region.builder().wanted_split();
    if (!wanted || attempt == kMostSplits) {
      if (region.refusal()) throw Error(ErrorCode::kUnsupported, *region.refusal());
      return region.builder().finish();
    }
    space.split(*wanted);
  }
}

LoopProgramT lower_over_loops(const Graph& body, Buffers inputs, Buffers outputs, ExprTable& exprs,
                              const LoopSpace& space, std::optional<SplitRequest>& wanted) {
  RegionLowering region(body, inputs, outputs, space, exprs);
  wanted = region.builder().wanted_split();
  if (!wanted && region.refusal()) throw Error(ErrorCode::kUnsupported, *region.refusal());
  return region.builder().finish(false);
}

}  // namespace sinter::codegen
