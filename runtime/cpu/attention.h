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

/// An AttentionStep for one bound shape, with an online softmax over blocks of keys. Skips keys
/// that no row of a block sees, because of limits or causality. Few rows, as in decode, use
/// split-KV. Splits are combined in fixed order, so results do not depend on the number of threads.
/// Packed sequences are computed one by one. Each block of 8-bit keys and values is converted to
/// floats with its rows' scales. Each block of rows of paged caches is gathered.
class CpuAttention {
 public:
  /// `shape` must have been verified.
  CpuAttention(const plan::fb::PlanT& plan, const plan::fb::AttentionStepT& step,
               const BoundShape& shape, int threads);

  /// Bytes for each thread, 64-byte aligned.
  std::size_t workspace_bytes() const {
    return static_cast<std::size_t>(shared_floats_ + own_floats_) * sizeof(float);
  }
  /// `buffers` holds the address of each of plan.buffers.
  void run(std::span<std::byte* const> buffers, std::span<std::byte* const> workspaces) const;

 private:
  /// Element offsets: the start of each group's matrix, and each row's offset from there. A group
  /// is the set of rows that share keys and values: all queries of all heads that use them.
  struct Operand {
    std::uint32_t buffer = 0;
    DType dtype = DType::kFloat32;
    std::int64_t key = 0;  // stride between keys
    std::vector<std::int64_t> groups, rows;

    const std::byte* at(std::span<std::byte* const> buffers, std::int64_t element) const {
      return buffers[buffer] + element * static_cast<std::int64_t>(size_of(dtype));
    }
  };
  class Worker;

  Operand operand(const plan::fb::MatrixT& matrix, std::span<const std::int64_t> values,
                  bool rows_are_keys) const;
  /// Number of leading keys that a row of a group sees.
  std::int64_t seen(std::span<std::byte* const> buffers, std::int64_t group,
                    std::int64_t row) const;
  /// The batch indices and the query of row `row` of group `group`.
  void find_index(std::int64_t group, std::int64_t row, std::int64_t* index) const;
  int team(std::span<std::byte* const> buffers) const;
  /// The rows of a packed sequence in a group, and the keys that they see.
  struct Sequence {
    std::int64_t begin = 0, end = 0;  // queries, and keys unless they are paged
    std::int64_t number = 0;
  };
  Sequence sequence(std::span<std::byte* const> buffers, std::int64_t i) const;
  void run_packed(std::span<std::byte* const> buffers,
                  std::span<std::byte* const> workspaces) const;

  std::int64_t queries_ = 0, keys_ = 0, head_ = 0, value_head_ = 0;
  std::vector<std::int64_t> batch_;
  std::vector<bool> shared_;  // batch dimensions along which keys and values repeat
  std::int64_t groups_ = 1, rows_ = 0, heads_ = 1;  // rows of a group: queries * heads
  Operand q_, k_, v_, y_, mask_, limits_, bounds_, key_scales_, value_scales_;
  bool has_mask_ = false, has_limits_ = false, has_scales_ = false;
  int guard_ = 0;
  float scale_ = 1, fill_ = 0;
  std::optional<ScoreProgram> scores_;
  int causal_ = 0, threads_ = 1;
  std::int64_t sequences_ = 0, sequence_blocks_ = 0;  // packed: row blocks of the longest sequence
  Operand tables_;
  std::int64_t block_ = 0, table_blocks_ = 0, table_step_ = 0, window_ = 0;  // for paged caches
  std::int64_t padded_ = 0;                 // value_head_ rounded up to kPanelStep
  std::int64_t row_blocks_ = 1;             // in a group
  std::int64_t parts_ = 1, part_keys_ = 0;  // split-KV; 1: no split
  std::int64_t shared_floats_ = 0, own_floats_ = 0;
};

}  // namespace sinter::runtime::cpu
