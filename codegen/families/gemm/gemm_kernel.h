// SPDX-License-Identifier: Apache-2.0
// Common to the GEMM kernels: a schedule, and the interface that each kernel implements.
#pragma once

#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "codegen/families/gemm/gemm_lowering.h"
#include "codegen/families/loops/schedule.h"
#include "codegen/targets/device_model.h"

namespace sinter::codegen {

class GemmTile;
class GemmText;

/// Largest cluster on every GPU with clusters (CUDA's portable cluster size).
inline constexpr int kPortableCluster = 8;

/// Cost of an epilogue for each element.
struct EpilogueCost {
  double instructions = 0;  // approximate
  double row_bytes = 0;     // bytes loaded that differ by row
};

/// A GEMM, the device of its schedules, and the sizes that estimates assume.
struct GemmProblem {
  const GemmProgram& product;
  const DeviceModel& device;
  std::int64_t n = 0, k = 0;  // typical
  double matrices = 1;        // batch size, typical
  std::optional<std::int64_t> least_m = {}, most_m = {}, most_n = {}, most_k = {};  // if known
  int reductions = 0;  // stages of the epilogue's row reductions
  EpilogueCost epilogue = {};

  /// Tensor core rate for the operands' type, relative to 16-bit floats.
  double tensor_speed() const;
};

/// The problem of a kernel's request. A GEMM by warpgroups is scheduled for a device that has them;
/// GPUs without skip its kernels.
GemmProblem gemm_problem(const ProgramAnalysis& analysis, const GemmProgram& product);

/// The integers that determine a kernel. `tile` has those of specific kernels.
struct GemmSchedule {
  int m = 64, n = 32, k = 64;        // block tile; k of one mainloop iteration
  int stages = 4;                    // pipeline stages of the mainloop
  int split_k = 1;                   // blocks of a cluster that split a tile's k
  int cluster_n = 1;                 // tiles of a cluster that form whole rows, for reductions
  int multicast = 1;                 // tiles of adjacent rows that share copies of b
  int vector_a = 8, vector_b = 8;    // elements of a copy: at most 16 bytes
  bool programmatic_launch = false;  // copies b before the preceding step has ended
  std::shared_ptr<const GemmTile> tile;
  Schedule epilogue;  // thread mapping: vector, unroll, lanes
  std::vector<Condition> conditions;

  int threads() const;           // of a block
  int epilogue_threads() const;  // threads that run the epilogue
  int cluster() const { return split_k * cluster_n * multicast; }
  int lanes() const { return epilogue.threads_x; }  // threads that share a row of the tile
  int rows_at_once() const { return epilogue_threads() / lanes(); }  // per block
  int passes() const { return (m + rows_at_once() * split_k - 1) / (rows_at_once() * split_k); }
  /// See GemmTile.
  int shared_bytes(const GemmProblem& problem) const;
  /// "warp_tile 64x32x64 warps=2x2x1 stages=4 split_k=2 cluster_n=1 copies=8,8 vector=4 lanes=8
  /// unroll=1"; the part before "split_k" is the tile's.
  std::string to_string() const;
};

/// The specifics of one kernel: more integers, and functions of all of them.
class GemmTile {
 public:
  virtual ~GemmTile() = default;

  /// Threads that run a tile's epilogue; threads of the block.
  virtual int epilogue_threads() const = 0;
  virtual int threads() const { return epilogue_threads(); }

  /// Whether the kernel accepts these integers for the GEMM. Shared memory, cluster and epilogue
  /// are checked elsewhere.
  virtual bool fits(const GemmProblem& problem, const GemmSchedule& s) const = 0;

  /// Dynamic shared memory in bytes, without that of reductions (Tile::kSharedBytes in device
  /// code), and its limit.
  virtual int shared_bytes(const GemmProblem& problem, const GemmSchedule& s) const = 0;
  virtual int most_shared_bytes(const DeviceModel& device) const;

  /// Blocks for which registers of a multiprocessor are budgeted; 0: no limit.
  virtual int blocks_at_once(const GemmProblem&, const GemmSchedule&) const { return 0; }

  /// Chooses the epilogue's lanes for a tile of `columns` columns, given its vectors; false if none
  /// fit.
  virtual bool map_epilogue(const ProgramAnalysis& analysis, int columns, GemmSchedule& s) const;

  /// Estimated nanoseconds for `m` rows; only the order of schedules matters.
  virtual double estimate(const GemmProblem& problem, const GemmSchedule& s,
                          std::int64_t m) const = 0;

  /// Schedules with equal values sum along k in the same order, so that rows have the same
  /// bits.
  virtual std::string sum_order(const GemmProblem&, const GemmSchedule& s) const {
    return to_string(s) + " " + std::to_string(s.split_k);
  }

  /// Elements of k that the mainloop covers: the GEMM's k, unless padded.
  virtual Dim depth(const GemmProblem& problem, const GemmSchedule&) const {
    return problem.product.k;
  }

  /// "warp_tile 64x32x64 warps=2x2x1 stages=4".
  virtual std::string to_string(const GemmSchedule& s) const = 0;

  /// The device header that defines the tile's type.
  virtual std::string header(const GemmProgram& product) const = 0;
  /// "WithAccumulators<WarpTile<f16, ..>>".
  virtual std::string type(const GemmText& text) const = 0;
  /// Whether adjacent blocks have the same columns, otherwise the same rows, for L2 reuse. Default:
  /// the same rows, unless that rereads b from memory for each row of tiles while a is read once
  /// the other way.
  virtual bool rasters_along_m(const GemmProblem& problem) const;
  /// Number of tile rows that adjacent blocks cover, column by column; 1: row by row. Larger if the
  /// operands do not stay in the L2: resident blocks then read about as much of both.
  int raster_group(const GemmProblem& problem, const GemmSchedule& s) const;
  /// Sets the fields of `operands` except begin and end.
  virtual void write_operands(GemmText& text) const = 0;
  /// Writes the kernel around the epilogue's statements; by default a block has one tile.
  virtual void write(GemmText& text) const;
};

/// One kernel of the family, in its own folder.
struct GemmKernel {
  const char* name;
  /// Whether it is for this kind of GEMM at all.
  bool (*is_for)(const GemmProgram& product);
  /// Why it accepts no sizes of a GEMM of its kind; empty if it accepts some.
  std::string (*refuse)(const GemmProblem& problem);
  /// Schedules worth trying, before the epilogue and the device complete them.
  std::vector<GemmSchedule> (*schedules)(const GemmProblem& problem);
  /// Parses a schedule up to "cluster_n"; nothing if it is not this kernel's. Throws Error(kUsage)
  /// for a number that no schedule has.
  std::optional<GemmSchedule> (*parse)(const std::string& text);
  bool by_warpgroups = false;
};

/// Throws Error(kUsage) unless all values are valid sizes of a schedule.
void require_sizes(std::initializer_list<int> values, const std::string& schedule);
/// Parses a schedule by `format` (as scanf); false if it does not match. Checks the sizes.
template <typename... Sizes>
bool read_sizes(const std::string& schedule, const char* format, Sizes*... sizes) {
  if (std::sscanf(schedule.c_str(), format, sizes...) != sizeof...(sizes)) return false;
  require_sizes({*sizes...}, schedule);
  return true;
}

/// Multiprocessors that clusters of this size can fill on any GPU of the kind. Clusters of more
/// than 2 blocks leave some idle; the last ones then wait for all others.
double filled_multiprocessors(const DeviceModel& device, int cluster);

/// Row pitch in elements of `bytes` bytes, an odd number of 16-byte units: adjacent rows start in
/// different banks.
inline int odd_units(int elements, int bytes = 2) {
  const int unit = 16 / bytes;
  return (elements / unit | 1) * unit;
}

/// Elements of a stage of StagedTile: both operands.
int staged_elements(const GemmProgram& product, const GemmSchedule& s);

}  // namespace sinter::codegen
