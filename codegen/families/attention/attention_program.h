// Attention as strided problems for one kernel: what it is, as text, and what it costs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "codegen/plan/cost.h"
#include "codegen/plan/expr_table.h"
#include "codegen/program/describe.h"

namespace sinter::codegen {

/// An operand: element (batch.., row, column) lies at offset + sum batch strides + row and column
/// strides, in elements. Broadcast dimensions have stride 0.
struct AttentionOperand {
  std::uint32_t buffer = 0;  // index into AttentionProgram.buffers
  DType dtype = DType::kFloat16;
  Dim offset, row, column;
  std::vector<Dim> batch;  // one for each of AttentionProgram.batch
};

/// Takes the place of a buffer where a value never gets to memory.
constexpr std::uint32_t kPrologueValue = 0xffffffff;

/// A value that blocks make for themselves: `program`, which is pointwise, stores it densely, in
/// the order of its loops, to kPrologueValue; its other buffers are AttentionProgram's. Element
/// (batch.., row, column) is number offset + sum batch strides + row stride + column.
struct PrologueOperand {
  LoopProgramT program;
  Dim offset, row;
  std::vector<Dim> batch;
};

/// The queries, which then are in no buffer, and a row of keys and of values, which becomes row
/// number `place` of them.
struct AttentionPrologue {
  PrologueOperand q, k, v;
  std::uint32_t place_buffer = 0;  // of AttentionProgram: integers, of which one is `place`
  DType place_type = DType::kInt64;
  Dim place_offset;
  /// No step in front of this one changes keys and values in the same run.
  bool still = false;
};

/// How a result is rounded to 8 bits, saturated: round(result / scale), of integers plus zero.
struct ResultRounding {
  double scale = 1, zero = 0;
};

/// Of a paged cache: all sequences of a step, those of few rows (few_rows_of_sequence), of many.
enum class PagedSequences { kAll, kShort, kLong };

/// y = softmax(mask(cap(scale * q k'))) v for every index of the batch; ir/ops/attention.cpp has
/// the meaning of softcap, fill, causal and guard. Rows of q and y are queries, of k and v keys, of
/// the mask queries; its columns are keys. Rows of the limits are queries: row r sees the keys
/// before limits[r].
struct AttentionProgram {
  std::vector<std::uint32_t> buffers;  // Plan.buffers, each once
  // Of q, k and v unless these have 8 bits; of y unless rounded.
  DType dtype = DType::kFloat16;
  std::int64_t head = 0, value_head = 0;
  Dim rows, keys;
  std::vector<Dim> batch;  // extents, outermost first; neighbours that all walk alike are one
  AttentionOperand q, k, v, y;
  std::optional<AttentionOperand> mask, limits;
  /// Of the rows of k and of v, which have 8 bits then (ir/scaled_rows.h). Rows are keys.
  std::optional<AttentionOperand> key_scales, value_scales;
  /// Packed sequences: rows and keys bounds[i] to bounds[i + 1] are sequence i, of at most
  /// `longest`. Columns of the bounds are sequences.
  std::optional<AttentionOperand> bounds;
  Dim sequences, longest;
  /// Paged: keys and values are a cache in blocks of `block` keys, and row i of the tables, of
  /// which columns are blocks, says where those of sequence i are. Rows alone are packed then.
  std::optional<AttentionOperand> tables;
  Dim table_blocks;
  std::int64_t block = 0, window = 0;
  /// Rows of each token, which share their keys: group_rows() makes one of the dimensions of the
  /// batch that. Row r of q is at r / group * q.row + r % group * q_member.
  std::int64_t group = 1;
  Dim q_member, y_member;
  /// Whose rows the kernel makes. Steps of a prompt and of many sequences' next tokens are two
  /// kernels' work: a tile that suits one is mostly empty, or reads keys too often, for the other.
  PagedSequences taken = PagedSequences::kAll;
  double scale = 1, fill = 0;
  double softcap = 0;  // softcap * tanh(scale * q k' / softcap); 0: none
  int causal = 0;
  int guard = 0;
  /// Queries, keys and values of 8 bits (ir/attention_inputs.h): v's rows are columns of values,
  /// its columns keys. Results are times `value_scale`; `promoted`: sums over many keys are
  /// float32.
  bool eight_bit = false;
  double value_scale = 1;
  bool promoted = false;
  std::optional<ResultRounding> rounding;  // of y, whose type says which
  /// Keys and values are a cache, of which the step in front changes a few rows at most: they may
  /// be fetched before that has ended.
  bool cached = false;
  std::optional<AttentionPrologue> front;

  /// All that there are.
  std::vector<AttentionOperand*> operands();
  std::vector<const AttentionOperand*> operands() const;
  /// The number of `buffer`, a buffer of the plan, in `buffers`; adds it if it has none.
  std::uint32_t number_of(std::uint32_t buffer);
  /// Whether the kernel writes buffer number `buffer` of `buffers`.
  bool writes(std::uint32_t buffer) const {
    return buffer == y.buffer ||
           (front &&
            (buffer == k.buffer || buffer == v.buffer ||
             (key_scales && (buffer == key_scales->buffer || buffer == value_scales->buffer))));
  }
  /// Whether rows of one head may see different numbers of keys by their limits.
  bool has_row_limits() const { return limits && limits->row != ir::Dim(0); }
};

/// Makes heads that share the keys of a paged cache rows of one head, if their number is known.
void group_rows(AttentionProgram& program);

/// Every fact but the plan's buffers, readable.
std::string print_attention(const AttentionProgram& program, const ExprTable& exprs);

/// Every operand's elements once; a product counts two operations, causal scores count half.
StepCost cost_of(const AttentionProgram& program, const ExprTable& exprs, const SizeOf& size);

}  // namespace sinter::codegen
