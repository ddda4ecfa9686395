// Convolutions with their channels last, as kernels and libraries of GPUs want them, and everything
// around them in the same layout, so that nothing is transposed between two convolutions.
//
// The pass goes through the graph once, from inputs to outputs. A value that is made in another
// layout than its own has a *twin*: the value transposed. A node whose operands have twins is done
// on them, which gives its results twins, unless that would move more bytes than undoing theirs.
// What cannot be done on twins, and the model's outputs, read the value transposed back.
#include "fusion/passes/channels_last.h"

#include <algorithm>

#include "fusion/passes/passes.h"
#include "fusion/regions/broadcast.h"
#include "fusion/regions/cost.h"

namespace sinter::fusion {
namespace {

class ChannelsLast {
 public:
  ChannelsLast(const Graph& graph, const TargetTraits& target)
      : old_(graph), target_(target), builder_(graph.name()), twins_(old_, builder_) {}

  Graph run() {
    for (const auto& [symbol, range] : old_.ranges()) builder_.range(symbol, range);
    for (ValueId input : old_.inputs()) {
      const Value& info = old_.value(input);
      twins_.set(input, builder_.input(info.name, info.type));
    }
    for (const Node& node : old_.nodes()) {
      GraphBuilder::OriginScope scope(builder_, node.origins);
      if (!convert(node)) copy(node);
    }
    for (std::size_t i = 0; i < old_.outputs().size(); ++i)
      builder_.output(old_.output_names()[i], twins_.plain(old_.outputs()[i]));
    for (const ir::State& state : old_.states()) builder_.state(state);
    return builder_.finish();
  }

 private:
  void copy(const Node& node) {
    std::vector<ValueId> inputs;
    for (ValueId input : node.inputs) inputs.push_back(twins_.plain(input));
    const auto results = builder_.add_multi(node.op->name, inputs, node.attrs, node.body);
    for (std::size_t i = 0; i < results.size(); ++i) twins_.set(node.outputs[i], results[i]);
  }

  bool convert(const Node& node) {
    const std::string& op = node.op->name;
    if (op == "Conv") return convolution(node);
    const auto perm = wanted(node);
    if (!perm) return op == "Transpose" && channels_moved(node);
    switch (node.op->kind) {
      case OpKind::kPointwise: return elementwise(node, *perm);
      case OpKind::kReduce: return reduction(node, *perm);
      case OpKind::kView: break;
      default: return op == "Take" && take(node, *perm);
    }
    if (op == "Transpose") return transpose(node, *perm);
    if (op == "Reshape") return reshape(node, *perm);
    if (op == "Unfold") return unfold(node);
    if (op == "Concat") return concat(node, *perm);
    return per_dimension(node, *perm);
  }

  /// The layout to do `node` in: that of the largest operand that has a twin. Nothing if there is
  /// none, or if other operands would have to be transposed that are larger.
  std::optional<Perm> wanted(const Node& node) const {
    const std::size_t rank = old_.type(node.outputs.at(0)).shape.size();
    const bool any_rank = node.op->kind == OpKind::kReduce || node.op->kind == OpKind::kView;
    double most = 0, with = 0, without = 0;
    std::optional<Perm> perm;
    for (ValueId input : node.inputs) {
      const double bytes = twins_.is_static(input) ? 0 : typical_bytes(old_, input);
      const Twin* twin = twins_.twin(input);
      if (twin == nullptr || (!any_rank && twin->perm.size() != rank)) {
        without += bytes;
        continue;
      }
      with += bytes;
      if (perm && bytes <= most) continue;
      most = bytes;
      perm = twin->perm;
    }
    return without > with ? std::nullopt : perm;
  }

  bool elementwise(const Node& node, const Perm& perm) {
    std::vector<ValueId> inputs;
    for (ValueId input : node.inputs) inputs.push_back(twins_.broadcast(input, perm));
    twins_.set(node.outputs[0], builder_.add(node.op->name, inputs, node.attrs), perm);
    return true;
  }

  bool reduction(const Node& node, const Perm& perm) {
    const auto& axes = node.attrs.get_ints("axes");
    const auto is_reduced = [&](std::int64_t d) {
      return std::ranges::find(axes, d) != axes.end();
    };
    Ints moved;
    Perm kept;
    for (std::size_t i = 0; i < perm.size(); ++i) {
      if (is_reduced(perm[i])) moved.push_back(static_cast<std::int64_t>(i));
      if (is_reduced(perm[i])) continue;
      const auto before = std::ranges::count_if(axes, [&](auto axis) { return axis < perm[i]; });
      kept.push_back(perm[i] - before);
    }
    Attrs attrs = node.attrs;
    attrs.set("axes", moved);
    twins_.set(node.outputs[0],
               builder_.add(node.op->name, {twins_.in(node.inputs[0], perm)}, attrs),
               node.attrs.get_int("keepdims") == 1 ? perm : kept);
    return true;
  }

  /// The twin of a transposed value is the value's own.
  bool transpose(const Node& node, const Perm& perm) {
    twins_.set(node.outputs[0], twins_.in(node.inputs[0], perm),
               permuted(inverse(node.attrs.get_ints("perm")), perm));
    return true;
  }

  /// A value with channels last whose channels are moved to the front is the twin of the result:
  /// what comes between it and the next convolution need not be done on the other layout. So is one
  /// whose other dimensions change places besides, as windows that become an image again.
  bool channels_moved(const Node& node) {
    const Ints& perm = node.attrs.get_ints("perm");
    const auto rank = static_cast<std::int64_t>(perm.size());
    if (rank < 3 || perm[1] != rank - 1 || twins_.is_static(node.inputs[0])) return false;
    const Perm layout = last_perm(perm.size()), others = permuted(perm, layout);
    const ValueId source = twins_.plain(node.inputs[0]);
    twins_.set(node.outputs[0],
               is_identity(others) ? source : add_transpose(builder_, source, others), layout);
    return true;
  }

  bool reshape(const Node& node, const Perm& perm) {
    const Shape& to = old_.type(node.outputs[0]).shape;
    const auto moved = through_reshape(old_.type(node.inputs[0]).shape, to, perm);
    if (!moved || is_identity(moved->after)) return false;
    const ValueId source = twins_.in(node.inputs[0], moved->before);
    twins_.set(node.outputs[0],
               builder_.add("Reshape", {source}, {{"shape", permuted(to, moved->after)}}),
               moved->after);
    return true;
  }

  bool unfold(const Node& node) {
    if (node.attrs.get_int("channels_last") != 0) return false;
    Attrs attrs = node.attrs;
    attrs.set("channels_last", std::int64_t{1});
    const ValueId x = twins_.in(node.inputs[0], last_perm(rank(node.inputs[0])));
    twins_.set(node.outputs[0], builder_.add("Unfold", {x}, attrs),
               last_perm(rank(node.outputs[0])));
    return true;
  }

  bool concat(const Node& node, const Perm& perm) {
    std::vector<ValueId> inputs;
    for (ValueId input : node.inputs) inputs.push_back(twins_.in(input, perm));
    const auto axis = std::ranges::find(perm, node.attrs.get_int("axis"));
    twins_.set(node.outputs[0], builder_.add("Concat", inputs, {{"axis", axis - perm.begin()}}),
               perm);
    return true;
  }

  /// Views with attributes of one entry for each dimension, which stay apart.
  bool per_dimension(const Node& node, const Perm& perm) {
    if (rank(node.inputs[0]) != rank(node.outputs[0])) return false;
    Attrs attrs = node.attrs;
    for (const auto& [name, attr] : node.attrs.values()) {
      if (const auto* dims = std::get_if<std::vector<Dim>>(&attr))
        attrs.set(name, permuted(*dims, perm));
      else if (const auto* ints = std::get_if<Ints>(&attr))
        attrs.set(name, permuted(*ints, perm));
    }
    twins_.set(node.outputs[0],
               builder_.add(node.op->name, {twins_.in(node.inputs[0], perm)}, attrs), perm);
    return true;
  }

  /// One index tensor for each dimension of the data, broadcast to the result's shape.
  bool take(const Node& node, const Perm& perm) {
    if (rank(node.inputs[0]) != rank(node.outputs[0]) || twins_.twin(node.inputs[0]) == nullptr)
      return false;
    std::vector<ValueId> inputs{twins_.in(node.inputs[0], perm)};
    for (std::int64_t d : perm)
      inputs.push_back(twins_.broadcast(node.inputs[static_cast<std::size_t>(d) + 1], perm));
    twins_.set(node.outputs[0], builder_.add("Take", inputs, node.attrs), perm);
    return true;
  }

  bool convolution(const Node& node) {
    const DType type = old_.type(node.outputs[0]).dtype;
    const bool taken = target_.conv_any_float ? is_float(type) : type == DType::kFloat32;
    if (!taken || node.attrs.get_int("channels_last") != 0) return false;
    const Perm perm = last_perm(rank(node.inputs[0]));
    std::vector<ValueId> inputs{twins_.in(node.inputs[0], perm), twins_.in(node.inputs[1], perm)};
    if (node.inputs.size() > 2) inputs.push_back(twins_.plain(node.inputs[2]));
    twins_.set(node.outputs[0],
               add_channels_last_conv(builder_, node, inputs, target_.conv_as_kernels), perm);
    return true;
  }

  std::size_t rank(ValueId value) const { return old_.type(value).shape.size(); }

  const Graph& old_;
  const TargetTraits& target_;
  GraphBuilder builder_;
  Twins twins_;
};

/// Convolutions, and images whose channels are moved to the front.
bool has_channels(const Node& node) {
  if (node.op->name == "Conv") return true;
  if (node.op->name != "Transpose") return false;
  const Ints& perm = node.attrs.get_ints("perm");
  return perm.size() > 3 && inverse(perm) == last_perm(perm.size());
}

}  // namespace

Graph channels_last(const Graph& graph, Context& context) {
  if (!context.target.conv_channels_last || std::ranges::none_of(graph.nodes(), has_channels))
    return graph;
  return simplify(ChannelsLast(graph, context.target).run(), context);
}

}  // namespace sinter::fusion
