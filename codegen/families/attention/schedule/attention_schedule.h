// Schedules of attention: how a problem is spread over a GPU, and what that takes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "codegen/families/attention/attention_program.h"
#include "codegen/targets/device_model.h"

namespace sinter::codegen {

/// Keys of 8 bits in a tile that is copied, whose rows have 128 bytes.
inline constexpr int kEightBitKeys = 128;
/// Rows of a sequence, in the mean, up to which a step is the kernel's of short ones alone.
inline constexpr std::int64_t kFewInTheMean = 16;

/// The integers that decide a kernel; see AttentionShape in attention_problem.cuh and, where
/// there are stages, AttentionPipeline in attention_warpgroups.cuh.
struct AttentionSchedule {
  int row_warps = 1;   // warps that share tiles of keys, each with rows of its own
  int warp_rows = 16;  // of each warp: 16, 32, or 8 with operands of products swapped
  int key_groups = 1;  // groups of row_warps that take turns over the tiles of keys
  int keys = 32;       // of a tile
  int vector = 8;      // elements of one copy of keys and values
  bool pairs = true;   // two neighbouring elements of q and y are one access
  int ahead = 1;       // tiles of keys, and of values, under way to each group of one warp
  int splits = 1;      // blocks of a cluster that share out the keys
  int stages = 0;      // tiles of keys, and of values, under way to warpgroups; 0: by warps alone
  int queries = 1;     // tiles of queries that warpgroups have; several stay in shared memory
  int least_rows = 0;  // of a packed sequence that is taken
  int most_rows = 0;   // likewise; 0: any
  int tma = 0;         // 1: the copy engine copies blocks of a paged cache to warpgroups
  int blocks = 0;      // at most, each of which takes several items; 0: a block for each item
  int turns = 0;       // multiprocessors that items, long ones first, go to back and forth
  int at_once = 0;     // blocks that a multiprocessor has, at most; 0: as many as it has room for
  std::vector<Condition> conditions;  // when this schedule may be used

  int rows() const { return row_warps * warp_rows; }  // of a block
  bool by_warpgroups() const { return stages > 0; }   // needs DeviceModel::has_wgmma
  bool swapped() const { return warp_rows == 8; }
  int threads() const { return row_warps * key_groups * 32 + (by_warpgroups() ? 128 : 0); }
  /// Blocks that the registers of one multiprocessor are meant for; 0: no matter.
  int blocks_at_once() const { return by_warpgroups() ? (row_warps == 4 ? 2 : 1) : 0; }
  /// "attention rows=4x16 key_groups=1 keys=64 vector=8", "attention rows=8x16 key_groups=1
  /// keys=128 vector=8 stages=2 blocks=132".
  std::string to_string() const;
};

/// Of to_string()'s form; throws Error(kUnsupported) for others.
AttentionSchedule parse_attention_schedule(const std::string& text);

/// Dynamic shared memory, as the kernel asserts it.
std::uint32_t attention_shared_bytes(const AttentionProgram& program,
                                     const AttentionSchedule& schedule);

/// What a launch reserves: as much, and so much more that no more blocks than `at_once` find room.
std::uint32_t reserved_shared_bytes(const AttentionProgram& program,
                                    const AttentionSchedule& schedule, const DeviceModel& device);

/// Tiles of `rows` rows of one head.
Dim tiles_of_rows(const AttentionProgram& program, int rows, const Ranges& ranges);
/// Tiles of one head. Of packed sequences, as many as there can be: each needs less than one more
/// than its share.
Dim attention_tiles(const AttentionProgram& program, const AttentionSchedule& schedule,
                    const Ranges& ranges);

}  // namespace sinter::codegen
