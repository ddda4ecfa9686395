// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "fusion/projections/projection.h"
#include "fusion/transforms.h"
#include "ir/reference/evaluate.h"

namespace sinter::fusion {
namespace {

using Parts = std::vector<Projection>;

bool is_grouped(const Parts& parts) { return parts[0].matmul->op->name == "GroupedMatMul"; }

/// Plain matrices of groups joined by columns, each with its counterparts; computed when read.
Tensor join_groups(const Parts& parts) {
  // Columns are rows, or rows of one number each.
  std::vector<Tensor> sources;
  Ints rows;
  for (const Projection& part : parts) {
    const Ints& shape = part.weight->shape();
    sources.push_back(part.transposed ? *part.weight
                                      : part.weight->reshaped({shape[0] * shape[1], shape[2], 1}));
    rows.push_back(part.n);
  }
  const Tensor joined =
      ir::derive(kJoinedRows, {{"present", Ints(parts.size(), 1)}, {"rows", rows}}, sources);
  if (parts[0].transposed) return joined;
  const std::int64_t groups = parts[0].weight->shape()[0];
  return joined.reshaped({groups, parts[0].k, joined.shape()[1]});
}

/// The weights joined by columns, as one [k, columns], computed when it is read.
Tensor join_columns(const Parts& parts) {
  if (is_grouped(parts)) return join_groups(parts);
  std::vector<Tensor> weights;
  Ints transposed;
  for (const Projection& part : parts) {
    weights.push_back(*part.weight);
    transposed.push_back(part.transposed ? 1 : 0);
  }
  return ir::derive(kJoinedColumns, {{"transposed", transposed}}, weights);
}

/// Operand `operand` of each part, joined by rows; zeros for parts without it (zero points).
/// Computed when it is read.
Tensor join_rows(const Parts& parts, std::size_t operand) {
  std::vector<Tensor> sources;
  Ints rows, present;
  for (const Projection& part : parts) {
    const bool is_present = operand < part.quantized.size();
    if (is_present) sources.push_back(*part.quantized[operand]);
    rows.push_back(part.n);
    present.push_back(is_present ? 1 : 0);
  }
  return ir::derive(kJoinedRows, {{"present", present}, {"rows", rows}}, sources);
}

/// The joined matmul of `reads`: x and, of groups, their offsets.
ValueId join_products(GraphBuilder& builder, std::span<const ValueId> reads, const Parts& parts) {
  const std::string& op = parts[0].matmul->op->name;
  std::vector<ValueId> inputs{reads[0]};
  const auto product = [&](const Attrs& attrs) {
    if (is_grouped(parts)) inputs.push_back(reads[1]);
    return builder.add(op, std::move(inputs), attrs);
  };
  if (parts[0].weight != nullptr) {
    inputs.push_back(builder.constant(join_columns(parts)));
    return product(parts[0].matmul->attrs);
  }
  const auto& most = *std::ranges::max_element(
      parts, {}, [](const Projection& part) { return part.quantized.size(); });
  for (std::size_t i = 0; i < most.quantized.size(); ++i)
    inputs.push_back(builder.constant(join_rows(parts, i)));
  return product(most.matmul->attrs);
}

/// Concatenated vectors of the parts' columns, `of(part)` each, zeros where it is null; nothing if
/// it always is.
template <typename Of>
std::optional<Tensor> join_vectors(const Parts& parts, const Of& of) {
  std::vector<Tensor> vectors;
  Ints widths, present;
  for (const Projection& part : parts) {
    const Tensor* vector = of(part);
    if (vector != nullptr) vectors.push_back(*vector);
    widths.push_back(part.n);
    present.push_back(vector != nullptr ? 1 : 0);
  }
  if (vectors.empty()) return std::nullopt;
  return ir::apply(kJoinedBiases, {{"present", present}, {"widths", widths}}, vectors).front();
}

template <typename Of>
ValueId add_biases(GraphBuilder& builder, ValueId value, const Parts& parts, const Of& of) {
  const auto bias = join_vectors(parts, of);
  return bias ? builder.add("Add", {value, builder.constant(*bias)}) : value;
}

/// One element, or one for each column, as a vector over the columns.
Tensor of_columns(const Tensor& constant, std::int64_t n) {
  const Shape columns{Dim(n)};
  const char* const op = constant.element_count() == n ? "Reshape" : "Expand";
  Tensor flat = constant;
  if (constant.element_count() == 1 && constant.shape().size() > 1)
    flat = ir::evaluate_op(ir::get_op("Reshape"), {{"shape", Shape{Dim(1)}}}, std::span(&flat, 1))
               .front();
  return ir::evaluate_op(ir::get_op(op), {{"shape", columns}}, std::span(&flat, 1)).front();
}

/// An operand of a step after the matmul: the same for all parts, or one constant over all
/// columns.
struct JoinedOperand {
  std::optional<std::size_t> read;  // index in the piece's reads
  std::optional<Tensor> columns;
};

class Joining {
 public:
  Joining(const Graph& graph, Parts parts) : graph_(graph), parts_(std::move(parts)) {}

  Piece piece() {
    Piece piece;
    piece.reads = {parts_[0].matmul->inputs[0]};
    if (is_grouped(parts_)) piece.reads.push_back(parts_[0].matmul->inputs.back());
    for (const Projection& part : parts_) {
      piece.writes.push_back(part.result());
      take_origins(*part.matmul);
      for (const Node* node : part.nodes) take_origins(*node);
    }
    for (std::size_t step = 1; step < parts_[0].steps.size(); ++step)
      operands_.push_back(operands(step, piece.reads));
    const Shape shape = graph_.type(parts_[0].matmul->outputs[0]).shape;
    piece.emit = [joining = std::move(*this), shape](GraphBuilder& builder,
                                                     std::span<const ValueId> reads) {
      return joining.emit(builder, reads, shape);
    };
    return piece;
  }

 private:
  void take_origins(const Node& node) {
    origins_.insert(origins_.end(), node.origins.begin(), node.origins.end());
  }

  std::vector<JoinedOperand> operands(std::size_t step, std::vector<ValueId>& reads) const {
    std::vector<JoinedOperand> result;
    const SumsStep& first = parts_[0].steps[step];
    for (std::size_t in = 0; in < first.node->inputs.size(); ++in) {
      JoinedOperand& operand = result.emplace_back();
      if (in == first.operand) continue;
      const auto of = [&](const Projection& part) { return part.steps[step].node->inputs[in]; };
      const ValueId shared = of(parts_[0]);
      if (std::ranges::all_of(parts_, [&](const Projection& part) {
            return is_shared(graph_, shared, of(part));
          })) {
        operand.read = reads.size();
        reads.push_back(shared);
        continue;
      }
      std::vector<Tensor> vectors;
      for (const Projection& part : parts_)
        vectors.push_back(of_columns(*graph_.value(of(part)).constant, part.n));
      std::size_t next = 0;
      operand.columns = join_vectors(parts_, [&](const Projection&) { return &vectors[next++]; });
    }
    return result;
  }

  std::vector<ValueId> emit(GraphBuilder& builder, std::span<const ValueId> reads,
                            const Shape& shape) const {
    GraphBuilder::OriginScope scope(builder, origins_);
    ValueId value = join_products(builder, reads, parts_);
    for (std::size_t step = 0; step < parts_[0].steps.size(); ++step) {
      if (step > 0) value = add_step(builder, value, step, reads);
      value = add_biases(builder, value, parts_,
                         [&](const Projection& part) { return part.steps[step].bias; });
    }
    value = add_biases(builder, value, parts_, [](const Projection& part) { return part.bias; });
    std::vector<ValueId> results;
    std::int64_t start = 0;
    for (const Projection& part : parts_) {
      std::vector<Dim> starts(shape.size(), Dim(0)), extents = shape;
      starts.back() = Dim(start);
      extents.back() = Dim(part.n);
      start += part.n;
      results.push_back(builder.add("Slice", {value},
                                    {{"starts", std::move(starts)},
                                     {"steps", Ints(shape.size(), 1)},
                                     {"shape", std::move(extents)}}));
    }
    return results;
  }

  ValueId add_step(GraphBuilder& builder, ValueId value, std::size_t step,
                   std::span<const ValueId> reads) const {
    const SumsStep& first = parts_[0].steps[step];
    std::vector<ValueId> inputs;
    for (std::size_t in = 0; in < first.node->inputs.size(); ++in) {
      const JoinedOperand& operand = operands_[step - 1][in];
      inputs.push_back(in == first.operand ? value
                       : operand.read      ? reads[*operand.read]
                                           : builder.constant(*operand.columns));
    }
    return builder.add(first.node->op->name, std::move(inputs), first.node->attrs);
  }

  const Graph& graph_;
  Parts parts_;
  std::vector<std::string> origins_;
  std::vector<std::vector<JoinedOperand>> operands_;  // for each step after the first
};

}  // namespace

Piece joined_projections(const Graph& graph, std::vector<Projection> parts) {
  return Joining(graph, std::move(parts)).piece();
}

}  // namespace sinter::fusion
