// SPDX-License-Identifier: Apache-2.0
#include "codegen/families/gemm/gemm_lowering.h"

#include <algorithm>

#include <fmt/format.h>
#include <sinter/error.h>

#include "codegen/families/gemm/gemm_graph.h"
#include "codegen/families/gemm/library_lowering.h"
#include "codegen/program/loop_lowering.h"
#include "codegen/program/region_space.h"
#include "ir/ops/product_types.h"

namespace sinter::codegen {
namespace {

/// Floats of 16 and 32 bits, and pairs multiplied in 8 bits: see ir/ops/product_types.h.
bool kernels_multiply(DType a, DType b) {
  if (a == DType::kFloat16 || a == DType::kBFloat16 || a == DType::kFloat32) return a == b;
  const auto sums = ir::product_type(a, b);
  return size_of(a) == 1 && sums && size_of(*sums) == 4;
}

/// True if the program reads the product only at its own loop index, or at the corresponding index
/// in each of `parts` equal parts of the columns, which may alternate.
bool reads_own_elements(const LoopProgramT& program, std::uint32_t product, int parts,
                        bool alternate, const ExprTable& exprs) {
  const std::size_t rank = program.extents.size();
  std::vector<Dim> dense(rank);
  Dim stride = alternate ? parts : 1;
  for (std::size_t d = rank; d-- > 0;) {
    if (!alternate && d + program.inner_dims + 1 == rank) stride *= Dim(parts);
    dense[d] = stride;
    stride *= exprs.dim(program.extents[d]);
  }
  Dim columns = 1;
  for (std::size_t d = rank - program.inner_dims; d < rank; ++d)
    columns *= exprs.dim(program.extents[d]);
  std::vector<bool> found(static_cast<std::size_t>(parts), false);
  for (const auto& access : program.accesses) {
    if (access->buffer != product) continue;
    if (!access->gathers.empty() || !access->nonaffine.empty() || !access->guards.empty())
      return false;
    int part = 0;
    const Dim apart = alternate ? Dim(1) : columns;
    while (part < parts && exprs.dim(access->offset) != apart * Dim(part)) ++part;
    if (part == parts || found[static_cast<std::size_t>(part)]) return false;
    found[static_cast<std::size_t>(part)] = true;
    for (std::size_t d = 0; d < rank; ++d)
      if (exprs.dim(program.extents[d]) != Dim(1) && exprs.dim(access->strides[d]) != dense[d])
        return false;
  }
  return std::ranges::find(found, true) != found.end();
}

/// A matmul of rows sorted by group. `operands` are the buffers of x, of the weights and what
/// belongs to them, and of the offsets. Returns the reason if no kernel accepts it.
std::string read_groups(const Graph& part, const Node& node, Buffers operands, GemmProgram& result,
                        std::vector<std::uint32_t>& groups) {
  const Shape &x = part.type(node.inputs[0]).shape, &w = part.type(node.inputs[1]).shape;
  const auto format = ir::ProductFormats(node.attrs).w;
  result.m = x[0];
  result.k = x[1];
  result.n = part.type(node.outputs[0]).shape[1];
  if (!result.n.is_constant() || !result.k.is_constant()) return "n and k must be constants";
  result.groups = w[0].value();
  result.rows_are_k = !format && node.attrs.get_int("transposed") == 0;
  result.row_step = Dim(1);
  result.a = {Dim(0), result.k, {Dim(0)}};
  result.b = {Dim(0), result.rows_are_k ? result.n : result.k, {result.n * result.k}};
  groups.push_back(operands.back());
  if (!format) return "";
  if (result.n.value() % kGroupColumns != 0)
    return fmt::format("quantized groups of {} columns, no multiple of {}", result.n.value(),
                       kGroupColumns);
  result.weights = {*format, false};
  if (format->depth >= result.k.value()) result.weights->format->depth = 0;
  if (format->zero || format->has_factors) groups.push_back(operands[3]);
  groups.push_back(operands[2]);
  return "";
}

/// Rows of a grouped matmul that `prologue` gathers from `made_of`: they are read where they lie.
/// Returns the reason if its kernels cannot.
std::string read_gathered(const Node& prologue, Buffers made_of, GemmProgram& result,
                          std::uint32_t& a, std::vector<std::uint32_t>& groups) {
  const Graph& body = *prologue.body;
  const Node& gather = body.nodes()[0];
  const auto operand = [&](std::size_t i) { return body.input_number(gather.inputs[i]); };
  if (body.nodes().size() != 1 || gather.op->name != "Gather" || !operand(0) || !operand(1))
    return "the left operand's rows are not gathered from memory";
  result.gathered = body.type(gather.inputs[0]).shape[0];
  a = made_of[*operand(0)];
  groups.insert(groups.begin(), made_of[*operand(1)]);
  return "";
}

/// A sum over the rows of each token behind a grouped matmul: a block of a cluster for each row.
/// Returns the reason if no kernel accepts it.
std::string read_combination(const Graph& body, const GemmBody& nodes, Buffers inputs,
                             const ir::CombinedRows& rows, GemmProgram& result,
                             std::vector<std::uint32_t>& groups) {
  if (nodes.prologue) return "rows are gathered and added up";
  if (result.is_eight_bit()) return "rows of 8 bits are not added up";
  constexpr std::int64_t kMostRows = 8;  // blocks of a cluster on every GPU with clusters
  if (rows.chosen > kMostRows)
    return fmt::format("{} rows of a token, more than a cluster has blocks", rows.chosen);
  const Graph& after = *nodes.epilogue->body;
  for (const ValueId value : {rows.shares, rows.rows_of}) {
    const auto own = after.input_number(value);
    const auto at = own ? body.input_number(root_of(body, nodes.epilogue->inputs[*own])) : own;
    if (!at) return "rows of tokens, or their shares, are not in memory";
    groups.insert(groups.begin(), inputs[*at]);
  }
  result.m = after.type(rows.rows_of).shape[0];
  result.combined = rows.chosen;
  result.rounded_shares = rows.rounded;
  result.result = DType::kFloat32;
  return "";
}

std::string print_operand(const GemmOperand& operand) {
  std::string text =
      fmt::format("[{} + {}", operand.offset.to_string(), operand.stride.to_string());
  for (const Dim& stride : operand.batch_strides) text += ", " + stride.to_string();
  return text + "]";
}

/// Reads strides and sizes from the library's form of the bare GEMM, whose result is dense. Returns
/// the reason if no kernel accepts them.
std::string read_operands(const plan::fb::MatmulStepT& bare, const ExprTable& exprs,
                          GemmProgram& result) {
  const Dim one = 1;
  const auto dim = [&](std::uint32_t expression) { return exprs.dim(expression); };
  result.m = dim(bare.m);
  result.n = dim(bare.n);
  result.k = dim(bare.k);
  const auto operand = [&](const plan::fb::MatrixT& matrix, std::uint32_t stride) {
    GemmOperand operand{dim(matrix.offset), dim(stride), {}};
    for (const std::uint32_t batch : matrix.batch_strides)
      operand.batch_strides.push_back(dim(batch));
    return operand;
  };
  if (dim(bare.a->col_stride) != one) return "k is not contiguous in the left operand";
  result.a = operand(*bare.a, bare.a->row_stride);
  result.rows_are_k = dim(bare.b->col_stride) == one;
  result.b = operand(*bare.b, result.rows_are_k ? bare.b->row_stride : bare.b->col_stride);
  if (dim(bare.d->col_stride) != one || dim(bare.d->offset) != Dim(0))
    return "the columns of the product are not one dimension";
  const auto rows_of = [&](std::uint32_t stride) {
    return ir::divide_exactly(dim(stride), result.n);
  };
  const auto step = result.m == one ? std::optional(one) : rows_of(bare.d->row_stride);
  if (!step) return "the product's rows are not dense";
  result.row_step = *step;
  for (std::size_t i = 0; i < bare.batch.size(); ++i) {
    const auto rows = rows_of(bare.d->batch_strides[i]);
    if (!rows) return "the product's columns are a part of its last dimension";
    result.batch.push_back(dim(bare.batch[i]));
    result.batch_rows.push_back(*rows);
  }
  return "";
}

/// Scaled weights: their buffers of zero points or factors, and of scales.
std::vector<std::uint32_t> read_weights(const plan::fb::QuantizationT& quantization,
                                        ir::ScaleFormat format, GemmProgram& result) {
  if (format.depth >= result.k.value()) format.depth = 0;
  std::vector<std::uint32_t> buffers;
  if (format.zero) buffers.push_back(static_cast<std::uint32_t>(quantization.zero_points));
  if (format.has_factors) buffers.push_back(static_cast<std::uint32_t>(quantization.factors));
  buffers.push_back(quantization.scales);
  result.rows_are_k = false;
  result.weights = {format, false};
  return buffers;
}

/// The windows of a channels-last convolution, and its weights [outputs, taps * channels] as the
/// right operand; groups become a batch. Returns the reason if no kernel accepts it.
std::string read_windows(const Graph& conv_body, const Node& conv, GemmProgram& result) {
  if (conv.attrs.get_int("channels_last") != 1) return "the channels are not the last dimension";
  const Shape &x = conv_body.type(conv.inputs[0]).shape, &w = conv_body.type(conv.inputs[1]).shape,
              &y = conv_body.type(conv.outputs[0]).shape;
  const std::int64_t group = conv.attrs.get_int("group");
  const Dim one = 1;
  ConvWindows windows;
  windows.channels = w.back();
  windows.pitch = x.back();
  windows.in.assign(x.begin() + 1, x.end() - 1);
  windows.out.assign(y.begin() + 1, y.end() - 1);
  for (std::size_t d = 1; d + 1 < w.size(); ++d) windows.kernel.push_back(w[d].value());
  windows.strides = conv.attrs.get_ints("strides");
  windows.dilations = conv.attrs.get_ints("dilations");
  windows.pads = conv.attrs.get_ints("pads_begin");
  windows.elements = ir::element_count(x);
  result.k = w.back();
  for (const std::int64_t taps : windows.kernel) result.k *= Dim(taps);
  result.m = y[0];
  for (const Dim& out : windows.out) result.m *= out;
  result.n = *ir::divide_exactly(w[0], Dim(group));
  result.a = {Dim(0), windows.pitch, {}};
  result.b = {Dim(0), result.k, {}};
  result.rows_are_k = false;
  result.row_step = Dim(group);
  if (group > 1) {
    result.batch = {Dim(group)};
    result.batch_rows = {one};
    result.a.batch_strides = {windows.channels};
    result.b.batch_strides = {result.n * result.k};
  }
  result.windows = std::move(windows);
  return "";
}

}  // namespace

WindowBounds window_bounds(const ConvWindows& windows, std::size_t d) {
  const std::int64_t lower = -windows.pads[d];
  const Dim last = (windows.out[d] - Dim(1)) * Dim(windows.strides[d]) + Dim(lower);
  const Dim upper = last - (windows.in[d] - Dim(1));
  return {lower, upper.is_constant() ? std::optional(upper.value()) : std::nullopt};
}

namespace {

std::string print_windows(const ConvWindows& windows) {
  std::string text =
      fmt::format(" windows {} of {}", windows.channels.to_string(), windows.pitch.to_string());
  for (std::size_t d = 0; d < windows.in.size(); ++d)
    text += fmt::format(" [{} -> {} kernel {} stride {} dilation {} pad {}]",
                        windows.in[d].to_string(), windows.out[d].to_string(), windows.kernel[d],
                        windows.strides[d], windows.dilations[d], windows.pads[d]);
  return text;
}

/// Lowers the nodes after a GEMM of shape `space`. Results have as many elements, or half if they
/// combine both halves of the columns. False for any other access to the product.
bool lower_after(const Graph& after, Buffers inputs, Buffers outputs, Shape space, ExprTable& exprs,
                 GemmProgram& result) {
  const Dim count = ir::element_count(after.type(after.outputs()[0]).shape);
  const auto half = ir::divide_exactly(space.back(), Dim(2));
  if (space.back().is_constant() && half && count * Dim(2) == ir::element_count(space)) {
    result.parts = 2;
    space.back() = *half;
  }
  std::vector<bool> inner(space.size(), false);
  inner.back() = true;
  result.program = lower_region_over(after, inputs, outputs, exprs, space, inner);
  const auto& buffers = result.program.buffers;
  result.product =
      static_cast<std::uint32_t>(std::ranges::find(buffers, kAccumulatorBuffer) - buffers.begin());
  const auto reads = [&](bool alternate) {
    return reads_own_elements(result.program, result.product, result.parts, alternate, exprs);
  };
  if (reads(false)) return true;
  result.interleaved = result.parts > 1 && reads(true);
  return result.interleaved;
}

/// Replaces the strides of the only store to kPrologueBuffer, which are those of dense rows of `k`
/// elements. False if it does not store whole rows in order.
bool set_row_stride(LoopProgramT& program, const Dim& k, std::int64_t stride, ExprTable& exprs) {
  const std::size_t rank = program.extents.size(), outer = rank - program.inner_dims;
  Dim columns = 1;
  for (std::size_t d = outer; d < rank; ++d) columns *= exprs.dim(program.extents[d]);
  if (columns != k) return false;
  bool found = false;
  for (const auto& access : program.accesses) {
    if (program.buffers[access->buffer] != kPrologueBuffer) continue;
    if (found || exprs.dim(access->offset) != Dim(0) || !access->gathers.empty() ||
        !access->nonaffine.empty() || !access->guards.empty())
      return false;
    found = true;
    Dim dense = 1;
    for (std::size_t d = rank; d-- > 0;) {
      const Dim extent = exprs.dim(program.extents[d]);  // a copy: intern() invalidates references
      if (extent != Dim(1) && exprs.dim(access->strides[d]) != dense) return false;
      if (d < outer) access->strides[d] = exprs.intern(*ir::divide_exactly(dense, k) * Dim(stride));
      dense *= extent;
    }
  }
  return found;
}

/// Adds a prologue that computes the left operand's rows. Returns the reason if blocks cannot run
/// it.
std::string add_prologue(const Node& node, Buffers reads, ExprTable& exprs, GemmProgram& result) {
  const Dim one = 1;
  if (!result.batch.empty() || result.a.offset != Dim(0) ||
      (result.m != one && result.a.stride != result.k) || !result.k.is_constant())
    return "the left operand is not the rows as they are made";
  const auto most = ir::upper_bound(result.m, exprs.ranges());
  if (!most) return "the number of rows is not known";
  GemmPrologue prologue;
  prologue.most = *most;
  prologue.stride = (result.k.value() + kRowDepth - 1) / kRowDepth * kRowDepth + 8;
  const std::uint32_t writes[] = {kPrologueBuffer};
  prologue.program = lower_region(*node.body, reads, writes, exprs);
  if (!set_row_stride(prologue.program, result.k, prologue.stride, exprs))
    return "the left operand's rows are not made one by one";
  auto& own = prologue.program.buffers;
  // The stored buffer must be the last.
  const auto at = static_cast<std::uint32_t>(std::ranges::find(own, kPrologueBuffer) - own.begin());
  const auto last = static_cast<std::uint32_t>(own.size() - 1);
  std::swap(own[at], own[last]);
  for (const auto& access : prologue.program.accesses)
    access->buffer = access->buffer == at ? last : access->buffer == last ? at : access->buffer;
  auto& buffers = result.program.buffers;
  prologue.first = static_cast<std::uint32_t>(buffers.size());
  buffers.insert(buffers.end(), own.begin(), own.end() - 1);
  result.prologue = std::move(prologue);
  return "";
}

}  // namespace

namespace {

std::string print_types(const GemmProgram& product) {
  if (product.type == product.b_type) return std::string(to_string(product.type));
  return fmt::format("{} by {}", to_string(product.type), to_string(product.b_type));
}

}  // namespace

std::string print_gemm(const GemmProgram& product, const ExprTable& exprs) {
  const auto print_local = [&](LoopProgramT local) {
    for (std::uint32_t b = 0; b < local.buffers.size(); ++b) local.buffers[b] = b;
    return print_loop_program(local, exprs);
  };
  std::string text =
      fmt::format("product {} {}x{}x{} a {} b {} {} rows {} buffer {}", print_types(product),
                  product.m.to_string(), product.n.to_string(), product.k.to_string(),
                  print_operand(product.a), print_operand(product.b),
                  product.rows_are_k ? "kn" : "nk", product.row_step.to_string(), product.product);
  for (std::size_t i = 0; i < product.batch.size(); ++i)
    text += fmt::format(" batch {} * {}", product.batch[i].to_string(),
                        product.batch_rows[i].to_string());
  if (product.groups > 0)
    text += fmt::format(" {} {}", product.b_is_weight ? "known groups" : "groups", product.groups);
  if (product.gathered) text += fmt::format(" gathered from {}", product.gathered->to_string());
  if (product.combined)
    text += fmt::format(" of {} rows of a token{}", *product.combined,
                        product.rounded_shares ? " times rounded shares" : "");
  if (product.windows) text += print_windows(*product.windows);
  if (product.by_warpgroups) text += " by warpgroups";
  if (product.fast_accumulation) text += " accumulated fast";
  if (product.tf32) text += " rounded to tf32";
  if (product.parts > 1)
    text += fmt::format(" in {}{} parts", product.parts, product.interleaved ? " alternating" : "");
  if (product.weights)
    text += fmt::format(" weights of {} bits{} group {}{}", product.weights->bits(),
                        product.weights->are_floats() ? " (floats)" : "", product.weights->group(),
                        product.weights->has_factors()        ? " factors"
                        : !product.weights->has_zeros()       ? ""
                        : product.weights->zeros_of_four_bits ? " zeros of 4 bits"
                                                              : " zeros");
  if (product.blocks)
    text +=
        fmt::format(" scales of blocks of {} by {}", product.blocks->depth, product.blocks->rows);
  text += "\n" + print_local(product.program);
  if (product.prologue)
    text += fmt::format("rows from buffer {}\n", product.prologue->first) +
            print_local(product.prologue->program);
  return text;
}

std::optional<GemmProgram> lower_gemm(const Graph& body, bool with_epilogue,
                                      std::optional<std::uint32_t> prologue_rows, Buffers inputs,
                                      Buffers outputs, ExprTable& exprs, std::string& refusal) {
  const GemmBody nodes = gemm_body(body);
  const Graph& part = *nodes.matmul->body;
  const Node& node = gemm_node(part);
  const TensorType& type = part.type(node.outputs[0]);
  GemmProgram result;
  result.type = part.type(node.inputs[0]).dtype;
  const bool is_scaled =
      node.op->name != "Conv" && ir::ProductFormats(node.attrs).w && !ir::has_scaled_operands(node);
  // Packed weights are converted to x's type.
  result.b_type = is_scaled ? result.type : part.type(node.inputs[1]).dtype;
  result.result = type.dtype;
  if (!kernels_multiply(result.type, result.b_type)) {
    refusal = fmt::format("GEMM kernels do not multiply {}", print_types(result));
    return std::nullopt;
  }
  if (result.type == DType::kFloat32 && is_scaled) {
    refusal = "float32 meets no quantized weights";
    return std::nullopt;
  }
  if (is_scaled && ir::ProductFormats(node.attrs).w->offset) {
    refusal = "GEMM kernels add no offsets to quantized weights";
    return std::nullopt;
  }
  const auto buffer_of = [&](ValueId input) {
    if (nodes.prologue && root_of(body, input) == nodes.prologue->outputs[0])
      return prologue_rows.value_or(kPrologueBuffer);
    const auto at = body.input_number(input);
    if (!at) throw Error(ErrorCode::kInternal, "a product's operand is no input of its region");
    return inputs[*at];
  };
  try {
    std::vector<std::uint32_t> reads;
    for (const ValueId input : nodes.matmul->inputs) reads.push_back(buffer_of(input));
    std::uint32_t a = 0, b = 0;
    std::vector<std::uint32_t> groups;  // scales and zero points
    Shape space = type.shape;
    if (nodes.is_conv) {
      refusal = read_windows(part, node, result);
      const auto operand = [&](std::size_t i) {
        const auto at = part.input_number(node.inputs[i]);
        if (!at)
          throw Error(ErrorCode::kInternal, "a convolution's operand is no input of its region");
        return reads[*at];
      };
      a = operand(0);
      b = operand(1);
      if (!result.batch.empty()) {
        space.back() = result.batch[0];
        space.push_back(result.n);
      }
    } else if (node.op->name == "GroupedMatMul") {
      std::vector<std::uint32_t> operands;
      for (const ValueId input : node.inputs) operands.push_back(reads[*part.input_number(input)]);
      refusal = read_groups(part, node, operands, result, groups);
      a = operands[0];
      b = operands[1];
    } else {
      const ir::ProductFormats formats(node.attrs);
      const std::uint32_t nowhere[] = {kAccumulatorBuffer};
      const auto library = lower_matmul(bare_product(part), reads, nowhere, exprs, false);
      refusal = read_operands(library, exprs, result);
      a = library.a->buffer;
      b = library.b->buffer;
      if (library.quantization) groups = read_weights(*library.quantization, *formats.w, result);
      if (ir::has_scaled_operands(node)) {
        result.blocks = formats.w;
        for (const std::size_t i : {2, 3}) {
          const auto at = part.input_number(node.inputs[i]);
          if (!at) refusal = "scales of blocks are read through views";
          if (at) groups.push_back(reads[*at]);
        }
        if (!result.batch.empty()) refusal = "scales of blocks of a batch of products";
      }
    }
    if (!refusal.empty()) return std::nullopt;

    const auto combined = with_epilogue ? combined_rows(body, nodes) : std::nullopt;
    if (combined) {
      refusal = read_combination(body, nodes, inputs, *combined, result, groups);
      if (!refusal.empty()) return std::nullopt;
      space = {result.m, result.n};
    }
    const Graph after = combined ? inline_combination(body, nodes, *combined)
                                 : inline_product(body, nodes, with_epilogue, {});
    std::vector<std::uint32_t> after_inputs = {kAccumulatorBuffer};
    after_inputs.insert(after_inputs.end(), inputs.begin(), inputs.end());
    if (!lower_after(after, after_inputs, outputs, std::move(space), exprs, result)) {
      refusal = "what follows the product reads other elements than the one at hand";
      return std::nullopt;
    }
    auto& buffers = result.program.buffers;
    if (a == kPrologueBuffer) {
      std::vector<std::uint32_t> made_of;
      for (const ValueId input : nodes.prologue->inputs) made_of.push_back(buffer_of(input));
      if (result.groups > 0)
        refusal = read_gathered(*nodes.prologue, made_of, result, a, groups);
      else
        refusal = add_prologue(*nodes.prologue, made_of, exprs, result);
      if (!refusal.empty()) return std::nullopt;
      if (result.prologue) a = buffers[result.prologue->first];  // any valid buffer
    }
    buffers.insert(buffers.end(), groups.begin(), groups.end());
    buffers.push_back(a);
    buffers.push_back(b);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnsupported) throw;
    refusal = error.what();
    return std::nullopt;
  }
  if (result.n == Dim(1)) {
    refusal = "the product has one column";
    return std::nullopt;
  }
  return result;
}

}  // namespace sinter::codegen
