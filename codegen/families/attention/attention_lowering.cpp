// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/attention/attention_lowering.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sinter/error.h>

#include "codegen/families/attention/scores/attention_scores.h"
#include "codegen/program/describe.h"
#include "codegen/program/index_space.h"
#include "codegen/program/loop_lowering.h"
#include "ir/affine.h"
#include "ir/attention_inputs.h"

namespace sinter::codegen {
namespace {

// Symbols of indices that the space lacks: keys, columns of q and k, sequences, blocks.
constexpr const char* kKeySymbol = "$key";
constexpr const char* kHeadSymbol = "$head";
constexpr const char* kSequenceSymbol = "$sequence";
constexpr const char* kBlockSymbol = "$block";
constexpr const char* kColumnSymbol = "$column";

/// Indices of an operand's rows and columns.
struct Walks {
  Dim row, column;
};

class AttentionLowering {
 public:
  AttentionLowering(const Graph& body, Buffers inputs, std::uint32_t output, ExprTable& exprs)
      : body_(body), inputs_(inputs), output_(output), exprs_(exprs), node_(find_node()) {}

  AttentionProgram lower() {
    const Shape& shape = body_.type(node_.outputs[0]).shape;
    LoopSpace space(shape, std::vector<bool>(shape.size(), false), exprs_.ranges());
    // Heads that were merged with the batch, or that share keys, become linear when that loop is
    // split.
    constexpr int kMostSplits = 16;
    for (int attempt = 0;; ++attempt) {
      wanted_split_.reset();
      AttentionProgram program = lower_over(space, attempt < kMostSplits);
      if (!wanted_split_) return program;
      space.split(*wanted_split_);
      splits_.push_back(*wanted_split_);
    }
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(ErrorCode::kUnsupported, fmt::format("{}: {}", describe(node_), why));
  }

  const Node& find_node() const {
    const Node* found = nullptr;
    for (const Node& node : body_.nodes()) {
      if (node.op->name == "Attention" && !found)
        found = &node;
      else if (node.op->kind != OpKind::kView && node.op->kind != OpKind::kPointwise)
        throw Error(ErrorCode::kUnsupported,
                    describe(node) +
                        ": an attention region holds one Attention, views and what rounds the "
                        "result");
    }
    if (!found) throw Error(ErrorCode::kInternal, "an attention region without an Attention");
    return *found;
  }

  AttentionProgram lower_over(const LoopSpace& space, bool may_split) {
    space_ = &space;
    may_split_ = may_split;
    const Shape& shape = space.shape();
    const Shape &q = shape_of(0), &k = shape_of(1);
    AttentionProgram program;
    program.dtype = body_.type(node_.inputs[0]).dtype;
    if (!q.back().is_constant() || !shape.back().is_constant())
      refuse("head dimensions must be known: " + ir::to_string(q) + ", " + ir::to_string(shape));
    program.head = q.back().value();
    program.value_head = shape.back().value();
    program.rows = q[q.size() - 2];
    program.keys = k[k.size() - 2];
    program.scale = node_.attrs.get_float("scale");
    program.fill = node_.attrs.get_float("fill");
    program.causal = static_cast<int>(node_.attrs.get_int("causal"));
    program.guard = static_cast<int>(node_.attrs.get_int("guard"));

    ranges_ = space.ranges();
    symbols_ = ir::index_symbol_names(space.loops().size());
    add_symbol(kKeySymbol, program.keys);
    add_symbol(kHeadSymbol, q.back());
    const Dim row = space.index()[shape.size() - 2], column = space.index().back();
    const Dim key = program.keys == Dim(1) ? Dim(0) : Dim::symbol(kKeySymbol);
    const Dim along = Dim::symbol(kHeadSymbol);

    // Operands that read one buffer share a parameter.
    program.q = trace(program, 0, {row, along}, "q");
    program.k = trace(program, 1, {key, along}, "k");
    program.eight_bit = ir::is_eight_bit_attention(program.dtype);
    if (program.eight_bit) {
      add_symbol(kColumnSymbol, shape_of(2).back());
      program.v = trace(program, 2, {column, Dim::symbol(kColumnSymbol)}, "v");
    } else {
      program.v = trace(program, 2, {key, column}, "v");
    }
    const ir::AttentionInputs which =
        ir::attention_inputs(node_.attrs, node_.inputs.size(), body_.type(node_.inputs[1]).dtype);
    if (which.mask) program.mask = trace(program, *which.mask, {row, key}, "the mask");
    if (which.limits) program.limits = trace(program, *which.limits, {row, key}, "the limits");
    if (which.tables)
      take_tables(program, *which.bounds, *which.tables);
    else if (which.bounds)
      take_bounds(program, *which.bounds);
    if (which.key_scales) {
      program.key_scales = trace(program, *which.key_scales, {key, Dim(0)}, "the keys' scales");
      program.value_scales =
          trace(program, *which.value_scales, {key, Dim(0)}, "the values' scales");
    }
    program.y = result(program);
    std::vector<AttentionOperand> score_loops;
    if (node_.body) score_loops = take_scores(program);
    if (wanted_split_) return program;
    take_batch(program, score_loops);
    if (program.scores) {
      std::vector<Dim> extents = program.batch;
      extents.insert(extents.end(), {program.rows, program.keys});
      program.scores = with_loops(*program.scores, score_loops, extents, exprs_);
    }
    return program;
  }

  /// The program of scores over loops that are not merged. Returns the index of each of them as an
  /// operand whose address it is.
  std::vector<AttentionOperand> take_scores(AttentionProgram& program) {
    const Shape& shape = node_.body->type(node_.body->inputs()[0]).shape;
    LoopSpace space(shape, std::vector<bool>(shape.size(), false), exprs_.ranges());
    for (const SplitRequest& request : splits_) space.split(request);
    std::optional<SplitRequest> wanted;
    program.scores = lower_scores(body_, node_, inputs_, exprs_, space, wanted);
    if (wanted && may_split_ && !wanted_split_ && is_batch(wanted->dim)) wanted_split_ = wanted;
    std::vector<AttentionOperand> indices;
    if (wanted_split_) return indices;
    for (const std::uint32_t buffer : program.scores->buffers) {
      const auto at = std::ranges::find(inputs_, buffer) - inputs_.begin();
      const bool is_score = plan::is_of_scores(buffer);
      program.score_types.push_back(
          is_score ? DType::kFloat32
                   : body_.type(body_.inputs()[static_cast<std::size_t>(at)]).dtype);
      if (!is_score) program.number_of(buffer);
    }
    std::size_t batches = 0;
    for (std::size_t loop = 0; loop < space_->loops().size(); ++loop) batches += is_batch(loop);
    const std::size_t count = program.scores->extents.size();
    for (std::size_t loop = 0; loop < count; ++loop) {
      AttentionOperand index;
      index.buffer = kScoreValue;
      index.batch.assign(batches, Dim(0));
      const bool exists = loop < space.loops().size();
      const std::size_t from_last = exists ? shape.size() - 1 - space.dimension_of(loop) : 2;
      if (exists && from_last == 0) index.column = Dim(1);
      if (exists && from_last == 1) index.row = Dim(1);
      if (exists && from_last > 1) index.batch[loop] = Dim(1);
      const bool is_read = reads_loop(*program.scores, exprs_, loop);
      // A loop that it does not depend on may be merged with others.
      if (!is_read) index.batch.assign(batches, Dim(0));
      indices.push_back(std::move(index));
    }
    return indices;
  }

  void take_bounds(AttentionProgram& program, std::size_t input) {
    program.longest = node_.attrs.get_dims("packed")[0];
    program.sequences = shape_of(input)[0] - Dim(1);
    add_symbol(kSequenceSymbol, shape_of(input)[0]);
    program.bounds =
        trace(program, input, {Dim(0), Dim::symbol(kSequenceSymbol)}, "the bounds of sequences");
  }

  void take_tables(AttentionProgram& program, std::size_t starts, std::size_t tables) {
    program.block = node_.attrs.get_int("paged");
    program.window = node_.attrs.get_int("window");
    program.longest = program.rows;
    program.sequences = shape_of(tables)[0];
    program.table_blocks = shape_of(tables)[1];
    add_symbol(kSequenceSymbol, shape_of(starts)[0]);
    add_symbol(kBlockSymbol, program.table_blocks);
    const Dim sequence = Dim::symbol(kSequenceSymbol);
    program.bounds = trace(program, starts, {Dim(0), sequence}, "the starts of sequences");
    program.tables =
        trace(program, tables, {sequence, Dim::symbol(kBlockSymbol)}, "the block tables");
  }

  const Shape& shape_of(std::size_t input) const { return body_.type(node_.inputs[input]).shape; }

  void add_symbol(const char* name, const Dim& extent) {
    ranges_.insert_or_assign(name, ir::index_range(extent, exprs_.ranges()));
    symbols_.emplace_back(name);
  }

  /// Traces input `i` of the node through views to an input of the region.
  AttentionOperand trace(AttentionProgram& program, std::size_t i, const Walks& walks,
                         const char* what) {
    const ValueId value = node_.inputs[i];
    const Shape& shape = body_.type(value).shape;
    std::vector<Dim> index;
    const std::size_t rank = space_->shape().size();
    for (std::size_t d = 0; d + 2 < shape.size(); ++d)
      index.push_back(space_->index()[rank - shape.size() + d]);
    if (shape.size() >= 2) index.push_back(walks.row);
    if (!shape.empty()) index.push_back(walks.column);
    for (std::size_t d = 0; d < shape.size(); ++d)
      if (shape[d] == Dim(1)) index[d] = Dim(0);
    const ir::TracedView traced = ir::trace_view(body_, value, index, ranges_);
    if (traced.sources.size() != 1 || !traced.sources[0].guards.empty())
      refuse(fmt::format("{} is padded or concatenated", what));
    const ir::TracedSource& source = traced.sources[0];
    const auto at = std::ranges::find(body_.inputs(), source.source);
    if (at == body_.inputs().end())
      refuse(fmt::format("{} is not a view of an input of the region", what));
    std::vector<Dim> position = source.index;
    const Shape& from = body_.type(source.source).shape;
    for (std::size_t d = 0; d < from.size(); ++d)
      if (from[d] == Dim(1)) position[d] = Dim(0);
    const std::uint32_t buffer = inputs_[static_cast<std::size_t>(at - body_.inputs().begin())];
    return operand(program.number_of(buffer), body_.type(source.source).dtype,
                   linearize(position, from), walks, what);
  }

  /// Traces the result through the views that store it.
  AttentionOperand result(AttentionProgram& program) {
    const Walks walks{space_->index()[space_->shape().size() - 2], space_->index().back()};
    std::vector<Dim> index = space_->index();
    ValueId current = node_.outputs[0];
    while (current != body_.outputs()[0]) {
      const auto& users = body_.users(current);
      if (users.size() != 1) refuse("the result has another reader within its region");
      const Node& view = body_.node(users[0]);
      const Shape& from = body_.type(current).shape;
      current = view.outputs[0];
      if (view.op->name == "Transpose") {
        std::vector<Dim> next;
        for (const std::int64_t d : view.attrs.get_ints("perm"))
          next.push_back(index[static_cast<std::size_t>(d)]);
        index = std::move(next);
      } else if (view.op->name == "Reshape") {
        index = delinearize(linearize(index, from), body_.type(current).shape, ranges_);
      } else if (!take_rounding(program, view)) {
        refuse("the result is stored through " + describe(view));
      }
    }
    const TensorType& type = body_.type(current);
    if (program.eight_bit && !program.rounding) program.dtype = type.dtype;
    return operand(program.number_of(output_), type.dtype, linearize(index, type.shape), walks,
                   "the result");
  }

  /// True if `node` is part of round(result / scale) + zero, or of the scaling and cast to 16 bits
  /// that precede it for 8-bit operands. The pass has verified the pattern.
  bool take_rounding(AttentionProgram& program, const Node& node) const {
    if (node.op->kind != OpKind::kPointwise) return false;
    if (program.eight_bit && !program.rounding) {
      if (node.op->name == "Mul") {
        program.value_scale *= body_.value(node.inputs[1]).constant->at(0);
        return true;
      }
      if (node.op->name == "Cast" && size_of(body_.type(node.outputs[0]).dtype) == 2) {
        program.dtype = body_.type(node.outputs[0]).dtype;
        return true;
      }
    }
    if (!program.rounding) program.rounding.emplace();
    if (node.op->name == "Cast" || node.op->name == "Round") return true;
    const auto* constant =
        node.inputs.size() == 2 ? body_.value(node.inputs[1]).constant.get() : nullptr;
    if (constant == nullptr || constant->element_count() != 1) return false;
    if (node.op->name == "Quotient")
      program.rounding->scale = constant->at(0);
    else if (node.op->name == "Add")
      program.rounding->zero = constant->at(0);
    else
      return false;
    return true;
  }

  AttentionOperand operand(std::uint32_t buffer, DType dtype, const Dim& address,
                           const Walks& walks, const char* what) {
    AddressParts parts = split(address, what);
    AttentionOperand result{buffer, dtype, std::move(parts.offset), Dim(0), Dim(0), {}};
    if (wanted_split_) return result;
    result.row = step(parts, walks.row, what);
    result.column = step(parts, walks.column, what);
    for (std::size_t loop = 0; loop < space_->loops().size(); ++loop)
      if (is_batch(loop)) result.batch.push_back(parts.strides[loop]);
    return result;
  }

  AddressParts split(const Dim& address, const char* what) {
    AddressParts parts = split_address(ir::simplify(address, ranges_), symbols_, ranges_);
    if (parts.rest == Dim(0) || wanted_split_) return parts;
    if (may_split_) wanted_split_ = space_->find_split(parts.rest);
    if (wanted_split_ && !is_batch(wanted_split_->dim)) wanted_split_.reset();
    if (!wanted_split_)
      refuse(fmt::format("{} is not a strided access of a dense tensor ({})", what,
                         address.to_string()));
    return parts;
  }

  /// The stride along an index, which is one symbol; 0 if there is only one element.
  Dim step(const AddressParts& parts, const Dim& walk, const char* what) const {
    if (walk == Dim(0)) return Dim(0);
    for (std::size_t s = 0; s < symbols_.size(); ++s)
      if (walk == Dim::symbol(symbols_[s])) return parts.strides[s];
    refuse(fmt::format("{} is walked in parts", what));
  }

  bool is_batch(std::size_t loop) const {
    return space_->dimension_of(loop) + 2 < space_->shape().size();
  }

  void take_batch(AttentionProgram& program, std::vector<AttentionOperand>& score_loops) const {
    for (std::size_t loop = 0; loop < space_->loops().size(); ++loop)
      if (is_batch(loop)) program.batch.push_back(space_->loops()[loop].extent);
    auto all = program.operands();
    for (AttentionOperand& index : score_loops) all.push_back(&index);
    const auto erase = [&](std::size_t axis) {
      const auto at = static_cast<std::ptrdiff_t>(axis);
      program.batch.erase(program.batch.begin() + at);
      for (AttentionOperand* operand : all) operand->batch.erase(operand->batch.begin() + at);
    };
    // Queries of one row that share their keys become the rows of one problem.
    if (program.rows == Dim(1) && program.causal != 1 && !program.bounds) {
      program.causal = 0;
      for (std::size_t axis = program.batch.size(); axis-- > 0;) {
        if (program.k.batch[axis] != Dim(0) || program.v.batch[axis] != Dim(0)) continue;
        program.rows = program.batch[axis];
        for (AttentionOperand* operand : {&program.q, &program.y})
          operand->row = operand->batch[axis];
        if (program.mask) program.mask->row = program.mask->batch[axis];
        if (program.limits) program.limits->row = program.limits->batch[axis];
        for (AttentionOperand& index : score_loops) index.row = index.batch[axis];
        erase(axis);
        break;
      }
    }
    for (std::size_t axis = 0; axis + 1 < program.batch.size();) {
      const Dim inner = program.batch[axis + 1];
      const bool joins = std::ranges::all_of(all, [&](const AttentionOperand* operand) {
        return operand->batch[axis] == operand->batch[axis + 1] * inner;
      });
      if (!joins) {
        ++axis;
        continue;
      }
      program.batch[axis + 1] = program.batch[axis] * inner;
      erase(axis);
      axis = 0;
    }
    // With one column, the column stride is irrelevant.
    for (const auto& [operand, columns] :
         {std::pair(&program.q, program.head), std::pair(&program.k, program.head),
          std::pair(&program.v, program.value_head), std::pair(&program.y, program.value_head)})
      if (columns == 1) operand->column = 1;
    for (const auto& [operand, what] :
         {std::pair(&program.q, "q"), std::pair(&program.k, "k"), std::pair(&program.v, "v"),
          std::pair(&program.y, "the result")})
      if (operand->column != Dim(1))
        refuse(fmt::format("the columns of {} have stride {}, not 1", what,
                           operand->column.to_string()));
  }

  const Graph& body_;
  Buffers inputs_;
  std::uint32_t output_;
  ExprTable& exprs_;
  const Node& node_;
  const LoopSpace* space_ = nullptr;
  Ranges ranges_;
  std::vector<std::string> symbols_;  // loop symbols, then keys and columns
  bool may_split_ = true;
  std::optional<SplitRequest> wanted_split_;
  std::vector<SplitRequest> splits_;  // of the space so far
};

}  // namespace

AttentionProgram lower_attention(const Graph& body, Buffers inputs, Buffers outputs,
                                 ExprTable& exprs) {
  if (inputs.size() != body.inputs().size() || outputs.size() != 1 || body.outputs().size() != 1)
    throw Error(ErrorCode::kInternal, "buffers do not match the body of an attention region");
  return AttentionLowering(body, inputs, outputs[0], exprs).lower();
}

}  // namespace sinter::codegen
