// What the GEMM kernels share: a schedule, and the interface behind which each has what is its own.
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

/// The most blocks that a cluster has on every GPU with clusters (CUDA's portable cluster size).
inline constexpr int kPortableCluster = 8;

/// What an epilogue does for each element.
struct EpilogueCost {
  double instructions = 0;  // roughly
  double row_bytes = 0;     // that it loads of each row's own
};

/// A product, the device that schedules are chosen for, and the sizes that estimates assume.
struct GemmProblem {
  const GemmProgram& product;
  const DeviceModel& device;
  std::int64_t n = 0, k = 0;  // typical
  double matrices = 1;        // of the batch, typically
  std::optional<std::int64_t> least_m = {}, most_m = {}, most_n = {}, most_k = {};  // where known
  int reductions = 0;  // stages of the epilogue's reductions of rows
  EpilogueCost epilogue = {};

  RelativeRates rates() const { return relative_rates(device); }
  /// How much faster the device's tensor cores multiply the operands than floats of 16 bits.
  double tensor_speed() const;
};

/// The problem of a kernel's request. A product by warpgroups is scheduled for a device that has
/// them: its kernels are skipped on GPUs without.
GemmProblem gemm_problem(const ProgramAnalysis& analysis, const GemmProgram& product);

/// The integers of one kernel. Those that only some kernels have are in `tile`.
struct GemmSchedule {
  int m = 64, n = 32, k = 64;        // of a block's tile, and of k in one step of the mainloop
  int stages = 4;                    // of the mainloop's pipeline
  int split_k = 1;                   // blocks of a cluster that share a tile's k
  int cluster_n = 1;                 // tiles of a cluster that make up whole rows, for reductions
  int multicast = 1;                 // of neighbouring rows that share the copies of b
  int vector_a = 8, vector_b = 8;    // elements of a copy: 16 bytes at most
  bool programmatic_launch = false;  // b is copied before the step in front has ended
  std::shared_ptr<const GemmTile> tile;
  Schedule epilogue;  // its threads: vector, unroll, lanes
  std::vector<Condition> conditions;

  int threads() const;           // of a block
  int epilogue_threads() const;  // those that have a tile's epilogue
  int cluster() const { return split_k * cluster_n * multicast; }
  int lanes() const { return epilogue.threads_x; }  // threads that share a tile's row
  int rows_at_once() const { return epilogue_threads() / lanes(); }  // of a block
  int passes() const { return (m + rows_at_once() * split_k - 1) / (rows_at_once() * split_k); }
  /// See GemmTile.
  int shared_bytes(const GemmProblem& problem) const;
  /// "warp_tile 64x32x64 warps=2x2x1 stages=4 split_k=2 cluster_n=1 copies=8,8 vector=4 lanes=8
  /// unroll=1"; what stands in front of "split_k" is the tile's.
  std::string to_string() const;
};

/// What one kernel has of its own: further integers, and what follows from all of them.
class GemmTile {
 public:
  virtual ~GemmTile() = default;

  /// Threads that have a tile's epilogue, and those of the whole block.
  virtual int epilogue_threads() const = 0;
  virtual int threads() const { return epilogue_threads(); }

  /// Whether the kernel takes these integers for the product. The shared memory, the cluster and
  /// the epilogue are looked at elsewhere.
  virtual bool fits(const GemmProblem& problem, const GemmSchedule& s) const = 0;

  /// Dynamic shared memory in bytes, without what reductions need: Tile::kSharedBytes of the device
  /// code. And the most that it may be.
  virtual int shared_bytes(const GemmProblem& problem, const GemmSchedule& s) const = 0;
  virtual int most_shared_bytes(const DeviceModel& device) const;

  /// Blocks that the registers of one multiprocessor are meant for; 0: as the compiler likes.
  virtual int blocks_at_once(const GemmProblem&, const GemmSchedule&) const { return 0; }

  /// Lanes of the epilogue for a tile with `columns` of its own, once its vectors are known; false
  /// if none do.
  virtual bool map_epilogue(const ProgramAnalysis& analysis, int columns, GemmSchedule& s) const;

  /// Estimated nanoseconds for `m` rows. Only the order of schedules matters.
  virtual double estimate(const GemmProblem& problem, const GemmSchedule& s,
                          std::int64_t m) const = 0;

  /// Equal where a row's products are added up in one order: what such schedules compute of it has
  /// the same bits.
  virtual std::string sum_order(const GemmProblem&, const GemmSchedule& s) const {
    return to_string(s) + " " + std::to_string(s.split_k);
  }

  /// Elements of k that the steps of the mainloop walk: the product's, unless steps are padded.
  virtual Dim depth(const GemmProblem& problem, const GemmSchedule&) const {
    return problem.product.k;
  }

  /// "warp_tile 64x32x64 warps=2x2x1 stages=4".
  virtual std::string to_string(const GemmSchedule& s) const = 0;

  /// The device header that the tile's type is in.
  virtual std::string header(const GemmProgram& product) const = 0;
  /// "WithAccumulators<WarpTile<f16, ..>>".
  virtual std::string type(const GemmText& text) const = 0;
  /// Whether neighbouring blocks have the same columns, else the same rows: whichever is worth more
  /// in the L2. By default rows, unless b is read again for each of them from memory and a is not
  /// where neighbours have the same columns.
  virtual bool rasters_along_m(const GemmProblem& problem) const;
  /// Neighbouring blocks have tiles of so many rows of tiles, column after column; 1: of one row.
  /// More where the operands do not stay in the L2: blocks that run at once then read about as much
  /// of both.
  int raster_group(const GemmProblem& problem, const GemmSchedule& s) const;
  /// Sets the fields of `operands` but begin and end.
  virtual void write_operands(GemmText& text) const = 0;
  /// The kernel around its epilogue's statements: by default a block has one tile.
  virtual void write(GemmText& text) const;
};

/// One kernel of the family, in a folder of its own.
struct GemmKernel {
  const char* name;
  /// Whether it is for such products at all.
  bool (*is_for)(const GemmProgram& product);
  /// Why it takes one that it is for at no sizes; empty if it does at some.
  std::string (*refuse)(const GemmProblem& problem);
  /// Schedules worth trying, without what the epilogue and the device decide.
  std::vector<GemmSchedule> (*schedules)(const GemmProblem& problem);
  /// The schedule that a text describes, up to "cluster_n"; nothing if it is not this kernel's.
  /// Throws Error(kUsage) for a number that no schedule has.
  std::optional<GemmSchedule> (*parse)(const std::string& text);
};

/// Throws Error(kUsage) unless all are sizes of a schedule.
void require_sizes(std::initializer_list<int> values, const std::string& schedule);
/// Reads a schedule of the form `format` (scanf's); false if it has another. Sizes as above.
template <typename... Sizes>
bool read_sizes(const std::string& schedule, const char* format, Sizes*... sizes) {
  if (std::sscanf(schedule.c_str(), format, sizes...) != sizeof...(sizes)) return false;
  require_sizes({*sizes...}, schedule);
  return true;
}

/// Of the device's multiprocessors, how many clusters of so many blocks fill on any GPU of the
/// kind: where blocks of more than two leave some over, the last clusters wait for all others.
double filled_multiprocessors(const DeviceModel& device, int cluster);

/// Elements of so many bytes of a row of shared memory that is an odd number of 16 bytes, so that
/// neighbouring rows lie in other banks.
inline int odd_units(int elements, int bytes = 2) {
  const int unit = 16 / bytes;
  return (elements / unit | 1) * unit;
}

}  // namespace sinter::codegen
