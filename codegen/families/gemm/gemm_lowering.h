// Matrix products with what follows them: for a kernel of our own and for a library.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "codegen/plan/expr_table.h"
#include "codegen/program/describe.h"

namespace sinter::codegen {

/// An operand of a product: element (row, k) or (k, column) of batch (i, j, ..) is at
/// offset + row * stride + k + sum batch_strides * batch index, in elements; or for a right operand
/// whose rows are k at offset + k * stride + column + ...
struct GemmOperand {
  Dim offset, stride;
  std::vector<Dim> batch_strides;
};

/// The left operand of a convolution: the windows of a channels-last tensor of `positions`. Row
/// (image, out...) and column (tap..., channel) of the product are element
///   sum (out * stride + tap * dilation - pad) * (the positions behind) * pitch + channel
/// of the image, and zero where some position lies outside.
struct ConvWindows {
  Dim channels;  // that a window reads of each position
  Dim pitch;     // elements from one position to the next
  Shape in, out;
  std::vector<std::int64_t> kernel, strides, dilations, pads;
  Dim elements;  // of the whole tensor
};

/// Where windows begin along dimension `d`: from pixel `lower` to the last one + `upper`, which is
/// nothing where it depends on sizes that are not known.
struct WindowBounds {
  std::int64_t lower = 0;
  std::optional<std::int64_t> upper;
};
WindowBounds window_bounds(const ConvWindows& windows, std::size_t d);

/// Weights as the right operand that codegen/families/gemm/weights/weight_pack.h packs for a
/// kernel; until then they are as the graph has them. Those of few bits have buffers of scales, and
/// of zero points if there are any, in front of a and b.
struct GemmWeights {
  int bits = 8;            // 16: elements of x's type, with none of what follows
  std::int64_t group = 0;  // neighbouring k's that share a scale; 0: all
  bool zeros = false;
  DType scales = DType::kFloat32;   // their type once packed
  bool floats = false;              // of 8 bits: f8e4m3fn, else integers
  bool zeros_of_four_bits = false;  // all are integers of -8 .. 7: known once packed

  bool is_quantized() const { return bits < 16; }
};

/// Scales of both operands, of f32: of rows [m, k / depth] and of groups of columns
/// [ceil(n / columns), k / depth]. Their buffers are in front of a and b.
struct GemmBlocks {
  std::int64_t depth = 0;    // of k, that share a scale
  std::int64_t columns = 0;  // the same of b's
};

/// What each block computes of the left operand for itself: all of its rows, into its shared
/// memory.
struct GemmPrologue {
  /// Its last buffer is no memory (kPrologueBuffer): row r, element k is stored there at r * stride
  /// + k.
  LoopProgramT program;
  std::int64_t stride = 0;
  std::int64_t most = 0;      // rows
  std::uint32_t first = 0;    // position in GemmProgram::program.buffers of its other buffers
  std::vector<bool> weights;  // which of these no step writes, where that is known
};

/// A product of a[m, k] and b[k, n], batched, and a loop program over its elements that reads it as
/// buffer number `product`, which is no memory. The row loops of the program count m and the batch,
/// its element loops n; row m of batch (i, j, ..) is the program's row
/// m * row_step + sum batch_rows * batch index.
struct GemmProgram {
  /// Its last buffers are a and b, weights' scales in front, in front of these what rows are made
  /// of.
  LoopProgramT program;
  std::uint32_t product = 0;                    // position in program.buffers
  DType type = DType::kFloat16, b_type = type;  // of a and of b
  DType result = DType::kFloat16;  // of the product's value in the graph: of 8 bits the sums' type
  Dim m, n, k;
  std::vector<Dim> batch;
  GemmOperand a, b;
  std::optional<ConvWindows> windows;  // how a is read instead of by its stride
  std::optional<GemmPrologue> rows;    // what makes a, which is then no memory
  /// Equal parts of n, side by side, of which the program reads one column of each at a time (a
  /// gate and what it opens): its element loops then count n / parts.
  int parts = 1;
  std::optional<GemmWeights> weights;  // if b is packed
  std::optional<GemmBlocks> blocks;    // if scales change along k
  bool rows_are_k = true;              // b[k][n] with n contiguous; else b[n][k]
  bool by_warpgroups = false;          // by warpgroups (sm_90 alone), else by warps
  bool fast_accumulation = false;      // sums of 8-bit floats are not promoted to float32
  bool b_is_weight = false;  // no step writes b: it may be read before the step in front has ended
  Dim row_step;
  std::vector<Dim> batch_rows;

  /// Operands of 8 bits: their products are integers, or 8-bit floats; or x's beside weights of 4.
  bool is_eight_bit() const { return size_of(type) == 1; }
  bool is_float8() const { return is_eight_bit() && is_float(type); }
  int element_bytes() const { return static_cast<int>(size_of(type)); }  // of a and of b

  std::uint32_t a_buffer() const { return static_cast<std::uint32_t>(program.buffers.size() - 2); }
  std::uint32_t b_buffer() const { return static_cast<std::uint32_t>(program.buffers.size() - 1); }
  std::uint32_t first_operand() const {
    if (!weights || !weights->is_quantized()) return a_buffer();
    return weights->zeros ? zeros_buffer() : scales_buffer();
  }
  std::uint32_t scales_buffer() const { return a_buffer() - 1; }
  std::uint32_t zeros_buffer() const { return a_buffer() - 2; }
  std::uint32_t row_scales_buffer() const { return a_buffer() - 2; }
  std::uint32_t column_scales_buffer() const { return a_buffer() - 1; }
};

/// Everything about the product, its program and its rows' but the plan's buffers, for sharing
/// kernels.
std::string print_gemm(const GemmProgram& product, const ExprTable& exprs);

/// Numbers of buffers that a GemmProgram uses for its product, and for rows that it computes.
inline constexpr std::uint32_t kAccumulatorBuffer = 0xffffffffu, kPrologueBuffer = 0xfffffffeu;

/// Rows that blocks compute lie apart by a multiple of this, and 16 bytes: what follows a row's
/// last element up to there is zero.
inline constexpr std::int64_t kRowDepth = 1024;

/// The product with everything that follows it in `body`, or with what its matmul holds alone
/// (`with_epilogue` false: `outputs` is then the one buffer of the matmul's result).
/// `prologue_rows`: the buffer of the left operand's rows where another kernel makes them; else
/// this one does. Nothing, with the reason in `refusal`, where no such kernel can be made.
std::optional<GemmProgram> lower_gemm(const Graph& body, bool with_epilogue,
                                      std::optional<std::uint32_t> prologue_rows, Buffers inputs,
                                      Buffers outputs, ExprTable& exprs, std::string& refusal);

}  // namespace sinter::codegen
