// SPDX-License-Identifier: Apache-2.0
// Folds scales and shifts of columns before decision trees (Scaler, StandardScaler) into
// thresholds, so that every row takes the same path with unscaled columns.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <sstream>

#include "fusion/passes/passes.h"
#include "fusion/regions/broadcast.h"
#include "fusion/regions/rebuild.h"
#include "fusion/transforms.h"

namespace sinter::fusion {
namespace {

/// Adding, and scaling by a positive number, with rounding, are monotonic and give NaN only for
/// NaN. Thus there is a largest element whose result is at most a threshold.
bool keeps_order(const std::string& op, double number) {
  return std::isfinite(number) && (op == "Add" || op == "Sub" || number > 0);
}

template <typename T>
T step(const std::string& op, T value, T number) {
  if (op == "Add") return value + number;
  if (op == "Sub") return value - number;
  return op == "Mul" ? value * number : value / number;
}

/// Maps floats to integers of the same order.
template <typename T>
struct Order {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  static constexpr Bits kSign = Bits{1} << (8 * sizeof(T) - 1);
  static Bits rank(T value) {
    const auto bits = std::bit_cast<Bits>(value);
    return (bits & kSign) != 0 ? ~bits : bits | kSign;
  }
  static T at(Bits rank) {
    return std::bit_cast<T>((rank & kSign) != 0 ? static_cast<Bits>(rank ^ kSign)
                                                : static_cast<Bits>(~rank));
  }
};

/// The largest element for which the monotonic predicate `leads(element)` holds; NaN, which fails
/// every comparison, if it holds for none.
template <typename T, typename Leads>
T largest(const Leads& leads) {
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  if (!leads(-kInfinity)) return std::numeric_limits<T>::quiet_NaN();
  auto low = Order<T>::rank(-kInfinity), high = Order<T>::rank(kInfinity);
  while (low < high) {
    const auto middle = high - (high - low) / 2;
    if (leads(Order<T>::at(middle)))
      low = middle;
    else
      high = middle - 1;
  }
  return Order<T>::at(low);
}

template <typename T>
Tensor thresholds_before(const std::vector<std::string>& operators,
                         std::span<const Tensor> inputs) {
  const Tensor &nodes = inputs[0], &thresholds = inputs[1];
  std::vector<std::vector<double>> numbers;
  for (const Tensor& each : inputs.subspan(2)) numbers.push_back(each.to_doubles());
  const std::vector<std::int64_t> columns = nodes.to_ints();
  std::vector<double> result = thresholds.to_doubles();
  for (std::size_t i = 0; i < result.size(); ++i) {
    const std::int64_t column = columns[3 * i];
    if (column < 0) continue;  // a leaf
    const T threshold = static_cast<T>(result[i]);
    result[i] = largest<T>([&](T value) {
      for (std::size_t op = 0; op < operators.size(); ++op) {
        const auto& own = numbers[op];
        value =
            step<T>(operators[op], value,
                    static_cast<T>(own[own.size() == 1 ? 0 : static_cast<std::size_t>(column)]));
      }
      return value <= threshold;
    });
  }
  return Tensor::from_doubles(thresholds.dtype(), thresholds.shape(), result);
}

std::vector<std::string> split(const std::string& operators) {
  std::istringstream names(operators);
  std::vector<std::string> result;
  for (std::string op; names >> op;) result.push_back(op);
  return result;
}

}  // namespace

/// Inputs are the nodes and thresholds of a TreeEnsemble and the numbers of the "operators" before
/// it, in order of application. Results: whether the operators are monotonic, then the thresholds
/// for their input.
const ir::Transform kFoldedThresholds = {
    "folded_thresholds",
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      const std::int64_t columns = attrs.get_int("columns");
      const std::vector<std::string> operators = split(attrs.get_string("operators"));
      if (inputs.size() != operators.size() + 2 || inputs[0].dtype() != DType::kInt32 ||
          inputs[0].element_count() != 3 * inputs[1].element_count() ||
          (inputs[1].dtype() != DType::kFloat32 && inputs[1].dtype() != DType::kFloat64))
        return false;
      const std::vector<std::int64_t> nodes = inputs[0].to_ints();
      for (std::size_t i = 0; i < nodes.size(); i += 3)
        if (nodes[i] >= columns) return false;
      return std::ranges::all_of(operators,
                                 [](const std::string& op) {
                                   return op == "Add" || op == "Sub" || op == "Mul" || op == "Div";
                                 }) &&
             std::ranges::all_of(inputs.subspan(2), [&](const Tensor& each) {
               return each.dtype() == inputs[1].dtype() &&
                      (each.element_count() == 1 || each.element_count() == columns);
             });
    },
    [](const Attrs& attrs, std::span<const Tensor> inputs) {
      const std::vector<std::string> operators = split(attrs.get_string("operators"));
      bool keeps = true;
      for (std::size_t op = 0; op < operators.size(); ++op)
        keeps = keeps && std::ranges::all_of(inputs[op + 2].to_doubles(), [&](double number) {
                  return keeps_order(operators[op], number);
                });
      std::vector<Tensor> results{Tensor::scalar(DType::kBool, keeps ? 1 : 0)};
      if (keeps)
        results.push_back(inputs[1].dtype() == DType::kFloat32
                              ? thresholds_before<float>(operators, inputs)
                              : thresholds_before<double>(operators, inputs));
      return results;
    },
    1};

namespace {

class ThresholdFolder {
 public:
  ThresholdFolder(const Graph& graph, Context& context) : graph_(graph), context_(context) {}

  Graph run() {
    std::vector<Piece> pieces;
    for (const Node& node : graph_.nodes())
      if (node.op->name == "TreeEnsemble")
        if (auto piece = folded(node)) pieces.push_back(std::move(*piece));
    return rebuild(graph_, pieces);
  }

 private:
  struct Step {
    const Node* node;
    ValueId from;
    Tensor numbers;
  };

  /// `value` as a constant scale or shift of another value's columns.
  std::optional<Step> step_to(ValueId value) const {
    const Node* node = graph_.producer(value);
    if (node == nullptr) return std::nullopt;
    const std::string& op = node->op->name;
    if (op != "Add" && op != "Sub" && op != "Mul" && op != "Div") return std::nullopt;
    const bool is_first = broadcast_constant(graph_, node->inputs[0]) == nullptr;
    if (!is_first && (op == "Sub" || op == "Div")) return std::nullopt;
    const ValueId from = node->inputs[is_first ? 0 : 1];
    const Tensor* constant = broadcast_constant(graph_, node->inputs[is_first ? 1 : 0]);
    if (constant == nullptr || graph_.type(from) != graph_.type(value)) return std::nullopt;
    // One number, or one for each column.
    const auto& shape = constant->shape();
    if (constant->element_count() != 1 && constant->element_count() != shape.back())
      return std::nullopt;
    return Step{node, from, *constant};
  }

  std::optional<Piece> folded(const Node& trees) {
    const auto &nodes = graph_.value(trees.inputs[1]).constant,
               &thresholds = graph_.value(trees.inputs[2]).constant;
    if (nodes == nullptr || thresholds == nullptr) return std::nullopt;
    std::vector<Step> steps;  // starting at the trees
    while (auto step = step_to(steps.empty() ? trees.inputs[0] : steps.back().from))
      steps.push_back(std::move(*step));
    if (steps.empty()) return std::nullopt;
    std::ranges::reverse(steps);
    std::string operators;
    std::vector<Tensor> inputs{*nodes, *thresholds};
    std::vector<std::string> origins;
    for (const Step& step : steps) {
      operators += (operators.empty() ? "" : " ") + step.node->op->name;
      inputs.push_back(step.numbers);
      origins.insert(origins.end(), step.node->origins.begin(), step.node->origins.end());
    }
    origins.insert(origins.end(), trees.origins.begin(), trees.origins.end());
    const std::int64_t columns = graph_.type(trees.inputs[0]).shape[1].value();
    const std::vector<Tensor> made =
        ir::apply(kFoldedThresholds, {{"columns", columns}, {"operators", operators}}, inputs);
    const bool keeps = made[0].at(0) != 0;
    for (const Step& step : steps)
      decide(context_, *step.node, trees, keeps,
             keeps ? "the trees' thresholds are for the columns as they come"
                   : "a scale is not positive, or a number is not finite: thresholds stay");
    if (!keeps) return std::nullopt;
    Piece piece;
    piece.reads = {trees.inputs.begin(), trees.inputs.end()};
    piece.reads[0] = steps.front().from;
    piece.writes = {trees.outputs[0]};
    piece.emit = [this, &trees, thresholds = made[1], origins](GraphBuilder& builder,
                                                               std::span<const ValueId> reads) {
      GraphBuilder::OriginScope scope(builder, origins);
      std::vector<ValueId> inputs(reads.begin(), reads.end());
      inputs[2] = builder.constant(thresholds, graph_.value(trees.inputs[2]).name);
      return std::vector{builder.add(trees.op->name, inputs, trees.attrs)};
    };
    return piece;
  }

  const Graph& graph_;
  Context& context_;
};

}  // namespace

Graph fold_thresholds(const Graph& graph, Context& context) {
  return ThresholdFolder(graph, context).run();
}

}  // namespace sinter::fusion
