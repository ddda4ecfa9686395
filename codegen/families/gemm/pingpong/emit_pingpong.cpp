#include <fmt/format.h>

#include "codegen/families/gemm/gemm_text.h"
#include "codegen/families/gemm/pingpong/pingpong_schedule.h"

namespace sinter::codegen {

using ir::Dim;

std::string Pingpong::header(const GemmProgram&) const { return "pingpong.cuh"; }

std::string Pingpong::type(const GemmText& text) const {
  const GemmSchedule& s = text.schedule();
  const GemmProgram& product = text.product();
  return fmt::format("PingpongTile<{}, {}, {}, {}, {}, {}, {}, {}, {}>", storage_name(product.type),
                     s.m, s.n, consumers, warpgroups, s.stages, product.rows_are_k,
                     product.batch.size() + 2, spread);
}

void Pingpong::write(GemmText& text) const {
  text.mapping().blocks = ir::min(text.tiles(), blocks, text.analysis().exprs().ranges());
  write_tile_loop(text);
  write_passes(text);
}

void Pingpong::write_operands(GemmText& text) const {
  std::vector<std::string> lines = text.place("tile");
  const std::string depth = text.size(text.product().k);
  lines.push_back("Tile::Operands operands;");
  for (std::string& line : text.mapped_operands()) lines.push_back(std::move(line));
  lines.insert(lines.end(), {"operands.begin = 0;", fmt::format("operands.end = {};", depth)});
  text.line("const auto operands_of = [&](u32 tile) {");
  for (const std::string& line : lines) text.line("  " + line);
  text.line("  return operands;");
  text.line("};");
}

/// Copies, and for who multiplies a loop over tiles.
void Pingpong::write_tile_loop(GemmText& text) const {
  const GemmSchedule& s = text.schedule();
  const bool b_is_weight = text.product().b_is_weight;
  ThreadMapping& mapping = text.mapping();
  text.line(fmt::format("const u32 tiles = u32({});", text.dim(text.tiles())));
  write_operands(text);
  if (s.programmatic_launch) text.begin_programmatic();
  if (s.programmatic_launch && !b_is_weight) text.line("grid_dependency_wait();");
  text.line(fmt::format("if (!Tile::multiplies<{}>(shared, tiles, operands_of)) return;",
                        s.programmatic_launch && b_is_weight));
  text.write_behind_wait();
  mapping.gemm.tile_loop_header =
      "for (Tile::TileScheduler turn; turn.tile < tiles; turn.advance())";
  mapping.gemm.tile_loop_lines = text.place("turn.tile");
  mapping.behind_preload = {"Tile::Accumulators accumulators = {};",
                            "Tile::multiply(accumulators, shared, turn, operands_of(turn.tile));"};
  mapping.passes.header = "for (int pass = 0; pass < Tile::kPasses; ++pass)";
  if (!spread) return;
  mapping.passes.unroll = true;
  mapping.passes.count = "Tile::kPasses";
  mapping.gemm.exchange = "Tile::exchanged";
  if (text.divides(text.product().n, s.n)) mapping.gemm.load_exchanged = "Tile::load_exchanged";
}

/// A lane's row of each pass and its vectors; those outside follow others and write nothing.
void Pingpong::write_passes(GemmText& text) const {
  const GemmSchedule& s = text.schedule();
  const GemmProgram& product = text.product();
  ThreadMapping& mapping = text.mapping();
  auto& lines = mapping.passes.lines;
  if (!spread) lines.push_back("Tile::show(accumulators, shared, pass);");
  lines.push_back("const i32 local = first_row + Tile::row_of(pass);");
  std::string live =
      text.divides(product.m, s.m) ? "" : fmt::format("local < {}", text.size(product.m));
  if (!live.empty()) lines.push_back(fmt::format("const bool live = {};", live));
  if (!live.empty()) mapping.live_row = "live";
  text.rows_from("local", lines);
  mapping.leader = "first_column + Tile::column_of(pass, 0) == 0";
  const std::string k = mapping.loop.unrolled() ? "k" : "0";
  auto& columns = mapping.loop.lines;
  columns.push_back(fmt::format("const i32 column = first_column + Tile::column_of(pass, {});", k));
  std::string e = fmt::format("u32(column) / {}", s.epilogue.vector);
  if (!text.divides(product.n, s.n)) {
    if (!live.empty()) live += " && ";
    live += fmt::format("column < {}", text.size(product.n));
    columns.push_back(fmt::format("const bool live = {};", live));
    mapping.live_row = "live";
    e = "live ? " + e + " : 0";
  }
  columns.push_back(fmt::format("const u32 e = {};", e));
  text.split_columns(columns);
  for (std::size_t i = 0; i < text.analysis().instr_count(); ++i)
    if (text.is_product(i))
      mapping.gemm.products.push_back({i, "sums", "accumulators, shared, pass, " + k});
}

}  // namespace sinter::codegen
