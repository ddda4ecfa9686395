// SPDX-License-Identifier: Apache-2.0
// A loop program compiled for one bound shape: instructions on tiles, and the workspace.
//
// Values have three classes: uniform (constants, computed once), per row, and per element. Each
// reduction ends a stage, because its result requires all elements of a row. A stage first computes
// its row values, then processes the elements.
//
// There are two schedules. "Along": a row's elements are a tile's columns. "Across", for reductions
// over a dimension that is not contiguous: several rows are a tile's columns, and elements are its
// rows.
//
// If much of a tile's work repeats along one loop, that loop runs innermost and repeats each tile.
// An example is the positions and weights of an interpolation, equal for all channels. The loop's
// index is the last of z; steady values are computed in the first repetition only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "runtime/cpu/ops/chain_ops.h"
#include "runtime/cpu/ops/scan_ops.h"
#include "runtime/cpu/ops/tile_ops.h"
#include "runtime/cpu/ops/vectors/table_ops.h"
#include "runtime/cpu/tiles/tile_access.h"
#include "runtime/cpu/tiles/tile_loops.h"

namespace sinter::runtime::cpu {

enum class ValueClass : std::uint8_t { kUniform, kRow, kElement };

struct TileInstr {
  enum class Kind : std::uint8_t {
    kLoad,
    kOp,
    kChain,
    kReduce,
    kFirst,
    kStore,
    kScatter,
    kScan,
    kIndex,
    kResume
  };
  static constexpr std::uint32_t kNone = UINT32_MAX;
  static constexpr std::size_t kNoOffsets = SIZE_MAX;

  Kind kind = Kind::kOp;
  ValueClass value_class = ValueClass::kElement;  // of the result; Store: of the stored value
  DType type = DType::kFloat32;
  bool kept = false;  // the result persists for later stages, for the whole row
  // steady: equal in all repetitions of a tile; held: also read in later ones.
  bool steady = false, held = false;
  // Load: where the workspace holds the elements' offsets, if these are equal in all repetitions.
  std::size_t offsets = kNoOffsets;
  // The same for the offsets of a row's columns, and the gathers that they are of.
  std::size_t column_offsets = kNoOffsets;
  std::uint64_t of_columns = 0;
  // Load, Index, Op and Chain of these: for elements that are equal in every row, the columns after
  // which they repeat.
  std::int64_t period = 0;
  std::uint32_t value = 0;  // instruction of the program
  std::uint32_t args[3] = {};
  std::uint32_t arg_count = 0;
  OpKernel kernel = nullptr;
  const ByteTable* table = nullptr;  // Op: its second operand
  std::uint32_t access = kNone;      // Load, Store; Reduce: the access that it reduces in place
  std::uint32_t target = kNone;      // Op, Chain: store access that can receive the result
  std::uint32_t chain = 0;           // Chain
  bool past_cache = false;           // Chain: use non-temporal stores to the store's memory
  std::uint32_t reduction = 0;       // Reduce, First
  bool slides = false;               // Reduce: sliding windows; `kernel` combines two rows
  std::uint32_t scan = 0;            // Scan
  std::optional<Combine> combine;    // Scatter; nullopt: replace
  int axis = -1;                     // Index
  std::size_t offset = 0;            // of the result in the workspace
};

/// Operators of one stage, each read only by the next, computed at the position of the last.
struct Chain {
  struct Step {
    ChainKernels kernels;
    // Instructions of the program; second: of a choice.
    std::uint32_t other = TileInstr::kNone, second = TileInstr::kNone;
  };
  std::uint32_t start = 0;  // instruction of the program
  std::vector<Step> steps;
};

struct Reduction {
  ReduceKernels kernels;
  Combine combine = Combine::kSum;
  std::uint32_t value = 0;                   // instruction of the program
  std::size_t accumulators = 0, result = 0;  // offsets in the workspace
  bool slides = false;                       // leaves results without accumulators
};

/// A program with a scan has a single stage, and processes tiles in the order of a row's elements.
struct RunningScan {
  ScanKernels kernels;
  bool exclusive = false;
  std::size_t carries = 0;  // offset in the workspace
};

/// The columns that an instruction with a period has made: every row's, starting at `phase`.
struct LoadedColumns {
  std::int64_t phase = 0, cols = 0, rows = 0;
};

struct Stage {
  std::vector<TileInstr> row, body;
  std::vector<std::uint32_t> reductions;
};

/// Sizes of tiles and of the iteration space.
struct TileSchedule {
  bool across = false;
  bool ordered = false;    // one thread processes a row's elements in order, as in BoundLoops
  bool whole_rows = true;  // a tile holds all elements of its rows
  std::int64_t z_count = 1, y_count = 1, x_count = 1;
  std::int64_t repeats = 1;  // of each tile: the last of z_extents
  std::int64_t tile_rows = 1, tile_cols = 1;
  std::vector<std::int64_t> z_extents;
};

class TileProgram {
 public:
  /// Throws Error(kUnsupported) for an operator that is not defined for its types.
  TileProgram(const plan::fb::PlanT& plan, const plan::fb::LoopProgramT& program,
              std::span<const std::int64_t> expressions, int threads);

  /// Bytes for each thread, 64-byte aligned.
  std::size_t workspace_bytes() const { return workspace_bytes_; }
  /// `buffers` holds the address of each of plan.buffers, `workspaces` each thread's workspace.
  /// Rethrows a thread's exception, such as Error(kUsage) for a gathered index out of range.
  void run(std::span<std::byte* const> buffers, std::span<std::byte* const> workspaces) const;

  /// True if the programs may run in any order, or tile by tile: the others store only where the
  /// first one does, all together no more than there is, and none reads it. Parts of a
  /// concatenation do, which read the same rows. States may be read under another name.
  static bool can_join(const plan::fb::PlanT& plan, std::span<const TileProgram* const> programs);
  /// Runs at most kMostJoined programs that can_join(). A workspace has the sum of theirs.
  static void run_joined(std::span<const TileProgram* const> programs,
                         std::span<std::byte* const> buffers,
                         std::span<std::byte* const> workspaces);
  static constexpr std::size_t kMostJoined = 8;

  const TileSchedule& schedule() const { return schedule_; }

 private:
  friend class TileCompiler;
  class Worker;
  /// What threads share: tiles, of which each may be cut into chunks of its repetitions.
  struct Items {
    std::int64_t count = 0, inner = 1, chunks = 1;
    bool split_columns = false;
  };
  Items items_for(int team) const;
  void run_item(Worker& worker, const Items& items, std::int64_t item) const;

  TileSchedule schedule_;
  std::vector<TileAccess> accesses_;
  std::vector<Reduction> reductions_;
  std::vector<RunningScan> scans_;
  std::vector<Chain> chains_;
  std::vector<Stage> stages_;   // the row part of the last one ends the program
  std::vector<View> uniforms_;  // by instruction; null if not uniform
  std::vector<std::uint64_t> uniform_values_;
  std::map<std::uint32_t, ByteTable> tables_;  // by instruction; addresses stay
  std::vector<DType> types_;                   // by instruction
  std::vector<int> axis_position_;             // by axis: its position among the loops of its role
  std::vector<char> axis_role_;                // 'z', 'y' or 'x'
  TileAxes axes_;
  std::vector<std::int64_t> extents_;
  std::size_t workspace_bytes_ = 0;
  std::vector<std::uint32_t> streams_;  // accesses to prefetch for the next tile
  std::int64_t unit_instrs_ = 1;        // instructions executed on the elements of a unit of work
  std::size_t views_offset_ = 0, forwarded_offset_ = 0, loaded_offset_ = 0;
  int threads_ = 1;
};

}  // namespace sinter::runtime::cpu
