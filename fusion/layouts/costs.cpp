// SPDX-License-Identifier: Apache-2.0
#include "fusion/layouts/costs.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "fusion/regions/cost.h"
#include "fusion/regions/operand.h"
#include "ir/scale_format.h"

namespace sinter::fusion {
namespace {

// Cost of a layout difference that only needs a reshape.
constexpr double kReshaped = 1 / kWeightOfByte;
// Extra cost of a loop that accesses memory out of order, as a part of its bytes.
constexpr double kStrided = 0.25;

/// How a node reads an operand.
enum class Reading {
  kLoop,       // in any order
  kPointwise,  // likewise, and fuses into the library call that computes it
  kMatrix,     // row-major or column-major
  kRows,       // its last dimension must stay last
  kStored,     // in exactly its form's layout
};

/// How a value is computed.
struct Making {
  bool stored = false;  // by a library or before the graph runs: no loop writes it
  bool fresh = false;   // a library's result, into which the next operators may fuse
  /// For a stored value: the minimum bytes of a layout change. Elementwise operators that follow
  /// the library call can also follow the change.
  double bytes = 0;
  bool part = false;  // a view that is no alias: readers that need it in memory store it, in any
                      // order
  /// For a matmul's result with only transposes after it: the matmul's dimension of each.
  std::optional<Perm> matrix;
  bool rows = false;  // result of a matmul or attention, in any order that keeps rows contiguous
};

class Costs {
 public:
  Costs(const Graph& graph, const TargetTraits& target, const Candidates& candidates,
        const std::vector<bool>& is_static)
      : graph_(graph),
        target_(target),
        candidates_(candidates),
        is_static_(is_static),
        making_(graph.values().size()),
        behind_(graph.values().size(), Reading::kStored) {}

  LayoutProblem run() {
    for (const ValueId input : graph_.inputs()) making_[input.position()] = stored(input);
    for (const Node& node : graph_.nodes())
      for (const ValueId output : node.outputs) making_[output.position()] = making(node);
    for (auto node = graph_.nodes().rbegin(); node != graph_.nodes().rend(); ++node)
      for (const ValueId output : node->outputs) behind_[output.position()] = behind(output);
    problem_.nodes = graph_.nodes().size();
    problem_.moves = candidates_.moves;
    for (std::size_t i = 0; i < graph_.values().size(); ++i)
      if (!is_static_[i]) add_terms(ValueId{static_cast<std::int32_t>(i)});
    return std::move(problem_);
  }

 private:
  bool has_one_user(ValueId value) const {
    return graph_.users(value).size() == 1 && !graph_.is_output(value);
  }

  Making stored(ValueId value, bool fresh = false) const {
    return {true, fresh, typical_bytes(graph_, value), false, std::nullopt, false};
  }

  Making making(const Node& node) const {
    const ValueId result = node.outputs[0];
    switch (node.op->kind) {
      case OpKind::kPointwise:
        for (const ValueId input : node.inputs)
          if (const Making& source = making_[input.position()];
              source.fresh && has_one_user(input) &&
              graph_.type(input).shape == graph_.type(result).shape) {
            Making made = stored(result, true);
            made.bytes = std::min(made.bytes, source.bytes);
            return made;
          }
        return {};
      case OpKind::kReduce: return {};
      case OpKind::kView: return is_single_view(node) ? view_making(node) : Making{};
      case OpKind::kIndexed: return node.op->name == "Take" ? Making{} : stored(result);
      case OpKind::kLibrary: {
        Making made = stored(result, true);
        made.rows = node.op->name == "Attention";
        if (is_matrix_product(node)) made.matrix = identity_perm(graph_.type(result).shape.size());
        return made;
      }
      default: return stored(result);
    }
  }

  static bool is_alias(const Node& view) {
    return view.op->name == "Transpose" || view.op->name == "Reshape";
  }

  Making view_making(const Node& view) const {
    const Making& source = making_[view.inputs[0].position()];
    if (!source.stored) return {};
    const bool transposes = view.op->name == "Transpose";
    Making made = source;
    if (!is_alias(view) || !has_one_user(view.inputs[0])) {
      made = stored(view.outputs[0]);
      made.part = source.part || !is_alias(view);
      return made;
    }
    made.rows = source.rows || (source.matrix && !transposes);
    made.matrix = std::nullopt;
    if (source.matrix && transposes)
      made.matrix = permuted(*source.matrix, view.attrs.get_ints("perm"));
    return made;
  }

  /// Whether a library call that ends with `node` reads the operand as residual.
  bool is_residual(const Node& node, std::size_t operand) const {
    const ValueId value = node.inputs[operand], result = node.outputs[0];
    return making_[result.position()].fresh && !making_[value.position()].fresh &&
           graph_.type(value).shape == graph_.type(result).shape;
  }

  Reading through_view(const Node& view) const {
    const Reading behind = behind_[view.outputs[0].position()];
    return behind == Reading::kStored && !is_alias(view) ? Reading::kLoop : behind;
  }

  /// Our GEMMs copy rows of the left operand, 16 bytes at a time.
  bool reads_rows(const Node& product, std::size_t operand) const {
    return target_.gemm_kernels && operand == 0 &&
           size_of(graph_.type(product.inputs[0]).dtype) <= 2;
  }

  Reading reading(const Node& node, std::size_t operand) const {
    const std::string& op = node.op->name;
    switch (node.op->kind) {
      case OpKind::kPointwise:
        return is_residual(node, operand) ? Reading::kStored : Reading::kPointwise;
      case OpKind::kReduce: return Reading::kLoop;
      case OpKind::kView: return is_single_view(node) ? through_view(node) : Reading::kLoop;
      case OpKind::kIndexed: return operand > 0 && op == "Take" ? Reading::kLoop : Reading::kStored;
      case OpKind::kLibrary:
        if (op == "MatMul" && operand < viewed_operands(node))
          return ir::has_scaled_weights(node) || reads_rows(node, operand) ? Reading::kRows
                                                                           : Reading::kMatrix;
        return op == "Attention" ? Reading::kRows : Reading::kStored;
      default: return Reading::kStored;
    }
  }

  /// How all readers of a value, taken as a view, read it.
  Reading behind(ValueId value) const {
    if (graph_.is_output(value)) return Reading::kStored;
    std::optional<Reading> all;
    for (const NodeId user : graph_.users(value)) {
      const Node& node = graph_.node(user);
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        if (node.inputs[i] != value) continue;
        Reading one = reading(node, i);
        // Before a view, columns are different: only rows are known.
        if (one == Reading::kMatrix) one = Reading::kRows;
        if (all && one == Reading::kPointwise) one = Reading::kLoop;
        if (all == Reading::kPointwise) all = Reading::kLoop;
        all = all ? std::max(*all, one) : one;
      }
    }
    return all.value_or(Reading::kLoop);
  }

  /// True for results of loops, where a reshape would prevent fusing: it should follow a view.
  bool in_loop(ValueId value) const {
    const Node* producer = graph_.producer(value);
    return producer != nullptr && producer->op->kind != OpKind::kView &&
           !making_[value.position()].stored;
  }

  // ---- Keys: equal if a layout difference does not matter.

  using Key = Perm;

  Key inner_key(ValueId value, const Perm& perm) const {
    const Perm order = stored_order(graph_.type(value).shape, perm);
    return order.empty() ? Key{} : Key{order.back()};
  }

  /// Whether a matrix is row-major, or column-major (`columns`); `dims`: the matmul's dimension of
  /// each.
  Key matrix_key(ValueId value, const Perm& perm, const Perm& dims, bool columns) const {
    const Perm inner = inner_key(value, perm);
    if (inner.empty()) return {0};
    const auto rank = static_cast<std::int64_t>(dims.size());
    return {dims[static_cast<std::size_t>(inner[0])] >= rank - (columns ? 2 : 1) ? 0 : 1};
  }

  enum class Compared { kLayout, kOrder, kInner, kMatrix, kMadeMatrix };

  Key key(ValueId value, const Perm& perm, Compared compared) const {
    switch (compared) {
      case Compared::kLayout: return perm;
      case Compared::kOrder: return stored_order(graph_.type(value).shape, perm);
      case Compared::kInner: return inner_key(value, perm);
      case Compared::kMatrix: return matrix_key(value, perm, identity_perm(perm.size()), true);
      default:
        return matrix_key(value, perm, *making_[value.position()].matrix,
                          target_.matmul_stores_columns);
    }
  }

  // ---- Terms.

  /// Layouts by choice of a node, or the fixed one of the graph's inputs and outputs.
  struct End {
    int node = -1;
    std::vector<const Perm*> layouts;
  };

  void add_term(ValueId value, const End& made, const std::vector<End>& readers, Compared compared,
                double weight) {
    if (readers.empty() || weight <= 0) return;
    std::vector<Key> keys;
    const auto side = [&](const End& end) {
      LayoutProblem::Side result;
      result.node = end.node;
      for (const Perm* layout : end.layouts) {
        const Key one = key(value, *layout, compared);
        const auto known = std::ranges::find(keys, one);
        result.keys.push_back(static_cast<int>(known - keys.begin()));
        if (known == keys.end()) keys.push_back(one);
      }
      return result;
    };
    LayoutProblem::Term term{side(made), {}, std::llround(weight * kWeightOfByte)};
    for (const End& reader : readers) term.readers.push_back(side(reader));
    if (keys.size() > 1) problem_.terms.push_back(std::move(term));
  }

  void add_terms(ValueId value) {
    const Perm plain = identity_perm(graph_.type(value).shape.size());
    if (plain.size() < 2) return;
    const Making& making = making_[value.position()];
    const bool one_user = has_one_user(value);
    const double bytes = typical_bytes(graph_, value), strided = kStrided * bytes;
    const double copied = 2 * making.bytes + target_.launch_bytes;

    End made{-1, {&plain}};
    if (const NodeId producer = graph_.value(value).producer; producer.valid()) {
      made = {producer.index, {}};
      for (const Form& form : candidates_.forms[producer.position()])
        made.layouts.push_back(
            &form.results[static_cast<std::size_t>(graph_.value(value).output_index)]);
    }
    std::vector<End> by_reading[static_cast<std::size_t>(Reading::kStored) + 1];
    const auto of = [&](Reading reading) -> std::vector<End>& {
      return by_reading[static_cast<std::size_t>(reading)];
    };
    if (graph_.is_output(value)) of(Reading::kStored).push_back({-1, {&plain}});
    for (const NodeId user : graph_.users(value)) {
      const Node& node = graph_.node(user);
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        if (node.inputs[i] != value) continue;
        End end{user.index, {}};
        for (const Form& form : candidates_.forms[user.position()])
          end.layouts.push_back(&form.operands[i]);
        of(reading(node, i)).push_back(std::move(end));
      }
    }

    std::vector<End> all;
    for (const auto& readers : by_reading) all.insert(all.end(), readers.begin(), readers.end());
    add_term(value, made, all, Compared::kLayout, in_loop(value) ? 2 * kReshaped : kReshaped);
    for (const Reading reading : {Reading::kLoop, Reading::kPointwise})
      for (const End& reader : of(reading)) {
        add_term(value, made, {reader}, Compared::kInner, strided);
        if (reading == Reading::kPointwise && making.fresh && one_user)
          add_term(value, made, {reader}, Compared::kOrder, copied);
      }
    const double other = making.stored ? copied : strided;
    add_term(value, made, of(Reading::kMatrix), Compared::kMatrix, other);
    add_term(value, made, of(Reading::kRows), Compared::kInner, other);
    const std::vector<End>& as_wanted = of(Reading::kStored);
    if (!making.stored || making.part) {
      add_term(value, made, as_wanted, Compared::kInner, strided);
      if (!one_user) add_term(value, made, as_wanted, Compared::kOrder, bytes);
    } else if (one_user && making.matrix) {
      add_term(value, made, as_wanted, Compared::kMadeMatrix, copied);
    } else {
      add_term(value, made, as_wanted,
               one_user && making.rows ? Compared::kInner : Compared::kOrder, copied);
    }
  }

  const Graph& graph_;
  const TargetTraits& target_;
  const Candidates& candidates_;
  const std::vector<bool>& is_static_;
  std::vector<Making> making_;   // by value
  std::vector<Reading> behind_;  // by value
  LayoutProblem problem_;
};

}  // namespace

LayoutProblem layout_problem(const Graph& graph, const TargetTraits& target,
                             const Candidates& candidates, const std::vector<bool>& is_static) {
  return Costs(graph, target, candidates, is_static).run();
}

}  // namespace sinter::fusion
