// SPDX-License-Identifier: Apache-2.0
// Schedules of attention: tiles and launch parameters, and the memory that they need.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/families/attention/attention_program.h"
#include "codegen/targets/device_model.h"

namespace sinter::codegen {

/// Keys of a copied 8-bit tile; its rows have 128 bytes.
inline constexpr int kEightBitKeys = 128;
/// Average rows of a sequence up to which only the kernel of short sequences runs.
inline constexpr std::int64_t kFewInTheMean = 16;

/// The integers that determine a kernel; see AttentionShape in attention_problem.cuh and, if there
/// are stages, AttentionPipeline in attention_pipeline.cuh.
struct AttentionSchedule {
  int row_warps = 1;   // warps with different rows that share tiles of keys
  int warp_rows = 16;  // of a warp: 16, 32, or 8 with swapped operands
  int key_groups = 1;  // groups of row_warps that take tiles of keys round-robin
  int keys = 32;       // of a tile
  int vector = 8;      // elements of one copy of keys and values
  bool pairs = true;   // two adjacent elements of q and y are one access
  int ahead = 1;       // tiles of keys and of values in flight, for groups of one warp
  int splits = 1;      // split-KV: blocks of a cluster that split the keys
  int stages = 0;      // warpgroup pipeline stages, of keys and of values; 0: no warpgroups
  int queries = 1;     // tiles of queries for warpgroups; several stay in shared memory
  int least_rows = 0;  // least rows of an accepted packed sequence
  int most_rows = 0;   // most rows of it; 0: any
  int tma = 0;         // 1: TMA copies blocks of a paged cache for warpgroups
  int blocks = 0;      // most blocks, which then process several items; 0: one block an item
  int turns = 0;       // multiprocessors over which items, long ones first, go in serpentine order
  int at_once = 0;     // most blocks on a multiprocessor; 0: as many as fit
  std::vector<Condition> conditions;  // when this schedule may be used

  int rows() const { return row_warps * warp_rows; }  // of a block
  bool by_warpgroups() const { return stages > 0; }   // needs DeviceModel::has_wgmma
  bool swapped() const { return warp_rows == 8; }
  int threads() const { return row_warps * key_groups * 32 + (by_warpgroups() ? 128 : 0); }
  /// Blocks for which registers of a multiprocessor are budgeted; 0: no limit.
  int blocks_at_once() const { return by_warpgroups() ? (row_warps == 4 ? 2 : 1) : 0; }
  /// "attention rows=4x16 key_groups=1 keys=64 vector=8", "attention rows=8x16 key_groups=1
  /// keys=128 vector=8 stages=2 blocks=132".
  std::string to_string() const;
};

/// Parses to_string()'s form; throws Error(kUnsupported) for other texts.
AttentionSchedule parse_attention_schedule(const std::string& text);

/// Dynamic shared memory, in bytes; the kernel asserts it.
std::uint32_t attention_shared_bytes(const AttentionProgram& program,
                                     const AttentionSchedule& schedule);

/// Shared memory that a launch reserves: padded so that at most `at_once` blocks fit.
std::uint32_t reserved_shared_bytes(const AttentionProgram& program,
                                    const AttentionSchedule& schedule, const DeviceModel& device);

/// Number of tiles of `rows` rows of one head.
Dim tiles_of_rows(const AttentionProgram& program, int rows, const Ranges& ranges);
/// Number of tiles of one head. For packed sequences an upper bound: each adds less than one tile
/// to its share.
Dim attention_tiles(const AttentionProgram& program, const AttentionSchedule& schedule,
                    const Ranges& ranges);

}  // namespace sinter::codegen
