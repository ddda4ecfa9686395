// SPDX-License-Identifier: Apache-2.0
// The thread mapping of the epilogue: which elements of the tile a thread processes.
#include "codegen/families/gemm/gemm_text.h"

namespace sinter::codegen {

void GemmText::rows_from(const std::string& row_of_matrix, std::vector<std::string>& lines) {
  const Dim count = analysis_.size_of_dims(mapping_.thread_dims);
  const bool wide = needs_wide(analysis_, count);
  const char* type = wide ? "u64" : "u32";
  std::string row = fmt::format("{}({})", type, row_of_matrix);
  if (product_.row_step != Dim(1))
    row += fmt::format(" * {}({})", type, args_.dim(product_.row_step));
  for (std::size_t b = 0; b < product_.batch.size(); ++b)
    row += fmt::format(" + {0}(b{1}) * {0}({2})", type, b, args_.dim(product_.batch_rows[b]));
  lines.push_back(mapping_.live_row.empty()
                      ? fmt::format("const {} row = {};", type, row)
                      : fmt::format("const {} row = {} ? {} : 0;", type, mapping_.live_row, row));
  if (mapping_.thread_dims != 0)
    split_index(analysis_, args_, mapping_.thread_dims, "row", wide, mapping_, lines);
}

void GemmText::split_columns(std::vector<std::string>& lines) {
  split_index(analysis_, args_, mapping_.loop_dims, "e", false, mapping_, lines);
}

bool GemmText::is_product(std::size_t i) const {
  const auto& instr = analysis_.instr(i);
  return instr.kind == InstrKind::Load && analysis_.access(instr.access).buffer == product_.product;
}

void GemmText::map_rows() {
  auto& lines = mapping_.passes.lines;
  const int at_once = s_.rows_at_once(), passes = s_.passes();
  if (passes > 1)
    mapping_.passes.header = fmt::format("for (int pass = 0; pass < {}; ++pass)", passes);
  std::string group = fmt::format("i32(threadIdx.x / {})", s_.lanes());
  std::string base;
  if (s_.split_k > 1) base = fmt::format("i32(rank % {})", s_.split_k);
  if (passes > 1) base = base.empty() ? "pass" : fmt::format("(pass * {} + {})", s_.split_k, base);
  lines.push_back(base.empty()
                      ? fmt::format("const i32 local = {};", group)
                      : fmt::format("const i32 local = {} * {} + {};", base, at_once, group));
  std::string live;
  const auto require = [&](const std::string& condition) {
    live += (live.empty() ? "" : " && ") + condition;
  };
  if (at_once * s_.lanes() != s_.threads()) require(fmt::format("{} < {}", group, at_once));
  if (passes * s_.split_k * at_once != s_.m) require(fmt::format("local < {}", s_.m));
  if (product_.groups > 0)
    require("first_row + local < end_row");
  else if (!divides(product_.m, s_.m))
    require(fmt::format("first_row + local < {}", size(product_.m)));
  if (live.empty()) {
    lines.push_back("const i32 at = local;");
  } else {
    // Threads without a row duplicate another's row for shuffles and barriers, and store nothing.
    lines.push_back(fmt::format("const bool live = {};", live));
    lines.push_back("const i32 at = live ? local : 0;");
    mapping_.live_row = "live";
  }
  rows_from("first_row + local", lines);
  mapping_.leader = "lane == 0 && first_column == 0";
}

void GemmText::map_columns() {
  const int vector = s_.epilogue.vector, vectors = part_tile() / vector;
  VectorLoop& loop = mapping_.loop;
  auto& lines = loop.lines;
  lines.push_back(loop.unrolled() ? fmt::format("const u32 slot = lane + k * {};", s_.lanes())
                                  : "const u32 slot = lane;");
  lines.push_back(fmt::format("const u32 e = u32(first_column) / {} + slot;", vector));
  if (s_.lanes() * s_.epilogue.unroll != vectors)
    loop.predicate = fmt::format("slot < {}", vectors);
  if (!divides(part_columns(), part_tile() * s_.cluster_n)) {
    const Dim count = count_vectors(analysis_, s_.epilogue, mapping_.loop_dims);
    loop.predicate +=
        fmt::format("{}e < u32({})", loop.predicate.empty() ? "" : " && ", args_.dim(count));
  }
  split_columns(lines);
  read_product();
}

std::int64_t GemmText::part_of(std::size_t load) const {
  const auto& access = analysis_.access(analysis_.instr(load).access);
  const std::int64_t offset = analysis_.exprs().constant(access.offset);
  return product_.interleaved ? offset : offset / part_columns().value();
}

/// The loads of the accumulators, one for each part.
void GemmText::read_product() {
  for (std::size_t i = 0; i < analysis_.instr_count(); ++i) {
    if (!is_product(i)) continue;
    const std::string slot = fmt::format("slot * {}", s_.epilogue.vector);
    std::string accumulators = "sums", offset = slot, which;
    if (product_.parts > 1) {
      const auto part = part_of(i);
      accumulators = fmt::format("sums{}", part);
      if (product_.interleaved)
        which = fmt::format(", Alternate<{}, {}>()", product_.parts, part);
      else
        offset = fmt::format("{} + {}", part * part_tile(), slot);
    }
    const std::string vector = fmt::format("shared, at, {}, rank{}", offset, which);
    mapping_.gemm.products.push_back(
        {i, fmt::format("Tile::sum({})", vector), accumulators, vector});
  }
}

void GemmText::map_reductions() {
  if (analysis_.stages() == 0) return;
  RowReduction& reduction = mapping_.reduction;
  if (s_.cluster_n == 1) {
    if (s_.lanes() > 1) reduction.reduce = "reduce_lanes";
    reduction.reduce_sizes = fmt::format(", {}", s_.lanes());
    return;
  }
  reduction.reduce = "reduce_tile_row";
  reduction.reduce_sizes = fmt::format(", {}, {}, {}", s_.lanes(), s_.cluster_n, s_.split_k);
  reduction.reduce_tail = ", rank";
  reduction.scratch = static_cast<std::size_t>(s_.rows_at_once());
  reduction.scratch_offset =
      static_cast<std::uint32_t>(s_.shared_bytes(problem_) + kScratchAlignment - 1) /
      kScratchAlignment * kScratchAlignment;
}

}  // namespace sinter::codegen
