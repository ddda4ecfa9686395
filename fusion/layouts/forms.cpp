// SPDX-License-Identifier: Apache-2.0
#include "fusion/layouts/forms.h"

#include <algorithm>

#include "fusion/layouts/convolution.h"
#include "fusion/layouts/views.h"
#include "fusion/regions/broadcast.h"
#include "fusion/regions/operand.h"

namespace sinter::fusion {
namespace {

/// A node of the old graph.
struct Site {
  const Graph& graph;
  const Node& node;
  const TargetTraits& target;

  const Shape& operand(std::size_t i) const { return graph.type(node.inputs[i]).shape; }
  const Shape& result() const { return graph.type(node.outputs[0]).shape; }
};

/// The forms of a kind of operator. Null: only the first form.
struct Rule {
  std::optional<Form> (*of_operand)(const Site& site, std::size_t operand, const Perm& perm);
  std::optional<Form> (*of_result)(const Site& site, const Perm& perm);
  ValueId (*build)(GraphBuilder& builder, const Site& site, const Form& form,
                   std::span<const ValueId> inputs);
};

using MaybeForm = std::optional<Form>;

Form plain_form(const Graph& graph, const Node& node) {
  Form form;
  for (const ValueId input : node.inputs)
    form.operands.push_back(identity_perm(graph.type(input).shape.size()));
  for (const ValueId output : node.outputs)
    form.results.push_back(identity_perm(graph.type(output).shape.size()));
  return form;
}

// ---- Pointwise: operands of lower rank are aligned with the last dimensions.

/// The restriction of `perm` to the last `rank` dimensions.
Perm restricted(const Perm& perm, std::size_t rank) {
  const auto skipped = static_cast<std::int64_t>(perm.size() - rank);
  Perm result;
  for (const std::int64_t d : perm)
    if (d >= skipped) result.push_back(d - skipped);
  return result;
}

MaybeForm pointwise_of_result(const Site& site, const Perm& perm) {
  Form form{{}, {perm}};
  for (std::size_t i = 0; i < site.node.inputs.size(); ++i)
    form.operands.push_back(restricted(perm, site.operand(i).size()));
  return form;
}

MaybeForm pointwise_of_operand(const Site& site, std::size_t operand, const Perm& perm) {
  if (site.operand(operand).size() != site.result().size()) return std::nullopt;
  return pointwise_of_result(site, perm);
}

/// `value`, in layout restricted(perm), with dimensions of 1 where layout `perm` has the dimensions
/// that it lacks.
ValueId spread(GraphBuilder& builder, ValueId value, const Perm& perm) {
  const Shape own = builder.type(value).shape;
  if (own.empty() || own.size() == perm.size()) return value;
  const auto skipped = static_cast<std::int64_t>(perm.size() - own.size());
  Shape shape;
  std::size_t next = 0;
  for (const std::int64_t d : perm)
    if (d >= skipped)
      shape.push_back(own[next++]);
    else if (next > 0)
      shape.push_back(Dim(1));
  return shape == own ? value : add_view(builder, "Reshape", value, {{"shape", shape}});
}

ValueId build_pointwise(GraphBuilder& builder, const Site& site, const Form& form,
                        std::span<const ValueId> inputs) {
  std::vector<ValueId> operands;
  for (const ValueId input : inputs) operands.push_back(spread(builder, input, form.results[0]));
  return builder.add(site.node.op->name, operands, site.node.attrs);
}

// ---- Reductions.

bool is_axis(const Node& node, std::int64_t dim) {
  return std::ranges::find(node.attrs.get_ints("axes"), dim) != node.attrs.get_ints("axes").end();
}

MaybeForm reduction_of_operand(const Site& site, std::size_t, const Perm& perm) {
  if (site.node.attrs.get_int("keepdims") == 1) return Form{{perm}, {perm}};
  const Ints& axes = site.node.attrs.get_ints("axes");
  Perm kept;
  for (const std::int64_t d : perm) {
    if (is_axis(site.node, d)) continue;
    kept.push_back(d - std::ranges::count_if(axes, [&](auto axis) { return axis < d; }));
  }
  return Form{{perm}, {kept}};
}

MaybeForm reduction_of_result(const Site& site, const Perm& perm) {
  // Otherwise the layout of the reduced dimensions is unknown.
  if (site.node.attrs.get_int("keepdims") != 1) return std::nullopt;
  return Form{{perm}, {perm}};
}

ValueId build_reduction(GraphBuilder& builder, const Site& site, const Form& form,
                        std::span<const ValueId> inputs) {
  const Perm& perm = form.operands[0];
  Ints axes;
  for (std::size_t i = 0; i < perm.size(); ++i)
    if (is_axis(site.node, perm[i])) axes.push_back(static_cast<std::int64_t>(i));
  Attrs attrs = site.node.attrs;
  attrs.set("axes", axes);
  return builder.add(site.node.op->name, {inputs[0]}, attrs);
}

// ---- Transposes and reshapes, if they move nothing.

MaybeForm transpose_of_operand(const Site& site, std::size_t, const Perm& perm) {
  return Form{{perm}, {permuted(inverse(site.node.attrs.get_ints("perm")), perm)}};
}

MaybeForm transpose_of_result(const Site& site, const Perm& perm) {
  return Form{{permuted(site.node.attrs.get_ints("perm"), perm)}, {perm}};
}

ValueId build_transpose(GraphBuilder&, const Site&, const Form&, std::span<const ValueId> inputs) {
  return inputs[0];
}

MaybeForm reshape_of_operand(const Site& site, std::size_t, const Perm& perm) {
  const auto layouts = through_reshape(site.operand(0), site.result(), perm);
  if (!layouts) return std::nullopt;
  return Form{{layouts->before}, {layouts->after}};
}

MaybeForm reshape_of_result(const Site& site, const Perm& perm) {
  const auto layouts = through_reshape(site.result(), site.operand(0), perm);
  if (!layouts) return std::nullopt;
  return Form{{layouts->after}, {layouts->before}};
}

ValueId build_reshape(GraphBuilder& builder, const Site& site, const Form& form,
                      std::span<const ValueId> inputs) {
  return builder.add("Reshape", {inputs[0]}, {{"shape", permuted(site.result(), form.results[0])}});
}

// ---- Other views.

MaybeForm unfold_of_operand(const Site& site, std::size_t, const Perm& perm) {
  if (site.node.attrs.get_int("channels_last") != 0 || perm != last_perm(perm.size()))
    return std::nullopt;
  return Form{{perm}, {last_perm(site.result().size())}};
}

MaybeForm unfold_of_result(const Site& site, const Perm& perm) {
  if (perm != last_perm(perm.size())) return std::nullopt;
  return unfold_of_operand(site, 0, last_perm(site.operand(0).size()));
}

ValueId build_unfold(GraphBuilder& builder, const Site& site, const Form&,
                     std::span<const ValueId> inputs) {
  Attrs attrs = site.node.attrs;
  attrs.set("channels_last", std::int64_t{1});
  return builder.add("Unfold", {inputs[0]}, attrs);
}

MaybeForm concat_of_result(const Site& site, const Perm& perm) {
  return Form{std::vector<Perm>(site.node.inputs.size(), perm), {perm}};
}

MaybeForm concat_of_operand(const Site& site, std::size_t, const Perm& perm) {
  return concat_of_result(site, perm);
}

ValueId build_concat(GraphBuilder& builder, const Site& site, const Form& form,
                     std::span<const ValueId> inputs) {
  const Perm& perm = form.results[0];
  const auto axis = std::ranges::find(perm, site.node.attrs.get_int("axis"));
  return builder.add("Concat", {inputs.begin(), inputs.end()}, {{"axis", axis - perm.begin()}});
}

/// Attributes have an entry for each dimension, and dimensions do not mix: Slice, Pad, Expand.
MaybeForm per_dimension_of_result(const Site& site, const Perm& perm) {
  if (site.operand(0).size() != site.result().size()) return std::nullopt;
  return Form{{perm}, {perm}};
}

MaybeForm per_dimension_of_operand(const Site& site, std::size_t, const Perm& perm) {
  return per_dimension_of_result(site, perm);
}

ValueId build_per_dimension(GraphBuilder& builder, const Site& site, const Form& form,
                            std::span<const ValueId> inputs) {
  const Perm& perm = form.results[0];
  Attrs attrs = site.node.attrs;
  for (const auto& [name, attr] : site.node.attrs.values()) {
    if (const auto* dims = std::get_if<std::vector<Dim>>(&attr))
      attrs.set(name, permuted(*dims, perm));
    else if (const auto* ints = std::get_if<Ints>(&attr))
      attrs.set(name, permuted(*ints, perm));
  }
  return builder.add(site.node.op->name, {inputs[0]}, attrs);
}

// ---- Take: an index tensor for each dimension of the data; all broadcast to the result.

MaybeForm take_of_result(const Site& site, const Perm& perm) {
  if (site.operand(0).size() != site.result().size()) return std::nullopt;
  Form form{{perm}, {perm}};
  for (std::size_t i = 1; i < site.node.inputs.size(); ++i)
    form.operands.push_back(restricted(perm, site.operand(i).size()));
  return form;
}

MaybeForm take_of_operand(const Site& site, std::size_t operand, const Perm& perm) {
  return operand == 0 ? take_of_result(site, perm) : std::nullopt;
}

ValueId build_take(GraphBuilder& builder, const Site& site, const Form& form,
                   std::span<const ValueId> inputs) {
  const Perm& perm = form.results[0];
  std::vector<ValueId> operands{inputs[0]};
  for (const std::int64_t d : perm)
    operands.push_back(spread(builder, inputs[static_cast<std::size_t>(d) + 1], perm));
  return builder.add("Take", operands, site.node.attrs);
}

// ---- Convolutions: only channels last, if the target wants that.

bool wants_channels_last(const Site& site) {
  if (site.node.op->name != "Conv" || !site.target.conv_channels_last) return false;
  const DType type = site.graph.type(site.node.outputs[0]).dtype;
  if (has_eight_bit_operands(site.graph, site.node))
    return multiplies_narrow(site.target, site.graph, site.node) &&
           site.node.attrs.get_int("channels_last") == 0;
  return (site.target.conv_any_float ? is_float(type) : type == DType::kFloat32) &&
         site.node.attrs.get_int("channels_last") == 0;
}

/// The CPU's kernel takes such a depthwise convolution where it lies; moving it costs more.
bool may_have_channels_second(const Site& site) {
  const ValueId weights = site.node.inputs[1];
  const Shape& shape = site.graph.type(weights).shape;
  return wants_channels_last(site) && !site.target.conv_as_kernels &&
         site.graph.type(site.node.outputs[0]).dtype == DType::kFloat32 &&
         !has_eight_bit_operands(site.graph, site.node) && shape.size() <= 4 &&
         site.graph.value(weights).constant != nullptr && shape[1] == Dim(1) &&
         site.node.attrs.get_int("group") > 1 &&
         site.operand(0)[1] == Dim(site.node.attrs.get_int("group"));
}

Form convolution_form(const Site& site) {
  Form form = plain_form(site.graph, site.node);
  const Perm perm = last_perm(site.result().size());
  form.operands[0] = form.operands[1] = form.results[0] = perm;
  return form;
}

MaybeForm convolution_of_operand(const Site& site, std::size_t operand, const Perm& perm) {
  Form form = convolution_form(site);
  return form.operands[operand] == perm ? MaybeForm(form) : std::nullopt;
}

MaybeForm convolution_of_result(const Site& site, const Perm& perm) {
  return convolution_of_operand(site, 0, perm);
}

ValueId build_convolution(GraphBuilder& builder, const Site& site, const Form&,
                          std::span<const ValueId> inputs) {
  return add_channels_last_conv(builder, site.node, inputs, site.target.conv_as_kernels);
}

constexpr Rule kPointwise{pointwise_of_operand, pointwise_of_result, build_pointwise};
constexpr Rule kReduction{reduction_of_operand, reduction_of_result, build_reduction};
constexpr Rule kTranspose{transpose_of_operand, transpose_of_result, build_transpose};
constexpr Rule kReshape{reshape_of_operand, reshape_of_result, build_reshape};
constexpr Rule kUnfold{unfold_of_operand, unfold_of_result, build_unfold};
constexpr Rule kConcat{concat_of_operand, concat_of_result, build_concat};
constexpr Rule kPerDimension{per_dimension_of_operand, per_dimension_of_result,
                             build_per_dimension};
constexpr Rule kTake{take_of_operand, take_of_result, build_take};
constexpr Rule kConvolution{convolution_of_operand, convolution_of_result, build_convolution};

const Rule* rule_of(const Site& site) {
  const std::string& op = site.node.op->name;
  switch (site.node.op->kind) {
    case OpKind::kPointwise: return &kPointwise;
    case OpKind::kReduce: return &kReduction;
    case OpKind::kView:
      if (site.node.inputs.empty()) return nullptr;
      if (op == "Transpose") return &kTranspose;
      if (op == "Reshape") return &kReshape;
      if (op == "Unfold") return &kUnfold;
      return op == "Concat" ? &kConcat : &kPerDimension;
    case OpKind::kIndexed: return op == "Take" ? &kTake : nullptr;
    default: return wants_channels_last(site) ? &kConvolution : nullptr;
  }
}

/// A Transpose of weights that another node reads untransposed, such as an embedding's: GEMMs
/// accept them as they are, and a second layout would store them twice.
bool is_view_of_shared_weights(const Site& site) {
  const Graph& graph = site.graph;
  const ValueId weights = site.node.inputs[0];
  return graph.value(weights).constant != nullptr && graph.users(weights).size() > 1 &&
         std::ranges::all_of(graph.users(site.node.outputs[0]),
                             [&](NodeId user) { return is_matrix_product(graph.node(user)); });
}

}  // namespace

Form first_form(const Graph& graph, const Node& node, const TargetTraits& target) {
  const Site site{graph, node, target};
  if (wants_channels_last(site)) return convolution_form(site);
  Form plain = plain_form(graph, node);
  if (node.op->name == "Transpose" && !is_view_of_shared_weights(site))
    return *transpose_of_operand(site, 0, plain.operands[0]);
  return plain;
}

std::optional<Form> second_form(const Graph& graph, const Node& node, const TargetTraits& target) {
  const Site site{graph, node, target};
  if (node.op->name != "Conv" || !may_have_channels_second(site)) return std::nullopt;
  return plain_form(graph, node);
}

std::optional<Form> form_of_operand(const Graph& graph, const Node& node, std::size_t operand,
                                    const Perm& perm, const TargetTraits& target) {
  const Site site{graph, node, target};
  const Rule* rule = rule_of(site);
  return rule == nullptr ? std::nullopt : rule->of_operand(site, operand, perm);
}

std::optional<Form> form_of_result(const Graph& graph, const Node& node, const Perm& perm,
                                   const TargetTraits& target) {
  const Site site{graph, node, target};
  const Rule* rule = rule_of(site);
  return rule == nullptr ? std::nullopt : rule->of_result(site, perm);
}

std::vector<ValueId> build_form(GraphBuilder& builder, const Graph& graph, const Node& node,
                                const Form& form, std::span<const ValueId> inputs,
                                const TargetTraits& target) {
  const Site site{graph, node, target};
  const Rule* rule = form == plain_form(graph, node) ? nullptr : rule_of(site);
  if (rule == nullptr)
    return builder.add_multi(node.op->name, {inputs.begin(), inputs.end()}, node.attrs, node.body);
  return {rule->build(builder, site, form, inputs)};
}

}  // namespace sinter::fusion
