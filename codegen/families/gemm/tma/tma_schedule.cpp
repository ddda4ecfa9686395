#include "codegen/families/gemm/tma/tma_schedule.h"

#include <algorithm>
#include <cmath>

#include "codegen/families/loops/schedule_parts.h"
#include "runtime/plan/loop_values.h"

namespace sinter::codegen {
namespace {

using ir::Dim;

constexpr int kStep = 64;  // of k
constexpr int kMostStages = 12, kMostGroups = 4, kMostCluster = 16;
constexpr int kSharedOfProcessor = 227 * 1024, kReservedShared = 1024;
constexpr std::size_t kMostBatch = 3;  // a tensor map has five dimensions

struct Tile {
  int m, n, groups, blocks;  // blocks: that a multiprocessor has room for
};
constexpr Tile kTiles[] = {{64, 32, 1, 1},   {64, 64, 1, 1},   {64, 64, 1, 2},  {64, 96, 1, 1},
                           {64, 96, 1, 2},   {64, 128, 1, 1},  {64, 128, 1, 2}, {64, 192, 1, 1},
                           {128, 64, 2, 1},  {128, 64, 2, 2},  {128, 96, 2, 1}, {128, 128, 2, 1},
                           {128, 128, 2, 2}, {128, 192, 2, 1}, {128, 256, 2, 1}};
constexpr int kSplits[] = {1, 2, 3, 4, 6, 8};
/// By two teams of one warpgroup in turns.
constexpr Tile kTurnTiles[] = {
    {64, 192, 1, 1}, {128, 128, 1, 1}, {128, 192, 1, 1}, {192, 128, 1, 1}};
/// Instructions of an element above which a tile's code, which is unrolled where it is spread, does
/// not stay in the caches.
constexpr double kMostSpread = 32;

int stage_bytes(const ProductSchedule& s) { return (s.m + s.n) * kStep * 2; }

/// Where teams take turns, the sums of a pass, of eight rows for each warp.
int turn_bytes(const ProductSchedule& s) {
  if (s.spread) return 0;
  return s.turns * s.groups * 4 * 8 * 32 * turn_vectors(s.n) * 4;
}

/// Boxes of b are 64 columns wide; rows of b may be any number that warpgroups take.
int column_unit(const ProductProgram& product) { return product.rows_are_k ? 64 : 32; }

/// As many stages as fit, no more than there are steps.
int stages_for(const ProductSchedule& s, int blocks, std::optional<std::int64_t> depth) {
  const int room = kSharedOfProcessor / blocks - (s.turns > 0 ? turn_bytes(s) : kReservedShared) -
                   1024 - 2 * kMostStages * 16;
  int stages = std::min(room / stage_bytes(s), kMostStages);
  if (depth) stages = std::min(stages, ceil_div(ceil_div(*depth, kStep), s.splits));
  return std::max(stages, 2);
}

int sums_of_thread(const ProductSchedule& s) { return s.m / s.groups / 64 * s.n / 2; }

}  // namespace

bool can_use_groups(const ProgramAnalysis& analysis, const ProductProgram& product,
                    std::string& reason) {
  constexpr std::int64_t kLeastRows = 33;  // a tile has 64
  const auto fail = [&](const char* why) {
    reason = why;
    return false;
  };
  if (analysis.stages() > 0) return fail("rows are reduced by warps, whose tiles have fewer rows");
  if (product.windows) return fail("the copy engine is not told of windows");
  if (product.weights) return fail("warpgroups multiply weights of 16 bits");
  if (product.parts > 1) return fail("a tile by warpgroups is one of neighbouring columns");
  if (product.batch.size() > kMostBatch) return fail("the batch has too many dimensions");
  const auto most = product.m.is_constant() ? product.m.value()
                                            : ir::upper_bound(product.m, analysis.exprs().ranges());
  if (most && *most < kLeastRows) return fail("too few rows for warpgroups");
  return true;
}

std::vector<ProductSchedule> group_tiles(const ProductProgram& product,
                                         std::optional<std::int64_t> depth,
                                         const EpilogueWork& work) {
  std::vector<ProductSchedule> all;
  const auto add = [&](const Tile& tile, int splits) {
    ProductSchedule s;
    s.m = tile.m, s.n = tile.n, s.k = kStep;
    s.groups = tile.groups;
    s.splits = splits;
    if (splits > 1 && depth && ceil_div(*depth, kStep) < splits) return;
    s.stages = stages_for(s, tile.blocks, depth);
    const auto same = [&](const ProductSchedule& other) {
      return other.m == s.m && other.n == s.n && other.stages == s.stages &&
             other.splits == s.splits;
    };
    if (is_group_tile(product, s) && std::none_of(all.begin(), all.end(), same)) all.push_back(s);
  };
  for (const Tile& tile : kTiles)
    for (const int splits : kSplits) add(tile, splits);
  for (const Tile& tile : kTurnTiles)
    for (const bool spread : {true, false}) {
      if (spread && work.instructions > kMostSpread) continue;
      ProductSchedule s;
      s.m = tile.m, s.n = tile.n, s.k = kStep;
      s.turns = 2, s.groups = tile.groups;
      s.blocks = static_cast<int>(kProcessors);
      s.spread = spread;
      s.stages = stages_for(s, 1, std::nullopt);  // those of the next tile are on their way
      if (is_group_tile(product, s)) all.push_back(s);
    }
  return all;
}

int turn_vectors(int n) { return n % 128 == 0 ? 4 : n % 96 == 0 ? 3 : n / 32; }

bool is_group_tile(const ProductProgram& product, const ProductSchedule& s) {
  constexpr int kMostSize = 256;  // a box's rows
  // A thread's registers are more where others that only copy give theirs away.
  const int kMostSums = s.turns > 0 && s.turns * s.groups <= 2 ? 192 : 128;
  if (s.turns > 0 && (s.turns > 2 || s.turns * s.groups != 2 || s.splits > 1 || s.blocks < 1))
    return false;
  return s.groups >= 1 && s.groups <= kMostGroups && s.m % (64 * s.groups) == 0 &&
         s.m <= kMostSize && s.n % column_unit(product) == 0 && s.n <= kMostSize &&
         (s.n % 64 == 0 || s.n <= 96) && s.k == kStep && s.stages >= 2 &&
         sums_of_thread(s) <= kMostSums && s.across == 1 && s.cluster() <= kMostCluster;
}

int group_shared_bytes(const ProductSchedule& s) {
  const int stages = s.stages * stage_bytes(s);
  const int body = s.turns > 0 ? stages + turn_bytes(s) : std::max(stages, s.m * (s.n + 8) * 4);
  return 1024 + body + 2 * s.stages * 16;
}

int group_blocks_at_once(const ProductSchedule& s) {
  constexpr int kOtherRegisters = 40, kAllocated = 8;
  const int registers = (sums_of_thread(s) + kOtherRegisters + kAllocated - 1) / kAllocated;
  const int by_memory = kSharedOfProcessor / (group_shared_bytes(s) + kReservedShared);
  const int by_registers = static_cast<int>(kRegisters) / (s.threads() * registers * kAllocated);
  return std::max(1, std::min(by_memory, by_registers));
}

bool can_spread(const ProgramAnalysis& analysis, const Schedule& body) {
  if (body.vector_dim < 0) return false;
  const DimSet along = dim_bit(static_cast<std::size_t>(body.vector_dim));
  for (std::size_t i = 0; i < analysis.instr_count(); ++i) {
    const auto& instr = analysis.instr(i);
    if (!analysis.value(i).live || (analysis.value(i).dims & along) == 0) continue;
    if (instr.kind == plan::fb::InstrKind::Index || instr.kind == plan::fb::InstrKind::Scatter)
      return false;
    if (plan::is_memory(instr.kind) && !body.vector_access[instr.access]) return false;
  }
  return true;
}

EpilogueWork count_work(const ProgramAnalysis& analysis, const ProductProgram& product) {
  EpilogueWork work;
  work.instructions = count_operations(analysis);
  for (std::size_t i = 0; i < analysis.instr_count(); ++i) {
    const auto& instr = analysis.instr(i);
    if (instr.kind != plan::fb::InstrKind::Load || !analysis.value(i).live) continue;
    const std::uint32_t buffer = analysis.access(instr.access).buffer;
    if (buffer == product.product) continue;
    if (is_shared_by_rows(analysis, i))
      work.instructions += 1;
    else
      work.row_bytes += static_cast<double>(size_of(analysis.buffer_type(buffer)));
  }
  return work;
}

/// Where teams take turns: what copies, products and the epilogue of the tile before take from each
/// other. Fitted to 640 times of 70 products (384 to 8,192 rows; a bias, gelu, a residual) in
/// graphs on an H200: those chosen take 1 % longer than the best in the mean.
double estimate_turns(const ProductSchedule& s, double tiles, double depth,
                      const EpilogueWork& epilogue) {
  constexpr double kLatency = 1035, kFlops = 8115, kBytes = 250;  // nanoseconds; each of them
  // Of blocks with one tile, which nothing overlaps: 384 and 768 rows by 2,304 columns of 768 are
  // best by kernels of one tile a block and in turns, which takes between 1,600 and 2,100.
  constexpr double kAlone = 1850;
  // Of an element, in thousandths of a nanosecond.
  constexpr double kRolled = 32, kSpread = 16.5, kInstruction = 3.3;
  constexpr double kRolledByte = 26, kSpreadByte = 21.4;
  constexpr double kCode = 0.24;      // of an instruction that is new to the caches
  constexpr double kInTheWay = 1.28;  // products are slower beside an epilogue by so much of it
  const double products = 2.0 * s.m * s.n * depth / kFlops;
  const double bytes = (s.m + s.n) * depth * 2 * tiles / s.blocks / kBytes;
  const double element = (s.spread ? kSpread : kRolled) + kInstruction * epilogue.instructions +
                         (s.spread ? kSpreadByte : kRolledByte) * epilogue.row_bytes;
  const double sums = s.m * s.n / s.groups / 1000.0 * element;
  const double turns = std::ceil(tiles / s.blocks);
  double time = kLatency + bytes + (turns > 1 ? 0 : kAlone);
  if (s.spread) time += kCode * sums_of_thread(s) * (epilogue.instructions + 3);
  if (s.turns == 1) return time + turns * (products + sums);
  return time + turns * std::max(products + kInTheWay * sums, (products + sums) / 2) + sums;
}

// Fitted to 360 times of 19 products (64 to 4,096 rows, k of 384 to 3,072; a bias, gelu, a
// residual) in graphs on an H200: those chosen take 3 % longer than the best of a product in the
// mean.
double estimate_groups(const ProductSchedule& s, std::int64_t m, std::int64_t n, std::int64_t k,
                       double matrices, const EpilogueWork& epilogue) {
  constexpr double kLatency = 1420, kWave = 430, kStepTime = 27;  // nanoseconds
  constexpr double kFlops = 4310, kBytes = 88, kAllBytes = 7300;  // each of them
  constexpr double kBarrier = 430, kBlock = 440;
  // Of an element, in thousandths of a nanosecond: storing its sum, which every block of a
  // cluster does, and the rest, which they share.
  constexpr double kStored = 55, kElement = 29.5, kInstruction = 5.1, kRowByte = 22.6;
  const double processors = processors_filled_by(s.cluster());
  const double tiles = matrices * static_cast<double>(ceil_div(m, s.m) * ceil_div(n, s.n));
  const double blocks = tiles * static_cast<double>(s.splits);
  const double depth = static_cast<double>(ceil_div(ceil_div(k, kStep), s.splits) * kStep);
  if (s.turns > 0) return estimate_turns(s, tiles, depth, epilogue);
  const double resident =
      std::clamp(std::ceil(blocks / processors), 1.0, static_cast<double>(group_blocks_at_once(s)));
  const double waves = std::max(1.0, std::ceil(blocks / (processors * resident)));
  const double bytes = (s.m + s.n) * depth * 2, flops = 2.0 * s.m * s.n * depth;
  const double work = std::max({flops / kFlops * resident, bytes / kBytes * resident,
                                bytes * std::min(blocks, processors * resident) / kAllBytes,
                                depth / kStep * kStepTime});
  const double element =
      kStored +
      (kElement + kInstruction * epilogue.instructions + kRowByte * epilogue.row_bytes) / s.splits;
  const double sums = s.m * s.n / 1000.0 * element / s.groups * resident;
  double time = kLatency + waves * (work + sums + kWave);
  if (s.cluster() > 1) time += kBarrier + kBlock * s.cluster();
  return time;
}

}  // namespace sinter::codegen
