// SPDX-License-Identifier: Apache-2.0
// Lowers GEMMs with their epilogues, for our kernels and for a library.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "codegen/plan/expr_table.h"
#include "codegen/program/describe.h"
#include "ir/scale_format.h"

namespace sinter::codegen {

/// An operand of a GEMM. Element (row, k) or (k, column) of batch (i, j, ..) is at offset + row *
/// stride + k + sum batch_strides * batch index, in elements. A K-major right operand has it at
/// offset + k * stride + column + ...
struct GemmOperand {
  Dim offset, stride;
  std::vector<Dim> batch_strides;
};

/// The left operand of an implicit GEMM: windows of a channels-last tensor of `positions`. Row
/// (image, out...) and column (tap..., channel) are element
///   sum (out * stride + tap * dilation - pad) * (inner positions) * pitch + channel
/// of the image, or zero if a position is outside.
struct ConvWindows {
  Dim channels;  // read at each position
  Dim pitch;     // stride between positions
  Shape in, out;
  std::vector<std::int64_t> kernel, strides, dilations, pads;
  Dim elements;  // of the tensor
};

/// Where windows begin along dimension `d`: from pixel `lower` to the last pixel + `upper`. `upper`
/// is empty if it depends on unknown sizes.
struct WindowBounds {
  std::int64_t lower = 0;
  std::optional<std::int64_t> upper;
};
WindowBounds window_bounds(const ConvWindows& windows, std::size_t d);

/// Weights as the right operand, packed for a kernel by
/// codegen/families/gemm/weights/weight_pack.h; before that, in the graph's layout. Scaled weights
/// have buffers of scales, and of zero points or factors if any, before a and b.
struct GemmWeights {
  std::optional<ir::ScaleFormat> format;  // none: elements of x's type; types once packed
  bool zeros_of_four_bits = false;        // all are in -8 .. 7: known once packed

  bool is_quantized() const { return format.has_value(); }
  bool has_zeros() const { return format && format->zero; }
  bool has_factors() const { return format && format->has_factors; }
  bool are_floats() const { return format && format->codes->is_float; }
  int bits() const { return format ? format->codes->bits : 16; }
  std::int64_t group() const { return format ? format->depth : 0; }
  DType scales() const { return format ? format->scale : DType::kFloat32; }
};

/// Prologue: each block computes all rows of the left operand into its shared memory.
struct GemmPrologue {
  /// Its last buffer has no memory (kPrologueBuffer): element k of row r is stored at r * stride +
  /// k.
  LoopProgramT program;
  std::int64_t stride = 0;
  std::int64_t most = 0;      // maximum rows
  std::uint32_t first = 0;    // index in GemmProgram::program.buffers of its first other buffer
  std::vector<bool> weights;  // which of these no step writes, if known
};

/// The batched GEMM a[m, k] b[k, n], and an epilogue: a loop program that reads its result as
/// buffer `product`, which has no memory. The program's row loops cover m and the batch, its
/// element loops n. Row m of batch (i, j, ..) is the program's row m * row_step + sum batch_rows *
/// batch index.
struct GemmProgram {
  /// Its last buffers are a and b, before them the weights' scales, before those the prologue's
  /// buffers.
  LoopProgramT program;
  std::uint32_t product = 0;                    // index in program.buffers
  DType type = DType::kFloat16, b_type = type;  // of a and of b
  DType result = DType::kFloat16;  // type of the GEMM's result in the graph; the accumulators' type
                                   // for 8 bits
  Dim m, n, k;
  std::vector<Dim> batch;
  GemmOperand a, b;
  std::optional<ConvWindows> windows;    // layout of a, instead of its stride
  std::optional<GemmPrologue> prologue;  // computes a, which then has no memory
  /// Equal, adjacent parts of n; the program reads the same column of each part at a time (gated
  /// units). Its element loops then cover n / parts.
  int parts = 1;
  bool interleaved = false;            // columns of the parts alternate instead
  std::optional<GemmWeights> weights;  // if b is packed
  /// Of b, if both operands have scales along k: their buffers, of rows [m, k / depth] and of
  /// column groups, precede a and b.
  std::optional<ir::ScaleFormat> blocks;
  /// Matrices of b, one for each group of rows; 0: one for all rows. Rows are sorted by group. A
  /// buffer of the groups' first rows precedes the other operands; rows outside of all groups are
  /// zero.
  std::int64_t groups = 0;
  /// Rows of what a is gathered from, by a buffer of rows' numbers that precedes the offsets.
  std::optional<Dim> gathered;
  /// Rows of a token, which are added up times shares: m counts tokens then. Buffers of the rows'
  /// numbers and of shares, [m, combined], precede the offsets; those are ready where these are.
  std::optional<std::int64_t> combined;
  std::optional<DType> rounded_shares;  // to it
  bool rows_are_k = true;               // b[k][n] with n contiguous; otherwise b[n][k]
  bool by_warpgroups = false;           // warpgroups (sm_90 only) instead of warps
  bool fast_accumulation = false;       // fp8 accumulators are not promoted to float32
  bool tf32 = false;                    // operands of float32 may be rounded to TF32
  /// No step writes b: it may be read before the preceding step ends. Of groups: a grouped GEMM in
  /// front, which waits before it lets others start, has the same offsets; these are there, too.
  bool b_is_weight = false;
  Dim row_step;
  std::vector<Dim> batch_rows;

  /// 8-bit operands: integers or fp8; also x in fp8 with 4-bit weights.
  bool is_eight_bit() const { return size_of(type) == 1; }
  bool is_float8() const { return is_eight_bit() && is_float(type); }
  /// float32 that is not rounded: CUDA cores multiply it, not tensor cores.
  bool is_exact_float() const { return type == DType::kFloat32 && !tf32; }
  /// Parts of b, each of which a tile has columns of.
  int parts_of_b() const { return interleaved ? 1 : parts; }
  int element_bytes() const { return static_cast<int>(size_of(type)); }  // of a and of b

  /// What TMA descriptors of both operands have besides rows and columns: the batch, or groups.
  std::vector<Dim> mapped_batch() const {
    return groups > 0 ? std::vector<Dim>{Dim(groups)} : batch;
  }

  std::uint32_t a_buffer() const { return static_cast<std::uint32_t>(program.buffers.size() - 2); }
  std::uint32_t b_buffer() const { return static_cast<std::uint32_t>(program.buffers.size() - 1); }
  std::uint32_t first_operand() const {
    if (!weights || !weights->is_quantized()) return a_buffer();
    return weights->has_zeros() || weights->has_factors() ? zeros_buffer() : scales_buffer();
  }
  std::uint32_t offsets_buffer() const { return first_operand() - 1; }  // of groups
  std::uint32_t gathered_buffer() const { return offsets_buffer() - 1; }
  std::uint32_t shares_buffer() const { return offsets_buffer() - 1; }
  std::uint32_t choices_buffer() const { return offsets_buffer() - 2; }  // rows of choices
  std::uint32_t scales_buffer() const { return a_buffer() - 1; }
  std::uint32_t zeros_buffer() const { return a_buffer() - 2; }
  std::uint32_t factors_buffer() const { return zeros_buffer(); }  // no weights have both
  std::uint32_t row_scales_buffer() const { return a_buffer() - 2; }
  std::uint32_t column_scales_buffer() const { return a_buffer() - 1; }
};

/// Everything about the GEMM, its epilogue and its prologue, except the plan's buffers; equal texts
/// share a kernel.
std::string print_gemm(const GemmProgram& product, const ExprTable& exprs);

/// Stand for the buffers of the accumulators and of prologue rows, which have no memory.
inline constexpr std::uint32_t kAccumulatorBuffer = 0xffffffffu, kPrologueBuffer = 0xfffffffeu;

/// Columns of quantized groups are a multiple of this: of units of packed weights.
inline constexpr std::int64_t kGroupColumns = 16;

/// The pitch of prologue rows is a multiple of this, plus 16 bytes; the padding is zero.
inline constexpr std::int64_t kRowDepth = 1024;

/// The GEMM with all that follows it in `body`, or without (`with_epilogue` false; `outputs` is
/// then the buffer of the matmul's result). `prologue_rows` is the buffer of the left operand's
/// rows if another kernel computes or gathers them; otherwise this kernel does. Nothing, with the
/// reason in `refusal`, if no such kernel is possible.
std::optional<GemmProgram> lower_gemm(const Graph& body, bool with_epilogue,
                                      std::optional<std::uint32_t> prologue_rows, Buffers inputs,
                                      Buffers outputs, ExprTable& exprs, std::string& refusal);

}  // namespace sinter::codegen
