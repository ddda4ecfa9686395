// Schedules of matrix products: tiles, warps, blocks that share a tile.
#pragma once

#include <string>
#include <vector>

#include "codegen/families/gemm/gemm_lowering.h"
#include "codegen/families/loops/schedule.h"

namespace sinter::codegen {

/// The integers of one product kernel; see ProductTile in
/// codegen/families/gemm/warp_tile/product.cuh, SkinnyTile in skinny.cuh, DigitTile in
/// skinny_digits.cuh, GroupTile in product_groups.cuh and TurnTile in product_turns.cuh.
struct ProductSchedule {
  /// A SkinnyTile: each warp has n / warps_n columns, k / warps_k of k; by warpgroups a
  /// PackedGroupTile (packed_groups.cuh).
  bool skinny = false;
  int m = 64, n = 32, k = 64;  // of a tile and of a step
  int warps_m = 2, warps_n = 2, warps_k = 1;
  int stages = 4;
  int splits = 1;  // blocks of a cluster that share a tile's k
  int across = 1;  // tiles of a cluster that make up whole rows, for reductions
  int groups = 0;  // warpgroups of a GroupTile, instead of warps; 0: a tile by warps
  int turns = 0;   // teams of so many groups that take turns at a block's tiles (TurnTile); 0: none
  int blocks = 0;  // of the grid, at most, where they take tiles in turns
  bool spread = false;  // how their epilogue's passes run: see TurnPasses
  int digits = 0;       // of elements of x as integers (DigitTile of skinny_digits.cuh); 0: floats
  int vector_a = 8, vector_b = 8;  // elements of a copy
  bool early = false;              // b is copied before the step in front has ended
  Schedule body;                   // what a thread of the epilogue does: vector, unroll, lanes
  std::vector<plan::fb::Condition> conditions;

  /// Those that have a tile's epilogue; warpgroups have a warp besides that copies, teams four.
  int workers() const { return groups > 0 ? 128 * groups : 32 * warps_m * warps_n * warps_k; }
  int threads() const {
    if (turns > 0) return workers() * turns + 128;
    return workers() + (groups == 0 ? 0 : skinny ? 128 : 32);
  }
  int cluster() const { return splits * across; }
  int lanes() const { return body.threads_x; }              // threads that share a tile's row
  int rows_at_once() const { return workers() / lanes(); }  // of a block
  int passes() const { return (m + rows_at_once() * splits - 1) / (rows_at_once() * splits); }
  /// Blocks that the registers of one multiprocessor are meant for; 0: no matter.
  int blocks_at_once() const;
  /// Dynamic shared memory, without what reductions need: ProductTile::kSharedBytes.
  int shared_bytes(const ProductProgram& product) const;
  /// "product 64x32x64 warps=2x2x1 stages=4 splits=2 across=1 copies=8,8 vector=4 lanes=8
  /// unroll=1", or "skinny .." ("stages=4 digits=3 splits=2 .."); "product 128x128x64 groups=2
  /// stages=3 ..", "product 128x192x64 turns=2 groups=1 stages=5 blocks=132 passes=spread ..", or
  /// "passes=rolled".
  std::string to_string() const;
};

/// Which sizes a product kernel is for: an upper bound on the work, above which the library is
/// better without trying.
std::vector<plan::fb::Condition> product_limits(const ProductProgram& product, ExprTable& exprs);

/// True if some schedule takes the program; else `reason` says why not.
bool can_schedule_product(const ProgramAnalysis& analysis, const ProductProgram& product,
                          std::string& reason);

/// The schedules to emit, in the order in which their conditions are tried: for rising numbers of
/// rows the one with the least estimated time. The last takes all sizes on every GPU unless rows
/// are reduced, which one kernel does for few rows only. `forced`, if not empty, is the one
/// schedule to use, in the form of to_string() up to "across". Throws Error(kUnsupported) if
/// nothing fits.
std::vector<ProductSchedule> choose_products(const ProgramAnalysis& analysis,
                                             const ProductProgram& product,
                                             const std::string& forced = {});

/// Schedules that take the product, for measuring: every tile with every number of splits, by
/// rising estimates of their time.
std::vector<ProductSchedule> all_product_schedules(const ProgramAnalysis& analysis,
                                                   const ProductProgram& product);

/// The device header that the schedule's tile is in.
std::string tile_header(const ProductProgram& product, const ProductSchedule& schedule);

/// Schedules that take all sizes that `rule`, one of the rules', takes, and under the same
/// conditions: `rule` first, then others by rising estimates of their time. Bounded, without
/// repetition, always the same.
std::vector<ProductSchedule> product_candidates(const ProgramAnalysis& analysis,
                                                const ProductProgram& product,
                                                const ProductSchedule& rule, bool clusters);

}  // namespace sinter::codegen
