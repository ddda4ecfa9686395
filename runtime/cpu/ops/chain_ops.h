// SPDX-License-Identifier: Apache-2.0
// Chains: sequences of operators whose results stay in registers, as float32 or int32. Chains can
// also start and end with 8-bit integers.
#pragma once

#include <cstdint>
#include <span>

#include <sinter/dtype.h>

#include "runtime/cpu/ops/chain_kernels.h"
#include "runtime/cpu/ops/kernel_types.h"

namespace sinter::runtime::cpu {

/// Returns null functions if chains do not support the operator with operands and a result of
/// `type`. `small`: the operand lies in [-1, 1].
ChainKernels find_chain_kernels(ScalarOp op, DType type, ChainSide side, bool small);
/// The same for a Cast. Chains hold i8 and u8 values as int32.
ChainKernels find_chain_cast(DType from, DType to);

/// A comparison of float32 with the other operand.
ChainKernels find_chain_test(ScalarOp op, ChainSide side);
/// A choice between two operands of 32 bits by the flags that a test leaves.
ChainKernels find_chain_choice();

/// An int32 minus another, as float32, times a factor: both others have one value per row.
ChainKernels find_chain_dequantize();
/// Round, Add of the other operand, and Cast to i8 or u8.
ChainKernels find_chain_quantize(DType to);

/// An int32 minus another, as float32: what a Sub and a Cast do.
ChainKernels find_chain_difference();

/// A link and its other operands over a tile.
struct ChainLink {
  ChainKernels kernels;
  View other;
  View second = {};  // of a choice: taken where the flag is false; of a dequantization: the factor
};

/// Maximum number of links in a chain.
inline constexpr std::size_t kMaxChain = 16;

/// Applies the links in order to start (r, c) and stores result (r, c). Addressing and in-place
/// rules as in OpArgs.
struct ChainArgs {
  std::int64_t rows = 0, cols = 0;
  void* result = nullptr;
  std::int64_t result_stride = 0;
  View start;
  DType start_type = DType::kFloat32, result_type = DType::kFloat32;
  std::span<const ChainLink> links;
  bool past_cache = false;  // use non-temporal stores
};
void run_chain(const ChainArgs& args);

}  // namespace sinter::runtime::cpu
