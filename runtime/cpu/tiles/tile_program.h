// SPDX-License-Identifier: Apache-2.0
// A loop program compiled for one bound shape: what runs over which tile, and where values lie.
//
// Values are of three classes: uniform (constants, computed once), per row, and per element. Each
// reduction ends a stage: its result is known when all of a row's elements have been seen. A stage
// first computes its per-row values, then walks the elements.
//
// Two schedules: rows of elements lie along a tile's columns ("along"), or, for reductions over a
// dimension that is not the contiguous one, several rows side by side make a tile's columns and
// elements follow each other downwards ("across").
//
// Where much of what a tile computes is the same along one loop (positions and weights of an
// interpolation, for all channels), that loop repeats each tile: its index is the last of z, and
// steady values are computed at the first repetition alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "runtime/cpu/ops/chain_ops.h"
#include "runtime/cpu/ops/scan_ops.h"
#include "runtime/cpu/ops/tile_ops.h"
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
  ValueClass value_class = ValueClass::kElement;  // of the result; Store: of what is written
  DType type = DType::kFloat32;
  bool kept = false;  // the result stays for later stages, for the whole row
  // The result is the same in all repetitions of a tile; held: it is read in later ones.
  bool steady = false, held = false;
  // Load: where the offsets of all elements lie, which are the same in all repetitions.
  std::size_t offsets = kNoOffsets;
  // Load: of copied elements that are the same in every row, columns after which they come again.
  std::int64_t period = 0;
  std::uint32_t value = 0;  // instruction of the program
  std::uint32_t args[3] = {};
  std::uint32_t arg_count = 0;
  OpKernel kernel = nullptr;
  std::uint32_t access = kNone;    // Load, Store; Reduce: whose rows are reduced where they lie
  std::uint32_t target = kNone;    // Op, Chain: access of the store that the result can go into
  std::uint32_t chain = 0;         // Chain
  bool past_cache = false;         // Chain: what goes into a store's memory leaves the caches out
  std::uint32_t reduction = 0;     // Reduce, First
  bool slides = false;             // Reduce: over windows that overlap; `kernel` combines two rows
  std::uint32_t scan = 0;          // Scan
  std::optional<Combine> combine;  // Scatter; nothing: replace
  int axis = -1;                   // Index
  std::size_t offset = 0;          // of the result in the workspace
};

/// Operators of one stage, each of which alone reads the one before it, computed as the last.
struct Chain {
  struct Step {
    ChainKernels kernels;
    std::uint32_t other = TileInstr::kNone;  // instruction of the program
  };
  std::uint32_t start = 0;  // instruction of the program
  std::vector<Step> steps;
};

struct Reduction {
  ReduceKernels kernels;
  Combine combine = Combine::kSum;
  std::uint32_t value = 0;                   // instruction of the program
  std::size_t accumulators = 0, result = 0;  // in the workspace
};

/// A program with one has a single stage, whose tiles come in the order of a row's elements.
struct RunningScan {
  ScanKernels kernels;
  bool exclusive = false;
  std::size_t carries = 0;  // in the workspace
};

/// Which elements of every row a Load with a period has copied: from column `phase` of one on.
struct LoadedColumns {
  std::int64_t phase = 0, cols = 0, rows = 0;
};

struct Stage {
  std::vector<TileInstr> row, body;
  std::vector<std::uint32_t> reductions;
};

/// The sizes of tiles and of the space they cover.
struct TileSchedule {
  bool across = false;
  bool ordered = false;    // a row's elements belong to one thread, as in BoundLoops
  bool whole_rows = true;  // one tile holds all elements of its rows
  std::int64_t z_count = 1, y_count = 1, x_count = 1;
  std::int64_t repeats = 1;  // of each tile: the last of z_extents
  std::int64_t tile_rows = 1, tile_cols = 1;
  std::vector<std::int64_t> z_extents;
};

class TileProgram {
 public:
  /// Throws Error(kUnsupported) for an operator that is not defined on its types.
  TileProgram(const plan::fb::PlanT& plan, const plan::fb::LoopProgramT& program,
              std::span<const std::int64_t> expressions, int threads);

  /// Bytes that each thread needs, 64-byte aligned.
  std::size_t workspace_bytes() const { return workspace_bytes_; }
  /// `buffers` has the address of each of plan.buffers; `workspace(i)` the workspace of thread i.
  /// Throws what a thread throws (Error(kUsage) for a gathered index out of range).
  void run(std::span<std::byte* const> buffers, std::span<std::byte* const> workspaces) const;

  const TileSchedule& schedule() const { return schedule_; }

 private:
  friend class TileCompiler;
  class Worker;

  TileSchedule schedule_;
  std::vector<TileAccess> accesses_;
  std::vector<Reduction> reductions_;
  std::vector<RunningScan> scans_;
  std::vector<Chain> chains_;
  std::vector<Stage> stages_;   // the last one's row part ends the program
  std::vector<View> uniforms_;  // by instruction; null where it is not uniform
  std::vector<std::uint64_t> uniform_values_;
  std::vector<DType> types_;        // by instruction
  std::vector<int> axis_position_;  // by axis: its position among its role's loops
  std::vector<char> axis_role_;     // 'z', 'y' or 'x'
  TileAxes axes_;
  std::vector<std::int64_t> extents_;
  std::size_t workspace_bytes_ = 0;
  std::vector<std::uint32_t> streams_;  // accesses whose next tile is worth fetching ahead
  std::int64_t unit_instrs_ = 1;        // instructions run on the elements of one unit of work
  std::size_t views_offset_ = 0, forwarded_offset_ = 0, loaded_offset_ = 0;
  int threads_ = 1;
};

}  // namespace sinter::runtime::cpu
