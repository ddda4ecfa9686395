// SPDX-License-Identifier: Apache-2.0
// A block (or a cluster) computes a tile and keeps the accumulators in shared memory. The
// epilogue's body then processes them like rows of memory.

#include <sstream>

#include "codegen/emit/kernel_text.h"
#include "codegen/emit/prefetch.h"
#include "codegen/families/gemm/gemm_text.h"

namespace sinter::codegen {

GemmText::GemmText(const ProgramAnalysis& analysis, const GemmSchedule& schedule, Arguments& args)
    : analysis_(analysis),
      s_(schedule),
      args_(args),
      product_(*analysis.request().product),
      problem_(gemm_problem(analysis, product_)) {}

GemmMapping GemmText::make() {
  mapping_ = start_mapping(analysis_, s_.epilogue, analysis_.outer_dims(), analysis_.inner_dims());
  const auto& ranges = analysis_.exprs().ranges();
  tiles_m_ = product_.groups > 0 && !product_.combined
                 ? ir::floor_div(product_.m, Dim(s_.m)) +
                       ir::min(product_.m, Dim(product_.groups + 2), ranges)
                 : ir::ceil_div(product_.m, s_.m * s_.multicast, ranges);
  tiles_n_ = ir::ceil_div(part_columns(), part_tile() * s_.cluster_n, ranges);
  declare_tile();
  s_.tile->write(*this);
  mapping_.block = {static_cast<std::uint32_t>(s_.threads()), 1, 1};
  return {std::move(mapping_), std::move(prologue_), std::move(maps_)};
}

void GemmTile::write(GemmText& text) const { text.write_one_tile(); }

void GemmText::declare_tile() {
  line(fmt::format("typedef {} Tile;", s_.tile->type(*this)));
  line(fmt::format("static_assert(Tile::kSharedBytes == {}, \"what the launch reserves\");",
                   s_.shared_bytes(problem_)));
  line("SINTER_DYNAMIC_SHARED(shared);");
}

void GemmText::write_one_tile() {
  mapping_.blocks = tiles() * Dim(s_.cluster());
  count_group_tiles();
  place_block();
  if (product_.groups > 0 && !product_.combined)
    line("if (first_row >= end_row) return;  // more tiles than groups need");
  write_mainloop();
  map_rows();
  map_columns();
  map_reductions();
}

Dim GemmText::tiles() const { return tiles_m_ * tiles_n_ * ir::element_count(product_.batch); }

void GemmText::count_group_tiles() {
  if (product_.groups == 0) return;
  if (s_.programmatic_launch && !product_.b_is_weight) line(wait());
  line(fmt::format("__shared__ GroupTiles<{}> group_tiles;", product_.groups));
  const Dim rows = product_.m * Dim(product_.combined.value_or(1));
  line(fmt::format("group_tiles.count(after_grid_wait({}), {}, {});",
                   args_.buffer(product_.offsets_buffer()), size(rows), s_.m));
}

/// The tile of the block.
void GemmText::place_block() {
  const int cluster = s_.cluster();
  const std::string& block = analysis_.request().block;
  line(cluster > 1 ? fmt::format("const u32 rank = {} % {};", block, cluster)
                   : "const u32 rank = 0;");
  if (cluster > 1) line(fmt::format("const u32 tile = {} / {};", block, cluster));
  for (std::string& text : tile_coordinates(cluster > 1 ? "tile" : block)) line(std::move(text));
}

std::vector<std::string> GemmText::tile_coordinates(std::string rest) {
  std::vector<std::string> lines;
  const auto line = [&](std::string text) { lines.push_back(std::move(text)); };
  const bool along_m = s_.tile->rasters_along_m(problem_);
  const Dim& inner_tiles = along_m ? tiles_m_ : tiles_n_;
  const Dim& outer_tiles = along_m ? tiles_n_ : tiles_m_;
  const char* const inner_name = along_m ? "tile_m" : "tile_n";
  const char* const outer_name = along_m ? "tile_n" : "tile_m";
  std::string inner = "0", outer;
  const int group = s_.tile->raster_group(problem_, s_);
  if (group > 1 && inner_tiles != Dim(1)) {
    const std::string inner_count = fmt::format("u32({})", args_.dim(inner_tiles));
    line(fmt::format("const u32 group = {} / ({} * {}) * {};", rest, inner_count, group, group));
    line(fmt::format("const u32 in_group = {} % ({} * {});", rest, inner_count, group));
    line(fmt::format("const u32 group_rows = minimum({}u, u32({}) - group);", group,
                     args_.dim(outer_tiles)));
    line(fmt::format("const u32 {} = in_group / group_rows;", inner_name));
    line(fmt::format("const u32 {} = group + in_group % group_rows;", outer_name));
    inner = inner_name;
    rest = outer_name;
  } else if (inner_tiles != Dim(1)) {
    const std::string count = fmt::format("u32({})", args_.dim(inner_tiles));
    line(fmt::format("const u32 {} = {} % {};", inner_name, rest, count));
    line(fmt::format("const u32 above = {} / {};", rest, count));
    inner = inner_name;
    rest = "above";
  }
  outer = rest;
  if (!product_.batch.empty()) {
    const std::string count = fmt::format("u32({})", args_.dim(outer_tiles));
    line(fmt::format("const u32 {} = {} % {};", outer_name, rest, count));
    line(fmt::format("const u32 matrix = {} / {};", rest, count));
    outer = outer_name;
    rest = "matrix";
  }
  const std::string &tile_m = along_m ? inner : outer, &tile_n = along_m ? outer : inner;
  for (std::size_t b = product_.batch.size(); b-- > 0;) {
    if (b == 0) {
      line(fmt::format("const u32 b0 = {};", rest));
      continue;
    }
    const std::string count = fmt::format("u32({})", args_.dim(product_.batch[b]));
    line(fmt::format("const u32 b{} = {} % {};", b, rest, count));
    line(fmt::format("const u32 left{} = {} / {};", b, rest, count));
    rest = fmt::format("left{}", b);
  }
  if (product_.combined) {
    // A block of the cluster multiplies each row of a token.
    line(fmt::format("const i32 first_row = i32({}), end_row = first_row + 1;", tile_m));
    line(fmt::format("const i32 of_token = first_row * {} + i32(rank);", *product_.combined));
    line(fmt::format("const i32 own_row = after_grid_wait({})[of_token];",
                     args_.buffer(product_.choices_buffer())));
    line("const GroupRows of_group = group_tiles.find(own_row);");
    line("const u32 b0 = of_group.matrix;");
  } else if (product_.groups > 0) {
    line(fmt::format("const GroupRows of_group = group_tiles.find(i32({}));", tile_m));
    line("const i32 first_row = of_group.first, end_row = of_group.end;");
    line("const u32 b0 = of_group.matrix;");
  } else
    line(s_.multicast > 1
             ? fmt::format("const i32 first_row = i32({0} * {1} + blockIdx.x % {1}) * {2};", tile_m,
                           s_.multicast, s_.m)
             : fmt::format("const i32 first_row = i32({}) * {};", tile_m, s_.m));
  line(s_.cluster_n > 1
           ? fmt::format("const i32 first_column = i32({} * {} + rank / {}) * {};", tile_n,
                         s_.cluster_n, s_.split_k, part_tile())
           : fmt::format("const i32 first_column = i32({}) * {};", tile_n, part_tile()));
  return lines;
}

std::pair<std::string, std::string> GemmText::range_of_k(const std::string& part,
                                                         std::vector<std::string>& lines) {
  const Dim k = s_.tile->depth(problem_, s_);
  if (s_.split_k == 1 || product_.combined) return {"0", size(k)};
  const auto& ranges = analysis_.exprs().ranges();
  const Dim depth = ir::ceil_div(ir::ceil_div(k, s_.k, ranges), s_.split_k, ranges) * Dim(s_.k);
  lines.push_back(fmt::format("const i32 begin = i32({}) * {};", part, size(depth)));
  lines.push_back(fmt::format("const i32 end = minimum(begin + {}, {});", size(depth), size(k)));
  return {"begin", "end"};
}

std::string GemmText::end_of_k(const std::string& begin, const std::string& end) const {
  // Warpgroups never skip the mainloop; TMA gives zeros outside of a tensor.
  if (product_.groups == 0 || product_.by_warpgroups) return end;
  return fmt::format("of_group.has_matrix ? {} : {}", end, begin);
}

void GemmText::write_mainloop() {
  std::vector<std::string> lines;
  const auto [begin, end] = range_of_k(fmt::format("rank % {}", s_.split_k), lines);
  for (std::string& text : lines) line(std::move(text));
  line("Tile::Operands operands;");
  s_.tile->write_operands(*this);
  line(fmt::format("operands.begin = {};", begin));
  line(fmt::format("operands.end = {};", end_of_k(begin, end)));
  if (s_.programmatic_launch) begin_programmatic();
  if (s_.programmatic_launch && !product_.b_is_weight) line(wait());
  if (product_.prologue) {
    prologue_ = prologue_function(analysis_.request(), analysis_.exprs(), s_.threads());
    for (const auto& [buffer, bytes] : prologue_->weights)
      if (s_.programmatic_launch)
        line(fmt::format("fetch_lines<{}>({}, {});", s_.threads(),
                         args_.buffer(product_.prologue->first + buffer), bytes));
  }
  if (product_.gathered)
    begin_gathered();
  else
    line(fmt::format("Tile::begin<{}>(shared, operands{});",
                     s_.programmatic_launch && product_.b_is_weight,
                     analysis_.request().task ? ", ready" : ""));
  if (product_.combined) {
    const std::string share =
        fmt::format("widen(after_grid_wait({})[of_token])", args_.buffer(product_.shares_buffer()));
    const auto& rounded = product_.rounded_shares;
    line(rounded ? fmt::format("operands.factor = widen(narrow<{}>({}));", storage_name(*rounded),
                               share)
                 : fmt::format("operands.factor = {};", share));
  }
  write_behind_wait();
  if (product_.prologue) write_prologue();
  mapping_.behind_preload.push_back("Tile::multiply(shared, operands);");
  line(fmt::format("const u32 lane = threadIdx.x % {};", s_.lanes()));
  // Remote accumulators and scratch are read until here.
  if (s_.cluster() > 1) mapping_.epilogue.push_back("cluster_barrier();");
}

std::string GemmText::wait() const {
  return analysis_.request().task ? "ready();" : "grid_dependency_wait();";
}

void GemmText::begin_programmatic() {
  if (!analysis_.request().task) line("launch_dependents();");
  std::istringstream fetches(prefetches(analysis_, args_, mapping_.blocks, s_.threads()));
  for (std::string text; std::getline(fetches, text);) line(text.substr(2));
}

/// Computes the left operand's rows by a function, and zeros the padding.
void GemmText::write_prologue() {
  const GemmPrologue& prologue = *product_.prologue;
  std::vector<std::string> arguments;
  for (std::size_t b = 0; b + 1 < prologue.program.buffers.size(); ++b)
    arguments.push_back(args_.buffer(prologue.first + b));
  arguments.push_back("rows");
  for (const std::uint32_t size : prologue_->sizes) arguments.push_back(args_.expression(size));
  arguments.push_back("block");
  const std::string blocks = args_.dim(prologue_->blocks);
  line(fmt::format("Tile::make_prologue(shared, {}, [&]({}* rows) {{", size(product_.k),
                   storage_name(product_.type)));
  line(fmt::format("  for (u32 block = 0; block < u32({}); ++block) {{", blocks));
  if (prologue_->blocks != Dim(1))
    line("    if (block > 0) __syncthreads();  // what rows are reduced through is used again");
  line(fmt::format("    {};", signature_text(prologue_->name, arguments)));
  line("  }");
  line("});");
}

void GemmText::write_behind_wait() {
  if (!s_.programmatic_launch) return;
  for (std::string& text : args_.after_grid_wait()) line(std::move(text));
}

GemmMapping map_gemm(const ProgramAnalysis& analysis, const GemmSchedule& schedule,
                     Arguments& args) {
  return GemmText(analysis, schedule, args).make();
}

std::uint32_t gemm_shared_bytes(const ProgramAnalysis& analysis, const GemmSchedule& schedule) {
  const GemmProblem problem = gemm_problem(analysis, *analysis.request().product);
  auto bytes = static_cast<std::uint32_t>(schedule.shared_bytes(problem));
  if (schedule.cluster_n == 1) return bytes;
  bytes = (bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
  std::uint32_t reductions = 0;
  for (std::size_t i = 0; i < analysis.instr_count(); ++i)
    reductions += analysis.value(i).live && analysis.instr(i).kind == InstrKind::Reduce;
  return bytes + reductions * static_cast<std::uint32_t>(schedule.rows_at_once()) *
                     RowReduction::kScratchValue;
}

}  // namespace sinter::codegen
