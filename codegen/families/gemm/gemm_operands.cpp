// SPDX-License-Identifier: Apache-2.0
// Operands of a tile: addresses and strides, packed weights, or TMA descriptors.
#include <fmt/ranges.h>

#include "codegen/families/gemm/gemm_text.h"
#include "codegen/families/gemm/tma/tma_schedule.h"
#include "codegen/families/gemm/weights/weight_pack.h"

namespace sinter::codegen {

std::string GemmText::start(std::uint32_t buffer, const GemmOperand& operand) {
  std::string text = args_.buffer(buffer);
  if (operand.offset != Dim(0)) text += " + " + args_.dim(operand.offset);
  for (std::size_t b = 0; b < operand.batch_strides.size(); ++b)
    if (operand.batch_strides[b] != Dim(0))
      text += fmt::format(" + i64(b{}) * {}", b, args_.dim(operand.batch_strides[b]));
  return text;
}

std::string GemmText::start(std::uint32_t buffer, const GemmOperand& operand,
                            const std::string& along, bool strided) {
  const std::string text = start(buffer, operand);
  return strided ? fmt::format("{} + i64({}) * {}", text, along, args_.dim(operand.stride))
                 : fmt::format("{} + {}", text, along);
}

void GemmText::write_strided_a() {
  if (product_.gathered) {
    line(fmt::format("__shared__ i32 gathered[{}];", s_.m));
    line("operands.gathered = gathered;");
    line(fmt::format("operands.a = {};", start(product_.a_buffer(), product_.a)));
    line(fmt::format("operands.stride_a = {};", args_.dim(product_.a.stride)));
    return;
  }
  line(fmt::format("operands.a = {};", start(product_.a_buffer(), product_.a,
                                             product_.combined ? "own_row" : "first_row", true)));
  line(fmt::format("operands.stride_a = {};", args_.dim(product_.a.stride)));
}

void GemmText::write_strided_b() {
  line(fmt::format("operands.b = {};",
                   start(product_.b_buffer(), product_.b, column_of_b(), !product_.rows_are_k)));
  line(fmt::format("operands.stride_b = {};", args_.dim(product_.b.stride)));
  if (product_.parts_of_b() > 1)
    line(fmt::format(
        "operands.part_b = {};",
        args_.dim(product_.rows_are_k ? part_columns() : part_columns() * product_.b.stride)));
}

/// Behind the first copies of b, which do not depend on it.
void GemmText::begin_gathered() {
  line("Tile::begin<true>(shared, operands, [&] {");
  line(fmt::format("  const auto* const numbers = after_grid_wait({});",
                   args_.buffer(product_.gathered_buffer())));
  line(fmt::format("  for (i32 i = i32(threadIdx.x); i < {} && first_row + i < end_row; i += {})",
                   s_.m, s_.threads()));
  line(fmt::format("    gathered[i] = i32(wrap_index(numbers[first_row + i], {}));",
                   args_.dim(*product_.gathered)));
  line("  __syncthreads();");
  line("});");
}

std::string GemmText::column_of_b() const {
  return product_.interleaved ? fmt::format("first_column * {}", product_.parts) : "first_column";
}

std::string GemmText::reader_of_a() const {
  if (product_.gathered) return ", GatheredRows";
  if (!product_.windows) return "";
  const ConvWindows& windows = *product_.windows;
  return fmt::format(", WindowRows<{}, {}>", windows.in.size(),
                     needs_wide(analysis_, Dim(2) * windows.elements) ? "i64" : "i32");
}

void GemmText::write_rows_of_a() {
  if (product_.windows)
    write_windows();
  else
    write_strided_a();
}

/// Sets up the windows of the tile's rows.
void GemmText::write_windows() {
  const ConvWindows& w = *product_.windows;
  const auto sizes = [&](const Shape& shape) {
    std::vector<std::string> all;
    for (const Dim& dim : shape) all.push_back(size(dim));
    return fmt::format("{{{}}}", fmt::join(all, ", "));
  };
  line(fmt::format("operands.a = {};", start(product_.a_buffer(), product_.a)));
  line(fmt::format("operands.windows = {{{}, {}, {}, {},", size(w.channels), size(w.pitch),
                   sizes(w.in), sizes(w.out)));
  line(fmt::format("                    {{{}}}, {{{}}}, {{{}}}, {{{}}}}};",
                   fmt::join(w.kernel, ", "), fmt::join(w.strides, ", "),
                   fmt::join(w.dilations, ", "), fmt::join(w.pads, ", ")));
  line(fmt::format("operands.find_windows(first_row, {} - first_row);", size(product_.m)));
}

void GemmText::write_packed_b() {
  const GemmWeights& weights = *product_.weights;
  const std::int64_t k = product_.k.value(), depth = packed_depth(k);
  const std::int64_t stride = depth * kPackedColumns * weights.bits() / 8;
  // The matrices of groups are packed as one, side by side.
  if (product_.groups > 0)
    line(fmt::format("const i64 packed_column = i64(b0) * {} + {};", product_.n.value(),
                     column_of_b()));
  const std::string column = product_.groups > 0 ? "packed_column" : column_of_b();
  line(fmt::format("operands.b = {} + i64({} / {}) * {};", args_.buffer(product_.b_buffer()),
                   column, kPackedColumns, stride));
  line(fmt::format("operands.stride_b = {};", stride));
  if (product_.parts_of_b() > 1)
    line(fmt::format("operands.part_b = {};", part_columns().value() / kPackedColumns * stride));
  if (!weights.is_quantized()) return;
  const std::int64_t groups = packed_groups(weights.group(), k);
  line(fmt::format("operands.scales = {} + i64({}) * {};", args_.buffer(product_.scales_buffer()),
                   column, groups));
  if (weights.has_zeros())
    line(fmt::format("operands.zeros = {} + i64({}) * {};", args_.buffer(product_.zeros_buffer()),
                     column, groups));
  if (weights.has_factors()) {
    line(fmt::format("operands.factors = {} + {};", args_.buffer(product_.factors_buffer()),
                     column));
    if (product_.parts_of_b() > 1)
      line(fmt::format("operands.part_factors = {};", part_columns().value()));
  }
  line(fmt::format("operands.stride_scales = {};", groups * kPackedColumns));
  if (product_.parts_of_b() > 1)
    line(fmt::format("operands.part_scales = {};", part_columns().value() * groups));
}

void GemmText::write_rows() {
  line(product_.groups > 0 ? "operands.rows = end_row - first_row;"
                           : fmt::format("operands.rows = {} - first_row;", size(product_.m)));
}

void GemmText::write_columns() {
  const int parts = product_.parts_of_b();
  line(divides(part_columns(), part_tile() * s_.cluster_n)
           ? fmt::format("operands.columns = {};", s_.n / parts)
           : fmt::format("operands.columns = {} - {};",
                         size(*ir::divide_exactly(product_.n, Dim(parts))), column_of_b()));
}

std::string GemmText::mapped_row() const {
  if (product_.groups == 0) return "first_row";
  return fmt::format("of_group.has_matrix ? first_row : {}", size(product_.m));
}

void GemmText::write_mapped_a() {
  map("map_a", product_.a_buffer(), product_.a, product_.k, product_.m, s_.m, product_.batch);
  line("operands.a = &map_a;");
  line(fmt::format("operands.row = {};", mapped_row()));
}

std::vector<std::string> GemmText::block_scales() {
  if (!product_.blocks) return {};
  const std::int64_t blocks = product_.k.value() / product_.blocks->depth,
                     groups = ir::ceil_div(product_.n, product_.blocks->rows, {}).value();
  return {fmt::format("operands.scales.rows = {}, operands.scales.columns = {};",
                      args_.buffer(product_.row_scales_buffer()),
                      args_.buffer(product_.column_scales_buffer())),
          fmt::format("operands.scales.count = {}, operands.scales.blocks = {};", size(product_.m),
                      blocks),
          fmt::format("operands.scales.groups = {}, operands.scales.group = {};", groups,
                      product_.blocks->rows),
          fmt::format("operands.scales.first_row = first_row, operands.scales.first_column = {};",
                      column_of_b())};
}

std::vector<std::string> GemmText::mapped_operands() {
  const Shape batch = product_.mapped_batch();
  if (product_.windows)
    map_windows();
  else
    map("map_a", product_.a_buffer(), product_.a, product_.k, product_.m, s_.m, batch);
  if (product_.rows_are_k)
    map("map_b", product_.b_buffer(), product_.b, product_.n, product_.k, s_.k, batch);
  else
    map("map_b", product_.b_buffer(), product_.b, product_.k, product_.n,
        s_.n / product_.parts_of_b() / s_.multicast, batch);
  std::vector<std::string> lines = {"operands.a = &map_a;", "operands.b = &map_b;",
                                    fmt::format("operands.row = {};", mapped_row()),
                                    fmt::format("operands.column = {};", column_of_b())};
  if (product_.parts_of_b() > 1)
    lines.push_back(fmt::format("operands.part_b = {};", args_.dim(part_columns())));
  for (std::string& line : block_scales()) lines.push_back(std::move(line));
  if (product_.windows) {
    const ConvWindows& windows = *product_.windows;
    const Dim padded = padded_channels(windows, s_.k, analysis_.exprs().ranges());
    lines.push_back(fmt::format("operands.windows.channels = {}, operands.windows.padded = {};",
                                size(windows.channels), size(padded)));
    for (std::size_t d = 0; d < windows.in.size(); ++d)
      lines.push_back(
          fmt::format("operands.windows.out[{0}] = {1}, operands.windows.kernel[{0}] = {2}, "
                      "operands.windows.step[{0}] = {3}, operands.windows.dilation[{0}] = {4}, "
                      "operands.windows.pad[{0}] = {5};",
                      d, size(windows.out[d]), windows.kernel[d], windows.strides[d],
                      windows.dilations[d], windows.pads[d]));
    lines.push_back("operands.windows.find(first_row);");
  }
  for (std::size_t b = 0; b < product_.mapped_batch().size(); ++b) {
    const auto set_index = [&](const char* name, const GemmOperand& operand) {
      const bool shared = operand.batch_strides[b] == Dim(0);
      lines.push_back(
          fmt::format("operands.{}[{}] = {};", name, b, shared ? "0" : fmt::format("i32(b{})", b)));
    };
    set_index("batch_a", product_.a);
    set_index("batch_b", product_.b);
    if (product_.groups > 0)
      lines.push_back(
          fmt::format("if (!of_group.has_matrix) operands.batch_b[0] = {};", product_.groups));
  }
  return lines;
}

/// The im2col TMA descriptor: channels, pixels from the innermost dimension on, images.
void GemmText::map_windows() {
  ExprTable& exprs = analysis_.exprs();
  const ConvWindows& windows = *product_.windows;
  plan::fb::TensorMapT map;
  map.buffer = analysis_.program().buffers[product_.a_buffer()];
  map.offset = exprs.intern(product_.a.offset);
  map.extents.push_back(exprs.intern(windows.channels));
  map.box = {static_cast<std::uint32_t>(box_columns(product_.element_bytes())),
             static_cast<std::uint32_t>(s_.m)};
  Dim stride = windows.pitch;
  for (std::size_t d = windows.in.size(); d-- > 0;) {
    const WindowBounds bounds = window_bounds(windows, d);
    map.extents.push_back(exprs.intern(windows.in[d]));
    map.strides.push_back(exprs.intern(stride));
    map.lower.push_back(static_cast<std::int32_t>(bounds.lower));
    map.upper.push_back(static_cast<std::int32_t>(*bounds.upper));
    map.steps.push_back(static_cast<std::uint32_t>(windows.strides[d]));
    stride = stride * windows.in[d];
  }
  map.extents.push_back(exprs.intern(*ir::divide_exactly(windows.elements, stride)));
  map.strides.push_back(exprs.intern(stride));
  maps_.push_back({"map_a", std::move(map)});
}

void GemmText::map(const char* name, std::uint32_t buffer, const GemmOperand& operand,
                   const Dim& columns, const Dim& rows, int box_rows, const Shape& batch) {
  maps_.push_back(matrix_map(name,
                             {analysis_.program().buffers[buffer], operand.offset, columns, rows,
                              operand.stride, batch, operand.batch_strides},
                             box_rows, analysis_.exprs(), box_columns(product_.element_bytes())));
}

}  // namespace sinter::codegen
