// SPDX-License-Identifier: Apache-2.0
// Attention as a strided problem for one kernel: its description, its text and its cost.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "codegen/plan/cost.h"
#include "codegen/plan/expr_table.h"
#include "codegen/program/describe.h"

namespace sinter::codegen {

/// An operand: element (batch.., row, column) is at offset + sum batch strides + row and column
/// strides, in elements. Broadcast dimensions have stride 0.
struct AttentionOperand {
  std::uint32_t buffer = 0;  // index into AttentionProgram.buffers
  DType dtype = DType::kFloat16;
  Dim offset, row, column;
  std::vector<Dim> batch;  // one stride for each of AttentionProgram.batch
};

/// Stand for buffers of values that are never stored: queries, scores, sinks of rows.
constexpr std::uint32_t kPrologueValue = 0xffffffff;
constexpr std::uint32_t kScoreValue = plan::kScoreBuffer, kSinkValue = plan::kSinkBuffer;

/// A value that a block's prologue computes. The pointwise `program` stores it densely, in the
/// order of its loops, to kPrologueValue; its other buffers are AttentionProgram's. Element
/// (batch.., row, column) has index offset + sum batch strides + row stride + column.
struct PrologueOperand {
  LoopProgramT program;
  Dim offset, row;
  std::vector<Dim> batch;
};

/// The prologue: the queries, which then are in no buffer, and one row of keys and of values, which
/// becomes row `slot` of them.
struct AttentionPrologue {
  PrologueOperand q, k, v;
  std::uint32_t slot_buffer = 0;  // in AttentionProgram: integers; one of them is `slot`
  DType slot_type = DType::kInt64;
  Dim slot_offset;
  /// No preceding step of the same run changes keys and values.
  bool still = false;
};

/// Rounding of a result to 8 bits, saturating: round(result / scale), plus zero for integers.
struct ResultRounding {
  double scale = 1, zero = 0;
};

/// Sequences of a paged cache that a kernel takes: all, those of few rows (few_rows_of_sequence),
/// or the others.
enum class PagedSequences { kAll, kShort, kLong };

/// y = softmax(mask(scores(scale * q k'))) v for every index of the batch; ir/ops/attention.cpp
/// defines fill, causal and guard. Rows of q, y and the mask are queries; rows of k and v
/// and columns of the mask are keys. Rows of the limits are queries: row r sees the keys before
/// limits[r].
struct AttentionProgram {
  std::vector<std::uint32_t> buffers;  // Plan.buffers, each once
  // Type of q, k and v unless these have 8 bits, and of y unless rounded.
  DType dtype = DType::kFloat16;
  std::int64_t head = 0, value_head = 0;
  Dim rows, keys;
  std::vector<Dim> batch;  // extents, outermost first; axes that all operands stride alike are
                           // merged
  AttentionOperand q, k, v, y;
  std::optional<AttentionOperand> mask, limits;
  /// Scales of the rows of k and v, which then have 8 bits (ir/scaled_rows.h). Rows are keys.
  std::optional<AttentionOperand> key_scales, value_scales;
  /// Packed sequences: sequence i has rows and keys bounds[i] to bounds[i + 1], at most `longest`.
  /// Columns of the bounds are sequences.
  std::optional<AttentionOperand> bounds;
  Dim sequences, longest;
  /// Paged cache in blocks of `block` keys: row i of the tables, with a column for each block,
  /// gives the blocks of sequence i. Only the rows are packed then.
  std::optional<AttentionOperand> tables;
  Dim table_blocks;
  std::int64_t block = 0, window = 0;
  /// Rows of each token, which share their keys: group_rows() turns a batch dimension into them.
  /// Row r of q is at r / group * q.row + r % group * q_member.
  std::int64_t group = 1;
  Dim q_member, y_member;
  /// The sequences that the kernel takes. Prompts and next tokens have a kernel each: a tile that
  /// suits one is mostly empty for the other, or reads keys too often.
  PagedSequences taken = PagedSequences::kAll;
  double scale = 1, fill = 0;
  /// Makes a score from scale * q k', both in kScoreValue, over the loops batch.., rows, keys, and
  /// maybe the row's sink, the score of a key whose value is zero. Other buffers are the plan's.
  /// `group_axis`: the batch loop that group_rows() turned into rows.
  std::optional<LoopProgramT> scores;
  std::vector<DType> score_types;  // of its buffers
  std::optional<std::size_t> group_axis;
  int causal = 0;
  int guard = 0;
  /// Queries, keys and values of 8 bits (ir/attention_inputs.h). v is transposed: its rows are
  /// value columns, its columns keys. Results are multiplied by `value_scale`. `promoted`: float32
  /// sums over many keys.
  bool eight_bit = false;
  double value_scale = 1;
  bool promoted = false;
  std::optional<ResultRounding> rounding;  // of y, to y's type
  /// Keys and values are a cache of which the preceding step changes a few rows at most: they may
  /// be prefetched before it ends.
  bool cached = false;
  std::optional<AttentionPrologue> front;

  /// All operands that exist.
  std::vector<AttentionOperand*> operands();
  std::vector<const AttentionOperand*> operands() const;
  /// Index of plan buffer `buffer` in `buffers`; adds it if absent.
  std::uint32_t number_of(std::uint32_t buffer);
  /// Whether the kernel writes buffer `buffer`, an index into `buffers`.
  bool writes(std::uint32_t buffer) const {
    return buffer == y.buffer ||
           (front &&
            (buffer == k.buffer || buffer == v.buffer ||
             (key_scales && (buffer == key_scales->buffer || buffer == value_scales->buffer))));
  }
  /// Exact products by CUDA cores (attention_float32.cuh).
  bool is_float32() const { return dtype == DType::kFloat32 && !eight_bit; }
  /// Whether limits may differ between rows of one head.
  bool has_row_limits() const { return limits && limits->row != ir::Dim(0); }
};

/// Columns of tiles for heads of `head` columns.
constexpr std::int64_t padded_head(std::int64_t head) { return (head + 7) / 8 * 8; }

/// Turns heads that share the keys of a paged cache into rows of one head, if their number is
/// known. A step of one token has no bounds of sequences then, only a block table.
void group_rows(AttentionProgram& program);

/// Everything but the plan's buffers, as readable text.
std::string print_attention(const AttentionProgram& program, const ExprTable& exprs);

/// Counts every operand's elements once, two operations for a multiply-add, half for causal scores.
StepCost cost_of(const AttentionProgram& program, const ExprTable& exprs, const SizeOf& size);

}  // namespace sinter::codegen
