// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/attention/scores/attention_scores.h"

#include <algorithm>

#include <fmt/format.h>

#include "codegen/program/region_lowering.h"
#include "ir/attention_inputs.h"

namespace sinter::codegen {
namespace {

using plan::fb::ExprOp, plan::fb::IndexNode, plan::fb::InstrKind;

/// Rewrites a program over other loops; see with_loops().
class LoopChange {
 public:
  LoopChange(const LoopProgramT& old, std::span<const AttentionOperand> indices,
             std::span<const Dim> extents, ExprTable& exprs)
      : old_(old), extents_(extents), exprs_(exprs) {
    for (const AttentionOperand& index : indices) {
      std::vector<Dim> form = index.batch;
      form.insert(form.end(), {index.row, index.column});
      forms_.push_back({index.offset, std::move(form)});
    }
  }

  LoopProgramT run() {
    new_.buffers = old_.buffers;
    for (const Dim& extent : extents_) new_.extents.push_back(exprs_.intern(extent));
    for (const IndexNode& node : old_.index_nodes) nodes_.push_back(changed(node));
    for (const auto& access : old_.accesses) new_.accesses.push_back(changed(*access));
    for (const auto& instr : old_.instrs) instrs_.push_back(changed(*instr));
    for (auto& access : new_.accesses)
      for (plan::fb::Gather& gather : access->gathers)
        gather = {instrs_[gather.value()], gather.extent(), gather.stride()};
    return std::move(new_);
  }

 private:
  struct Form {
    Dim offset;
    std::vector<Dim> steps;  // by new loop
  };

  /// The new loop whose index the form is, if it is one.
  static std::optional<std::uint32_t> as_loop(const Form& form) {
    std::optional<std::uint32_t> loop;
    if (form.offset != Dim(0)) return std::nullopt;
    for (std::uint32_t d = 0; d < form.steps.size(); ++d) {
      if (form.steps[d] == Dim(0)) continue;
      if (loop || form.steps[d] != Dim(1)) return std::nullopt;
      loop = d;
    }
    return loop;
  }

  std::uint32_t push(IndexNode node) {
    new_.index_nodes.push_back(node);
    return static_cast<std::uint32_t>(new_.index_nodes.size() - 1);
  }
  std::uint32_t changed(const IndexNode& node) {
    if (node.op() == ExprOp::Constant) return push(node);
    if (node.op() != ExprOp::Symbol) return push({node.op(), nodes_[node.a()], nodes_[node.b()]});
    const Form& form = forms_[node.a()];
    if (const auto loop = as_loop(form)) return push({ExprOp::Symbol, *loop, 0});
    std::uint32_t sum = push({ExprOp::Constant, exprs_.intern(form.offset), 0});
    for (std::uint32_t d = 0; d < form.steps.size(); ++d) {
      if (form.steps[d] == Dim(0)) continue;
      const std::uint32_t index = push({ExprOp::Symbol, d, 0});
      const std::uint32_t step = push({ExprOp::Constant, exprs_.intern(form.steps[d]), 0});
      sum = push({ExprOp::Add, sum, push({ExprOp::Mul, index, step})});
    }
    return sum;
  }

  std::unique_ptr<AccessT> changed(const AccessT& access) {
    auto result = std::make_unique<AccessT>(access);
    std::vector<Dim> strides(extents_.size(), Dim(0));
    Dim offset = exprs_.dim(access.offset);
    // Scores have no memory.
    const bool is_score = plan::is_of_scores(old_.buffers[access.buffer]);
    for (std::size_t l = 0; l < forms_.size() && !is_score; ++l) {
      const Dim stride = exprs_.dim(access.strides[l]);
      offset += stride * forms_[l].offset;
      for (std::size_t d = 0; d < strides.size(); ++d) strides[d] += stride * forms_[l].steps[d];
    }
    result->offset = exprs_.intern(is_score ? Dim(0) : offset);
    result->strides.clear();
    for (const Dim& stride : strides) result->strides.push_back(exprs_.intern(stride));
    if (is_score) result->nonaffine.clear();
    for (std::uint32_t& node : result->nonaffine) node = nodes_[node];
    for (plan::fb::Guard& guard : result->guards) guard = {nodes_[guard.index()], guard.extent()};
    return result;
  }

  std::uint32_t push(InstrT instr) {
    new_.instrs.push_back(std::make_unique<InstrT>(std::move(instr)));
    return static_cast<std::uint32_t>(new_.instrs.size() - 1);
  }
  std::uint32_t push_op(ScalarOp op, DType type, std::uint32_t a, std::uint32_t b) {
    InstrT instr;
    instr.kind = InstrKind::Op;
    instr.op = static_cast<std::uint8_t>(op);
    instr.dtype = static_cast<std::uint8_t>(type);
    instr.args = {a, b};
    return push(std::move(instr));
  }
  std::uint32_t push_size(DType type, const Dim& size) {
    InstrT instr;
    instr.kind = size.is_constant() ? InstrKind::Constant : InstrKind::Size;
    instr.dtype = static_cast<std::uint8_t>(type);
    if (size.is_constant())
      instr.constant_int = size.value();
    else
      instr.expression = exprs_.intern(size);
    return push(std::move(instr));
  }

  std::uint32_t changed(const InstrT& instr) {
    InstrT result = instr;
    for (std::uint32_t& arg : result.args) arg = instrs_[arg];
    if (instr.kind != InstrKind::Index) return push(std::move(result));
    const Form& form = forms_[instr.dim];
    if (const auto loop = as_loop(form)) {
      result.dim = *loop;
      return push(std::move(result));
    }
    const auto type = static_cast<DType>(instr.dtype);
    std::uint32_t sum = push_size(type, form.offset);
    for (std::uint32_t d = 0; d < form.steps.size(); ++d) {
      if (form.steps[d] == Dim(0)) continue;
      result.dim = d;
      const std::uint32_t index = push(result);
      const std::uint32_t step = push_size(type, form.steps[d]);
      sum = push_op(ScalarOp::kAdd, type, sum, push_op(ScalarOp::kMul, type, index, step));
    }
    return sum;
  }

  const LoopProgramT& old_;
  std::span<const Dim> extents_;
  ExprTable& exprs_;
  std::vector<Form> forms_;
  LoopProgramT new_;
  std::vector<std::uint32_t> nodes_, instrs_;  // new numbers
};

}  // namespace

LoopProgramT lower_scores(const Graph& body, const Node& attention, Buffers inputs,
                          ExprTable& exprs, const LoopSpace& space,
                          std::optional<SplitRequest>& wanted) {
  // The views that lead to the operands become addresses, as in any region.
  GraphBuilder builder("scores");
  for (const auto& [symbol, range] : body.ranges()) builder.range(symbol, range);
  std::vector<ValueId> outer;
  for (const ValueId input : body.inputs())
    outer.push_back(builder.input(body.value(input).name, body.type(input)));
  const std::size_t count = ir::operands_of_scores(attention.attrs);
  std::vector<ValueId> values =
      ir::inline_graph(builder, body, outer, std::span(attention.inputs).last(count));
  const Graph& scores = *attention.body;
  values.insert(values.begin(), builder.input("scores", scores.type(scores.inputs()[0])));
  const std::vector<ValueId> made = ir::inline_graph(builder, scores, values);
  builder.output("", made[0]);
  std::vector<std::uint32_t> results{kScoreValue};
  if (made.size() > 1) {
    results.push_back(kSinkValue);
    builder.output("", builder.add("Expand", {made[1]}, {{"shape", builder.type(made[0]).shape}}));
  }
  std::vector<std::uint32_t> buffers(inputs.begin(), inputs.end());
  buffers.push_back(kScoreValue);
  return lower_over_loops(builder.finish(), buffers, results, exprs, space, wanted);
}

bool reads_loop(const LoopProgramT& scores, const ExprTable& exprs, std::size_t loop) {
  return std::ranges::any_of(scores.accesses,
                             [&](const auto& access) {
                               return !plan::is_of_scores(scores.buffers[access->buffer]) &&
                                      exprs.dim(access->strides[loop]) != Dim(0);
                             }) ||
         std::ranges::any_of(scores.instrs,
                             [&](const auto& instr) {
                               return instr->kind == InstrKind::Index && instr->dim == loop;
                             }) ||
         std::ranges::any_of(scores.index_nodes, [&](const IndexNode& node) {
           return node.op() == ExprOp::Symbol && node.a() == loop;
         });
}

LoopProgramT with_loops(const LoopProgramT& scores, std::span<const AttentionOperand> indices,
                        std::span<const Dim> extents, ExprTable& exprs) {
  return LoopChange(scores, indices, extents, exprs).run();
}

}  // namespace sinter::codegen
