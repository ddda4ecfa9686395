#include <fmt/format.h>
#include <fmt/ranges.h>

#include "codegen/families/gemm/gemm_text.h"
#include "codegen/families/gemm/warp_tile/warp_tile_schedule.h"

namespace sinter::codegen {

using ir::Dim;

namespace {

/// How the left operand is read, if not by rows: ", WindowRows<2, i32>".
std::string left_operand(const GemmText& text) {
  if (!text.product().windows) return "";
  const ConvWindows& windows = *text.product().windows;
  return fmt::format(", WindowRows<{}, {}>", windows.in.size(),
                     needs_wide(text.analysis(), Dim(2) * windows.elements) ? "i64" : "i32");
}

std::string sizes(GemmText& text, const ir::Shape& shape) {
  std::vector<std::string> all;
  for (const Dim& dim : shape) all.push_back(text.size(dim));
  return fmt::format("{{{}}}", fmt::join(all, ", "));
}

/// Where the windows of the tile's rows are.
void write_windows(GemmText& text) {
  const GemmProgram& product = text.product();
  const ConvWindows& w = *product.windows;
  text.line(fmt::format("operands.a = {};", text.start(product.a_buffer(), product.a)));
  text.line(fmt::format("operands.windows = {{{}, {}, {}, {},", text.size(w.channels),
                        text.size(w.pitch), sizes(text, w.in), sizes(text, w.out)));
  text.line(fmt::format("                    {{{}}}, {{{}}}, {{{}}}, {{{}}}}};",
                        fmt::join(w.kernel, ", "), fmt::join(w.strides, ", "),
                        fmt::join(w.dilations, ", "), fmt::join(w.pads, ", ")));
  text.line(fmt::format("operands.find_windows(first_row, {} - first_row);", text.size(product.m)));
}

}  // namespace

std::string WarpTile::header(const GemmProgram& product) const {
  return product.windows ? "implicit_gemm.cuh" : "warp_tile.cuh";
}

std::string WarpTile::type(const GemmText& text) const {
  const GemmSchedule& s = text.schedule();
  const GemmProgram& product = text.product();
  return fmt::format("WithAccumulators<WarpTile<{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}{}>>",
                     storage_name(product.type), s.m, s.n, s.k, warps_m, warps_n, warps_k, s.stages,
                     s.split_k, product.rows_are_k, s.vector_a, s.vector_b, left_operand(text));
}

void WarpTile::write_operands(GemmText& text) const {
  if (text.product().windows)
    write_windows(text);
  else
    text.write_strided_a();
  text.write_strided_b();
  text.write_rows();
  text.write_columns();
}

}  // namespace sinter::codegen
