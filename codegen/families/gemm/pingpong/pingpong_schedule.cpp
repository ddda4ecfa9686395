// SPDX-License-Identifier: Apache-2.0
// TMA warp-specialized pingpong GEMMs (sm_90 only) with persistent blocks. Consumers alternate: one
// runs its mainloop while the other runs the epilogue of the previous tile. See PingpongTile in
// codegen/families/gemm/pingpong/pingpong.cuh.
#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>

#include <fmt/format.h>
#include <sinter/error.h>

#include "codegen/families/gemm/gemm_kernels.h"
#include "codegen/families/gemm/gemm_text.h"
#include "codegen/families/gemm/tma/tma_schedule.h"
#include "codegen/families/loops/schedule_parts.h"
#include "codegen/targets/cuda/fitted/fitted_numbers.h"
#include "runtime/plan/loop_values.h"

namespace sinter::codegen {
namespace {

struct Tile {
  int m, n, consumers = 2, warpgroups = 2 / consumers;
};
/// Two warpgroups: one for each of two consumers, or both for one.
/// Widths of 96, 160 and 224 avoid a last wave with few tiles (2,056 rows by 1,024 columns are 136
/// tiles of 128 x 128). They do not fit if k is not contiguous in the right operand. Larger tiles,
/// with both warpgroups in one consumer, load less for the same MMAs, which may be worth an
/// epilogue without overlap.
constexpr Tile kTiles[] = {{64, 192},  {128, 128},    {128, 192},    {192, 128},
                           {128, 160}, {128, 224, 1}, {128, 256, 1}, {256, 128, 1}};
/// Tiles with two consumers of two warpgroups have twice as many warps in the epilogue, which hides
/// its latency better.
constexpr Tile kEightBitTiles[] = {
    {64, 160},  {64, 192},     {128, 128},    {128, 160},       {128, 192},    {192, 96},
    {192, 128}, {128, 256, 1}, {256, 128, 1}, {128, 128, 2, 2}, {128, 224, 1},
};
/// With promotion, one warpgroup runs MMAs while the other adds.
constexpr Tile kPromotedTiles[] = {{64, 160},     {64, 192},     {128, 128, 1}, {128, 160, 1},
                                   {128, 192, 1}, {128, 224, 1}, {128, 256, 1}, {192, 96, 1, 3}};
/// Few rows, with fewer tiles than multiprocessors: split-K over two blocks.
constexpr Tile kSplitTiles[] = {{64, 128},     {64, 160},     {64, 192},
                                {128, 128, 1}, {128, 160, 1}, {128, 192, 1}};
/// Blocks that share copies by multicast; gains up to 2 %, for operands that stream through the
/// L2.
constexpr int kMulticasts[] = {1, 2};
/// Instructions for each accumulator above which the unrolled code of a spread tile exceeds the
/// instruction caches.
constexpr double kMostSpread = 32;

/// Columns that the four lanes of a row cover with one vector each.
constexpr int kVectorColumns = 32;
/// Vectors of a thread in a pass over tiles with n columns: PingpongPasses::kVectors.
int pass_vectors(int n) { return n % 128 == 0 ? 4 : n % 96 == 0 ? 3 : (n + 31) / 32; }

/// Bytes of a pass's accumulators, for `warpgroups` over n columns.
int pass_bytes(int n, int warpgroups) { return warpgroups * 4 * 8 * 32 * pass_vectors(n) * 4; }
/// Bytes of the sums received with split-K, and of their mbarriers.
int given_bytes(const GemmSchedule& s, int consumers) {
  return (s.split_k - 1) * consumers * (s.m * s.n * 2 + kTmaStageBarriers);
}
/// Registers of a multiprocessor, and those of the producer threads: PingpongTile.
constexpr int kAllRegisters = 65536, kCopyingRegisters = 128 * 24;

/// Whether threads may compute with other columns than they load and store: all values that vary
/// along a row are accessed in whole vectors, and none depends on the column index.
bool can_spread(const ProgramAnalysis& analysis, const Schedule& epilogue) {
  if (epilogue.vector_dim < 0) return false;
  const DimSet along = dim_bit(static_cast<std::size_t>(epilogue.vector_dim));
  for (std::size_t i = 0; i < analysis.instr_count(); ++i) {
    const auto& instr = analysis.instr(i);
    if (!analysis.value(i).live || (analysis.value(i).dims & along) == 0) continue;
    if (instr.kind == InstrKind::Index || instr.kind == InstrKind::Scatter) return false;
    if (plan::is_memory(instr.kind) && !epilogue.vector_access[instr.access] &&
        analysis.access(instr.access).buffer != analysis.request().product->product)
      return false;
  }
  return true;
}

struct Pingpong final : GemmTile {
  int consumers;   // that alternate; a single one does not
  int warpgroups;  // per consumer
  int blocks;      // most persistent blocks; they take tiles in order
  /// Whether the epilogue is unrolled, with lanes that exchange loaded and stored values. Otherwise
  /// its passes are a loop, with accumulators in shared memory.
  bool spread;
  int promoted;  // k's between promotions; 0: none

  Pingpong(int of_block, int of_consumer, int of_grid, bool is_spread, int promoted_depth)
      : consumers(of_block),
        warpgroups(of_consumer),
        blocks(of_grid),
        spread(is_spread),
        promoted(promoted_depth) {}

  int epilogue_threads() const override { return 128 * warpgroups; }  // per tile
  int threads() const override { return epilogue_threads() * consumers + 128; }
  bool fits(const GemmProblem& problem, const GemmSchedule& s) const override {
    // Consumer threads have more registers than at first, as producer threads release theirs.
    constexpr int kMostWarpgroups = 4, kOtherRegisters = 48;
    const int at_first = kAllRegisters / threads() / 8 * 8 * threads();
    const int most = (at_first - kCopyingRegisters) / (threads() - 128);
    const int columns = s.n / problem.product.parts;
    if (problem.product.groups > 0 && s.multicast > 1) return false;  // tiles of other groups
    if (problem.product.interleaved) return false;  // registers have parts side by side
    return consumers <= 2 && consumers * warpgroups <= kMostWarpgroups && s.split_k <= 2 &&
           blocks >= 1 && blocks % s.cluster() == 0 && columns % (8 * s.multicast) == 0 &&
           (spread || problem.product.parts == 1) &&
           fits_tma(problem, s, warpgroups, most - kOtherRegisters, promoted);
  }

  int shared_bytes(const GemmProblem&, const GemmSchedule& s) const override {
    return kTmaAlignment + s.stages * tma_stage_bytes(s) +
           (spread ? 0 : pass_bytes(s.n, consumers * warpgroups)) + given_bytes(s, consumers) +
           s.stages * kTmaStageBarriers;
  }

  int most_shared_bytes(const DeviceModel& device) const override {
    return device.block_shared_bytes;
  }

  /// Four lanes for each row, with eight columns each at a time.
  bool map_epilogue(const ProgramAnalysis& analysis, int columns, GemmSchedule& s) const override {
    s.epilogue.threads_x = 4;
    s.epilogue.unroll = pass_vectors(columns);
    return s.epilogue.vector == 8 && (!spread || can_spread(analysis, s.epilogue));
  }

  /// Models contention of copies, MMAs and the previous tile's epilogue.
  double estimate(const GemmProblem& problem, const GemmSchedule& s,
                  std::int64_t m) const override {
    const PingpongCosts& costs = problem.device.fitted->pingpong;
    const double flops_rate = costs.flops * problem.tensor_speed();
    const EpilogueCost& epilogue = problem.epilogue;
    // Multicast rounds the rows of tiles up to its multiple.
    const std::int64_t rows_of_tiles =
        ceil_div(m, std::int64_t{s.m} * s.multicast) * std::int64_t{s.multicast};
    const double tiles = problem.matrices *
                         static_cast<double>(rows_of_tiles * ceil_div(problem.n, s.n)) * s.split_k;
    const double depth = static_cast<double>(ceil_div(tma_steps(problem, s), s.split_k) * s.k);
    const double promotion = promoted == 0 ? 1
                             : has_one_product(problem.product, s, warpgroups)
                                 ? costs.promotion
                                 : costs.promotion * costs.following;
    const double mainloop_time = 2.0 * s.m * s.n * depth / flops_rate * promotion;
    const double columns = s.n * (1 - costs.multicast_share * (1 - 1.0 / s.multicast));
    const double bytes =
        (s.m + columns) * depth * problem.product.element_bytes() * tiles / blocks / costs.bytes;
    const double waits = s.multicast > 1 ? costs.multicast_wait : 0;
    const double element = (spread ? costs.spread : costs.rolled) +
                           costs.instruction * epilogue.instructions +
                           (spread ? costs.spread_byte : costs.rolled_byte) * epilogue.row_bytes;
    const double epilogue_time = s.m * s.n / 1000.0 / problem.product.parts / warpgroups *
                                 (element / s.split_k + (s.split_k - 1) * costs.exchange);
    const double tiles_of_block = std::ceil(tiles / blocks);
    double time = costs.latency + bytes + waits + (tiles_of_block > 1 ? 0 : costs.lone_tile) +
                  (s.split_k - 1) * costs.split;
    if (spread)
      time += costs.code * tma_accumulators(s, warpgroups) / problem.product.parts *
              (epilogue.instructions + 3);
    // With promotion, the other warpgroup runs MMAs meanwhile.
    if (consumers == 1)
      return time + tiles_of_block * (mainloop_time +
                                      (promoted > 0 ? 1 : costs.serial_epilogue) * epilogue_time);
    return time +
           tiles_of_block * std::max(mainloop_time + costs.overlap_slowdown * epilogue_time,
                                     (mainloop_time + epilogue_time) / 2) +
           epilogue_time;
  }

  std::string to_string(const GemmSchedule& s) const override {
    return fmt::format(
        "pingpong {}x{}x{} consumers={} warpgroups={} stages={} blocks={} passes={}{}", s.m, s.n,
        s.k, consumers, warpgroups, s.stages, blocks, spread ? "spread" : "rolled",
        options_text(s, promoted));
  }

  Dim depth(const GemmProblem& problem, const GemmSchedule& s) const override {
    return tma_depth(problem, s);
  }

  std::string header(const GemmProgram&) const override { return "pingpong.cuh"; }

  std::string type(const GemmText& text) const override {
    const GemmSchedule& s = text.schedule();
    const GemmProgram& product = text.product();
    return fmt::format("PingpongTile<{}, {}, {}, {}, {}, {}, {}, {}, {}, {}{}>",
                       storage_name(product.type), storage_name(product.b_type), s.m, s.n,
                       consumers, warpgroups, s.stages, product.rows_are_k,
                       product.mapped_batch().size() + 2, spread,
                       further_arguments(product, s, promoted, s.split_k));
  }

  void write_operands(GemmText& text) const override {
    std::vector<std::string> lines = text.tile_coordinates("tile");
    lines.push_back("Tile::Operands operands;");
    for (std::string& line : text.mapped_operands()) lines.push_back(std::move(line));
    const auto [begin, end] = text.range_of_k("Tile::part_of_k()", lines);
    lines.insert(lines.end(), {fmt::format("operands.begin = {};", begin),
                               fmt::format("operands.end = {};", text.end_of_k(begin, end))});
    text.line("const auto operands_of = [&](u32 tile) {");
    for (const std::string& line : lines) text.line("  " + line);
    text.line("  return operands;");
    text.line("};");
  }

  void write(GemmText& text) const override {
    const int cluster = text.schedule().cluster();
    text.mapping().blocks =
        ir::min(text.tiles(), blocks / cluster, text.analysis().exprs().ranges()) * Dim(cluster);
    write_tile_loop(text);
    write_passes(text);
    if (cluster > 1) text.mapping().epilogue.push_back("Tile::end();");
  }

 private:
  /// The producer's copies, and the consumers' loop over tiles.
  void write_tile_loop(GemmText& text) const {
    const GemmSchedule& s = text.schedule();
    const bool b_is_weight = text.product().b_is_weight;
    ThreadMapping& mapping = text.mapping();
    text.count_group_tiles();
    text.line(fmt::format("const u32 tiles = u32({});", text.dim(text.tiles())));
    write_operands(text);
    if (s.programmatic_launch) text.begin_programmatic();
    if (s.programmatic_launch && !b_is_weight) text.line("grid_dependency_wait();");
    text.line(fmt::format("if (!Tile::multiplies<{}>(shared, tiles, operands_of)) return;",
                          s.programmatic_launch && b_is_weight));
    text.write_behind_wait();
    mapping.gemm.tile_loop_header =
        "for (Tile::TileScheduler turn; turn.tile < tiles; turn.advance())";
    mapping.gemm.tile_loop_lines = text.tile_coordinates("turn.tile");
    mapping.behind_preload = {
        "Tile::Accumulators accumulators = {};",
        "Tile::multiply(accumulators, shared, turn, operands_of(turn.tile));"};
    mapping.passes.header = "for (int pass = 0; pass < Tile::kPasses; ++pass)";
    if (!spread) return;
    mapping.passes.unroll = true;
    mapping.passes.count = "Tile::kPasses";
    mapping.passes.has_new_columns = "pass % Tile::kRows == 0";
    mapping.gemm.exchange = "Tile::exchanged";
    if (text.divides(text.part_columns(), text.part_tile()) &&
        text.part_tile() % kVectorColumns == 0)
      mapping.gemm.load_exchanged = "Tile::load_exchanged";
  }

  /// A lane's row and vectors of each pass; lanes outside duplicate others and store nothing.
  void write_passes(GemmText& text) const {
    const GemmSchedule& s = text.schedule();
    const GemmProgram& product = text.product();
    ThreadMapping& mapping = text.mapping();
    auto& lines = mapping.passes.lines;
    if (!spread) lines.push_back("Tile::show(accumulators, shared, pass);");
    lines.push_back("const i32 local = first_row + Tile::row_of(pass);");
    std::string live = product.groups > 0 ? "local < end_row"
                       : text.divides(product.m, s.m * s.multicast)
                           ? ""
                           : fmt::format("local < {}", text.size(product.m));
    if (!live.empty()) lines.push_back(fmt::format("const bool live = {};", live));
    if (!live.empty()) mapping.live_row = "live";
    text.rows_from("local", lines);
    mapping.leader = "first_column + Tile::column_of(pass, 0) == 0";
    const std::string k = mapping.loop.unrolled() ? "k" : "0";
    auto& columns = mapping.loop.lines;
    columns.push_back(
        fmt::format("const i32 column = first_column + Tile::column_of(pass, {});", k));
    std::string e = fmt::format("u32(column) / {}", s.epilogue.vector);
    const auto also = [&](const std::string& condition) {
      live += (live.empty() ? "" : " && ") + condition;
    };
    const bool is_whole = text.divides(text.part_columns(), text.part_tile()),
               has_whole_vectors = text.part_tile() % kVectorColumns == 0;
    if (!is_whole) also(fmt::format("column < {}", text.size(text.part_columns())));
    if (!has_whole_vectors)
      also(fmt::format("Tile::column_of(pass, {}) < {}", k, text.part_tile()));
    if (!is_whole || !has_whole_vectors) {
      columns.push_back(fmt::format("const bool live = {};", live));
      mapping.live_row = "live";
      e = "live ? " + e + " : 0";
    }
    columns.push_back(fmt::format("const u32 e = {};", e));
    text.split_columns(columns);
    for (std::size_t i = 0; i < text.analysis().instr_count(); ++i) {
      if (!text.is_product(i)) continue;
      std::string accumulators = "sums", arguments = "accumulators, shared, pass, " + k;
      if (product.parts > 1) {
        accumulators += std::to_string(text.part_of(i));
        arguments += fmt::format(", {}", text.part_of(i));
      }
      mapping.gemm.products.push_back(
          {i, fmt::format("Tile::sum({})", arguments), accumulators, arguments});
    }
  }
};

/// Adds the schedules of a tile with this multicast and split_k.
void add_schedules(const GemmProblem& problem, const Tile& tile, int multicast, int split_k,
                   std::vector<GemmSchedule>& all) {
  for (const bool spread : {true, false}) {
    if (spread && problem.epilogue.instructions > kMostSpread * problem.product.parts) continue;
    GemmSchedule s;
    s.m = tile.m, s.n = tile.n, s.k = tma_step(problem.product);
    s.multicast = multicast, s.split_k = split_k;
    s.vector_a = s.vector_b = tma_unit(problem.product);
    // The next tile's stages are filled meanwhile.
    s.stages = tma_stages(s, problem.device, 1,
                          (spread ? 0 : pass_bytes(s.n, tile.consumers * tile.warpgroups)) +
                              given_bytes(s, tile.consumers),
                          std::nullopt);
    const int promoted =
        possible_promotion(problem.product, s, tile.warpgroups, needed_promotion(problem));
    const auto filled = static_cast<int>(filled_multiprocessors(problem.device, s.cluster()));
    s.tile = std::make_shared<Pingpong>(tile.consumers, tile.warpgroups,
                                        filled / s.cluster() * s.cluster(), spread, promoted);
    if (s.tile->fits(problem, s)) all.push_back(std::move(s));
  }
}

std::vector<GemmSchedule> schedules(const GemmProblem& problem) {
  std::vector<GemmSchedule> all;
  const std::span<const Tile> tiles =
      needed_promotion(problem) > 0    ? std::span<const Tile>(kPromotedTiles)
      : problem.product.is_eight_bit() ? std::span<const Tile>(kEightBitTiles)
                                       : std::span<const Tile>(kTiles);
  for (const int multicast : kMulticasts) {
    for (const Tile& tile : tiles) add_schedules(problem, tile, multicast, 1, all);
    for (const Tile& tile : kSplitTiles) add_schedules(problem, tile, multicast, 2, all);
  }
  return all;
}

std::optional<GemmSchedule> parse(const std::string& asked) {
  GemmSchedule s;
  std::string text = asked;
  if (!text.starts_with("pingpong ")) return std::nullopt;
  const int promoted = take_promotion(text);
  s.multicast = take_multicast(text);
  int consumers = 0, warpgroups = 0, blocks = 0;
  char passes[8] = {};
  if (std::sscanf(text.c_str(),
                  "pingpong %dx%dx%d consumers=%d warpgroups=%d stages=%d blocks=%d passes=%7[a-z] "
                  "split_k=%d cluster_n=%d",
                  &s.m, &s.n, &s.k, &consumers, &warpgroups, &s.stages, &blocks, passes, &s.split_k,
                  &s.cluster_n) != 10)
    return std::nullopt;
  const bool spread = std::string_view(passes) == "spread";
  if (!spread && std::string_view(passes) != "rolled")
    throw Error(
        ErrorCode::kUsage,
        fmt::format("passes are spread or rolled, not '{}', in the schedule '{}'", passes, text));
  require_sizes({s.m, s.n, s.k, consumers, warpgroups, s.stages, blocks, s.split_k, s.cluster_n},
                text);
  s.tile = std::make_shared<Pingpong>(consumers, warpgroups, blocks, spread, promoted);
  return s;
}

}  // namespace

constinit const GemmKernel kPingpongKernel = {"pingpong", is_for_tma, refuse_tma,
                                              schedules,  parse,      true};

}  // namespace sinter::codegen
