// SPDX-License-Identifier: Apache-2.0
// Attention: softmax(mask(scores(scale * q k'))) v.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/cpu/attention_scores.h"
#include "runtime/executor.h"

namespace sinter::runtime::cpu {

/// An AttentionStep of one bound shape. Keys go by in blocks, of which a softmax's sums so far are
/// kept; keys that no row of a block sees, by its limit or since they come later, are neither read
/// nor counted. Few rows, as of a decode step, are done in parts of the keys, which are put
/// together in order: results do not depend on the number of threads. Packed sequences are done one
/// by one. Keys and values of 8 bits become floats, times their rows' scales, block by block. So
/// are rows of paged caches brought together.
class CpuAttention {
 public:
  /// `shape` has been checked.
  CpuAttention(const plan::fb::PlanT& plan, const plan::fb::AttentionStepT& step,
               const BoundShape& shape, int threads);

  /// Bytes that each thread needs, 64-byte aligned.
  std::size_t workspace_bytes() const {
    return static_cast<std::size_t>(shared_floats_ + own_floats_) * sizeof(float);
  }
  /// `buffers` has the address of each of plan.buffers.
  void run(std::span<std::byte* const> buffers, std::span<std::byte* const> workspaces) const;

 private:
  /// Elements: where a group's matrix begins and, from there, each of its rows. A group is what
  /// reads the same keys and values: queries, of all heads that share them.
  struct Operand {
    std::uint32_t buffer = 0;
    DType dtype = DType::kFloat32;
    std::int64_t key = 0;  // from key to key
    std::vector<std::int64_t> groups, rows;

    const std::byte* at(std::span<std::byte* const> buffers, std::int64_t element) const {
      return buffers[buffer] + element * static_cast<std::int64_t>(size_of(dtype));
    }
  };
  class Worker;

  Operand operand(const plan::fb::MatrixT& matrix, std::span<const std::int64_t> values,
                  bool rows_are_keys) const;
  /// How many keys a row of a group sees: the first ones.
  std::int64_t seen(std::span<std::byte* const> buffers, std::int64_t group,
                    std::int64_t row) const;
  /// The indices of the batch and the query of row `row` of group `group`.
  void find_index(std::int64_t group, std::int64_t row, std::int64_t* index) const;
  int team(std::span<std::byte* const> buffers) const;
  /// Rows of a group, and the keys that they see: those of a packed sequence.
  struct Sequence {
    std::int64_t begin = 0, end = 0;  // queries, and keys unless they are paged
    std::int64_t number = 0;
  };
  Sequence sequence(std::span<std::byte* const> buffers, std::int64_t i) const;
  void run_packed(std::span<std::byte* const> buffers,
                  std::span<std::byte* const> workspaces) const;

  std::int64_t queries_ = 0, keys_ = 0, head_ = 0, value_head_ = 0;
  std::vector<std::int64_t> batch_;
  std::vector<bool> shared_;  // batch dimensions along which keys and values are the same
  std::int64_t groups_ = 1, rows_ = 0, heads_ = 1;  // rows of a group: queries * heads
  Operand q_, k_, v_, y_, mask_, limits_, bounds_, key_scales_, value_scales_;
  bool has_mask_ = false, has_limits_ = false, has_scales_ = false;
  int guard_ = 0;
  float scale_ = 1, fill_ = 0;
  std::optional<ScoreProgram> scores_;
  int causal_ = 0, threads_ = 1;
  std::int64_t sequences_ = 0, sequence_blocks_ = 0;  // packed: blocks of rows of the longest
  Operand tables_;
  std::int64_t block_ = 0, table_blocks_ = 0, table_step_ = 0, window_ = 0;  // of paged caches
  std::int64_t padded_ = 0;                 // value_head_ in whole steps of a panel
  std::int64_t row_blocks_ = 1;             // of a group
  std::int64_t parts_ = 1, part_keys_ = 0;  // of the keys; one: no parts
  std::int64_t shared_floats_ = 0, own_floats_ = 0;
};

}  // namespace sinter::runtime::cpu
