// SPDX-License-Identifier: Apache-2.0
// Chains: operators one after the other, whose results stay in registers, as float32 or int32.
// Chains begin and end with integers of 8 bits as well.
#pragma once

#include <cstdint>
#include <span>

#include <sinter/dtype.h>

#include "runtime/cpu/ops/kernel_types.h"

namespace sinter::runtime::cpu {

/// Which operand of a link is the result of the link before it.
enum class ChainSide : std::uint8_t { kOnly, kLeft, kRight, kBoth };

/// Applies one operator to four vectors and goes on to the next link; opaque, by instruction set.
using ChainFunction = void (*)();

/// The kernels of one link: where the other operand is a value per column, and where it is one for
/// the whole row. Both the same if there is none.
struct ChainKernels {
  ChainFunction columns = nullptr, row = nullptr;
  bool divides = false;  // by the other operand
};

/// Null functions if a chain cannot hold the operator on operands, and with a result, of `type`.
/// `small`: the operand lies in [-1, 1].
ChainKernels find_chain_kernels(ScalarOp op, DType type, ChainSide side, bool small);
/// The same of a Cast. What a chain holds of i8 and u8 are int32 of their values.
ChainKernels find_chain_cast(DType from, DType to);

/// A link with its other operand over a tile.
struct ChainLink {
  ChainKernels kernels;
  View other;
};

/// Most links of a chain.
inline constexpr std::size_t kMaxChain = 16;

/// Result (r, c) = the last link of .. of the first link of start (r, c); as OpArgs says of places.
struct ChainArgs {
  std::int64_t rows = 0, cols = 0;
  void* result = nullptr;
  std::int64_t result_stride = 0;
  View start;
  DType start_type = DType::kFloat32, result_type = DType::kFloat32;
  std::span<const ChainLink> links;
  bool past_cache = false;  // results go to memory without being read into the caches first
};
void run_chain(const ChainArgs& args);

}  // namespace sinter::runtime::cpu
