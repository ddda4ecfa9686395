// SPDX-License-Identifier: Apache-2.0
#include "fusion/regions/rebuild.h"

#include <algorithm>
#include <set>

#include "fusion/transforms.h"
#include "ir/graph_checks.h"
#include "sinter/error.h"

namespace sinter::fusion {
namespace {

/// Emits pieces and nodes on demand, after their operands.
class Rebuilder {
 public:
  Rebuilder(const Graph& graph, std::span<const Piece> pieces)
      : graph_(graph),
        pieces_(pieces),
        builder_(graph.name()),
        map_(graph.values().size()),
        piece_of_(graph.values().size(), -1),
        node_state_(graph.nodes().size(), State::kNew),
        piece_state_(pieces.size(), State::kNew) {
    for (std::size_t p = 0; p < pieces.size(); ++p)
      for (ValueId value : pieces[p].writes) piece_of_[at(value)] = static_cast<int>(p);
  }

  Graph run() {
    for (ValueId input : graph_.inputs())
      map_[at(input)] = builder_.input(graph_.value(input).name, graph_.type(input));
    for (const auto& [symbol, range] : graph_.ranges()) builder_.range(symbol, range);
    mark_needed();
    // Old positions determine the order, the model's, which keeps lifetimes short.
    for (std::size_t n = 0; n < graph_.nodes().size(); ++n)
      for (ValueId out : graph_.nodes()[n].outputs)
        if (needed_[at(out)]) emit(out);
    for (std::size_t i = 0; i < graph_.outputs().size(); ++i)
      builder_.output(graph_.output_names()[i], emit(graph_.outputs()[i]));
    for (const ir::State& state : graph_.states()) builder_.state(state);
    return builder_.finish();
  }

 private:
  enum class State : char { kNew, kOpen, kDone };
  static std::size_t at(ValueId value) { return value.position(); }

  const std::vector<ValueId>& reads_of(ValueId value) const {
    static const std::vector<ValueId> none;
    if (int piece = piece_of_[at(value)]; piece >= 0)
      return pieces_[static_cast<std::size_t>(piece)].reads;
    const Node* node = graph_.producer(value);
    return node != nullptr ? node->inputs : none;
  }

  /// Values that must be emitted before: operands, and sizes that the node names.
  std::vector<ValueId> needs_of(ValueId value) const {
    std::vector<ValueId> needs = reads_of(value);
    const auto add = [&](const std::vector<ValueId>& extents) {
      needs.insert(needs.end(), extents.begin(), extents.end());
    };
    if (const int piece = piece_of_[at(value)]; piece >= 0) {
      const Piece& p = pieces_[static_cast<std::size_t>(piece)];
      add(p.extents);
      for (const ValueId written : p.writes)
        if (const Node* node = graph_.producer(written)) add(node->extents);
    } else if (const Node* node = graph_.producer(value)) {
      add(node->extents);
    }
    return needs;
  }

  void mark_needed() {
    needed_.assign(graph_.values().size(), false);
    std::vector<ValueId> open(graph_.outputs());
    for (const Node& node : graph_.nodes())
      if (ir::is_size_check(node, graph_.ranges())) open.push_back(node.outputs[0]);
    while (!open.empty()) {
      const ValueId value = open.back();
      open.pop_back();
      if (needed_[at(value)]) continue;
      needed_[at(value)] = true;
      const std::vector<ValueId> needs = needs_of(value);
      open.insert(open.end(), needs.begin(), needs.end());
    }
  }

  ValueId emit(ValueId value) {
    // An explicit stack: the depth is the model's length.
    std::vector<ValueId> open{value};
    while (!open.empty()) {
      const ValueId next = open.back();
      if (map_[at(next)].valid()) {
        open.pop_back();
        continue;
      }
      const Value& info = graph_.value(next);
      if (info.constant != nullptr) {
        map_[at(next)] = builder_.constant(info.constant, info.name);
        continue;
      }
      State& state = state_of(next);
      if (state == State::kDone)
        throw Error(ErrorCode::kInternal, "a fused region depends on its own result");
      bool ready = true;
      for (ValueId read : needs_of(next)) {
        if (map_[at(read)].valid()) continue;
        if (graph_.value(read).constant == nullptr && state_of(read) == State::kOpen)
          throw Error(ErrorCode::kInternal, "fused regions depend on each other in a circle");
        open.push_back(read);
        ready = false;
      }
      if (ready) {
        make(next);
        state_of(next) = State::kDone;
      } else {
        state = State::kOpen;
      }
    }
    return map_[at(value)];
  }

  State& state_of(ValueId value) {
    if (int piece = piece_of_[at(value)]; piece >= 0)
      return piece_state_[static_cast<std::size_t>(piece)];
    return node_state_[static_cast<std::size_t>(graph_.value(value).producer.index)];
  }

  void make(ValueId value) {
    std::vector<ValueId> reads;
    for (ValueId read : reads_of(value)) reads.push_back(map_[at(read)]);
    std::vector<ValueId> results;
    const std::vector<ValueId>* writes = nullptr;
    if (int piece = piece_of_[at(value)]; piece >= 0) {
      const Piece& p = pieces_[static_cast<std::size_t>(piece)];
      results = p.emit(builder_, reads);
      writes = &p.writes;
    } else {
      const Node& node = *graph_.producer(value);
      GraphBuilder::OriginScope scope(builder_, node.origins);
      results = builder_.add_multi(node.op->name, reads, node.attrs, node.body);
      writes = &node.outputs;
    }
    for (std::size_t i = 0; i < writes->size(); ++i) {
      const ValueId old = (*writes)[i];
      if (map_[at(old)].valid()) continue;
      // If a piece writes another output of the node, the node keeps only its own values.
      if (piece_of_[at(old)] != piece_of_[at(value)]) continue;
      map_[at(old)] = results[i];
      if (!graph_.value(old).name.empty()) builder_.name(results[i], graph_.value(old).name);
    }
  }

  const Graph& graph_;
  std::span<const Piece> pieces_;
  GraphBuilder builder_;
  std::vector<ValueId> map_;
  std::vector<int> piece_of_;
  std::vector<State> node_state_, piece_state_;
  std::vector<bool> needed_;
};

/// True if a Rebuilder without pieces would give all values the same numbers: inputs, then for each
/// node the constants that it reads first, its last operand's first, and its results.
bool is_as_rebuilt(const Graph& graph) {
  std::vector<bool> known(graph.values().size(), false);
  std::int32_t next = 0;
  const auto follows = [&](ValueId value) {
    known[value.position()] = true;
    return value.index == next++;
  };
  for (ValueId input : graph.inputs())
    if (!follows(input)) return false;
  const auto reads = [&](ValueId value) { return known[value.position()] || follows(value); };
  for (const Node& node : graph.nodes()) {
    if (!std::all_of(node.extents.rbegin(), node.extents.rend(), reads) ||
        !std::all_of(node.inputs.rbegin(), node.inputs.rend(), reads) ||
        !std::ranges::all_of(node.outputs, follows))
      return false;
  }
  return std::ranges::all_of(graph.outputs(), reads) &&
         static_cast<std::size_t>(next) == graph.values().size();
}

}  // namespace

Graph rebuild(const Graph& graph, std::span<const Piece> pieces) {
  if (pieces.empty() && is_as_rebuilt(graph)) return graph;
  return Rebuilder(graph, pieces).run();
}

ValueId BodyBuilder::import(ValueId value) {
  if (const auto known = known_.find(value.index); known != known_.end())
    return known->second.front();
  const Value& info = graph_.value(value);
  ValueId inner;
  if (literals_ == Literals::kOneElement && info.constant != nullptr &&
      info.constant->element_count() == 1) {
    inner = builder_.constant(info.constant);
  } else if (const Node* node = graph_.producer(value);
             literals_ == Literals::kOneElement && node != nullptr && node->op->generate()) {
    copy(*node);  // a generator needs no input: it is copied to its use
    return import(value);
  } else {
    inner = builder_.input("in" + std::to_string(reads_.size()), info.type);
    reads_.push_back(value);
  }
  bind(value, inner);
  return inner;
}

ValueId BodyBuilder::import_stored(ValueId value) {
  for (const Inner* known : {&known_, &stored_})
    if (const auto found = known->find(value.index); found != known->end())
      for (const ValueId inner : found->second)
        if (builder_.producer(inner) == nullptr && builder_.constant_of(inner) == nullptr)
          return inner;
  const ValueId inner =
      builder_.input("in" + std::to_string(reads_.size()), graph_.value(value).type);
  reads_.push_back(value);
  stored_[value.index].push_back(inner);
  return inner;
}

void BodyBuilder::bind(ValueId outer, ValueId inner) { known_[outer.index].push_back(inner); }

void BodyBuilder::copy(const Node& node) {
  std::vector<ValueId> inputs;
  // Data indexed at arbitrary positions must be in memory.
  const bool reaches = node.op->take() != nullptr || node.op->scatter() != nullptr;
  for (ValueId input : node.inputs)
    inputs.push_back(reaches && inputs.empty() ? import_stored(input) : import(input));
  GraphBuilder::OriginScope scope(builder_, node.origins);
  const auto results = builder_.add_multi(node.op->name, inputs, node.attrs, node.body);
  for (std::size_t i = 0; i < results.size(); ++i) bind(node.outputs[i], results[i]);
  extents_.insert(extents_.end(), node.extents.begin(), node.extents.end());
  origins_.insert(origins_.end(), node.origins.begin(), node.origins.end());
  // Amortized, as regions have hundreds of nodes.
  if (origins_.size() < 2 * origins_in_order_) return;
  ir::sort_unique(origins_);
  origins_in_order_ = std::max<std::size_t>(origins_.size(), 16);
}

Graph BodyBuilder::finish(std::span<const ValueId> outputs) {
  std::set<std::string> used;
  const auto note = [&](const TensorType& type) {
    for (const Dim& dim : type.shape)
      for (std::string& symbol : dim.symbols()) used.insert(std::move(symbol));
  };
  for (const auto& [outer, inners] : known_)
    for (const ValueId inner : inners) note(builder_.type(inner));
  for (ValueId output : outputs) note(builder_.type(output));
  for (const auto& [symbol, range] : graph_.ranges())
    if (used.count(symbol) != 0) builder_.range(symbol, range);
  for (std::size_t i = 0; i < outputs.size(); ++i)
    builder_.output("out" + std::to_string(i), outputs[i]);
  return builder_.finish();
}

std::vector<ValueId> add_fused(GraphBuilder& builder, const std::string& kind,
                               std::span<const ValueId> inputs, std::shared_ptr<const Graph> body,
                               std::vector<std::string> origins) {
  GraphBuilder::OriginScope scope(builder, std::move(origins));
  return builder.add_multi("Fused", {inputs.begin(), inputs.end()}, {{"kind", kind}},
                           std::move(body));
}

Piece body_piece(std::string kind, BodyBuilder& body, std::span<const ValueId> outputs,
                 std::vector<ValueId> writes) {
  Piece piece;
  piece.reads = body.reads();
  piece.writes = std::move(writes);
  piece.extents = body.extents();
  auto origins = body.origins();
  ir::sort_unique(origins);
  piece.emit = [kind = std::move(kind), graph = std::make_shared<const Graph>(body.finish(outputs)),
                origins = std::move(origins)](GraphBuilder& builder,
                                              std::span<const ValueId> reads) {
    return add_fused(builder, kind, reads, graph, origins);
  };
  return piece;
}

Piece fused_piece(const Graph& graph, std::string kind, std::vector<NodeId> nodes,
                  std::vector<ValueId> outputs) {
  std::ranges::sort(nodes);
  std::ranges::sort(outputs);
  std::set<NodeId> needed;
  const auto need = [&](ValueId value) {
    const NodeId producer = graph.value(value).producer;
    if (std::ranges::binary_search(nodes, producer)) needed.insert(producer);
  };
  for (ValueId output : outputs) need(output);
  for (auto id = nodes.rbegin(); id != nodes.rend(); ++id)
    if (needed.count(*id) != 0)
      for (ValueId input : graph.node(*id).inputs) need(input);
  BodyBuilder body(graph);
  for (NodeId id : needed) body.copy(graph.node(id));
  std::vector<ValueId> inner;
  for (ValueId output : outputs) inner.push_back(body.import(output));
  return body_piece(std::move(kind), body, inner, std::move(outputs));
}

std::string describe(const Node& node) {
  std::string text = node.op->name;
  if (node.op->kind == OpKind::kFused) text = node.attrs.get_string("kind");
  if (node.origins.empty()) return text;
  text += " (" + node.origins.front();
  if (node.origins.size() > 1) text += " +" + std::to_string(node.origins.size() - 1);
  return text + ")";
}

namespace {

/// Limits origins: thousands of equal nodes of a model become one, with many decisions.
std::vector<std::string> some(const std::vector<std::string>& origins) {
  constexpr std::size_t kMost = 1000;
  return {origins.begin(),
          origins.begin() + static_cast<std::ptrdiff_t>(std::min(origins.size(), kMost))};
}

}  // namespace

Decision decision(const Node& producer, const Node& consumer, bool fused, std::string_view reason) {
  Decision result;
  result.producer = describe(producer);
  result.consumer = describe(consumer);
  result.fused = fused;
  result.reason = (fused ? "fused: " : "no: ") + std::string(reason);
  result.producer_origins = some(producer.origins);
  result.consumer_origins = some(consumer.origins);
  return result;
}

const ir::Transform kSplatValue = {
    "splat_value",
    [](const Attrs&, std::span<const Tensor> inputs) { return ir::has_inputs(inputs, 1); },
    [](const Attrs&, std::span<const Tensor> inputs) {
      const Tensor& tensor = inputs[0];
      const std::size_t size = size_of(tensor.dtype());
      const auto bytes = tensor.bytes();
      bool is_splat = !bytes.empty();
      for (std::size_t at = size; is_splat && at < bytes.size(); at += size)
        is_splat = std::equal(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size),
                              bytes.begin() + static_cast<std::ptrdiff_t>(at));
      std::vector<double> value;
      if (is_splat) value.push_back(tensor.at(0));
      return std::vector{Tensor::from_doubles(DType::kFloat64, {is_splat ? 1 : 0}, value)};
    },
    1};

std::optional<double> splat_value(const Tensor& tensor) {
  if (tensor.element_count() < 1) return std::nullopt;
  // A one-element tensor has been read already.
  if (tensor.element_count() == 1) return tensor.at(0);
  const Tensor value = ir::apply(kSplatValue, {}, std::span(&tensor, 1)).front();
  ir::note_read(value);  // also if it has no element
  return value.element_count() == 1 ? std::optional(value.at(0)) : std::nullopt;
}

std::optional<double> splat_value(const Graph& graph, ValueId value) {
  const auto& constant = graph.value(value).constant;
  return constant ? splat_value(*constant) : std::nullopt;
}

std::optional<double> splat_value(const GraphBuilder& builder, ValueId value) {
  const Tensor* constant = builder.constant_of(value);
  return constant != nullptr ? splat_value(*constant) : std::nullopt;
}

}  // namespace sinter::fusion
