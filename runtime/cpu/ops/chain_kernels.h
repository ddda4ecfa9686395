// SPDX-License-Identifier: Apache-2.0
// The kernels that a chain's links have.
#pragma once

#include <cstdint>

namespace sinter::runtime::cpu {

/// Which operands of a link are the previous link's result.
enum class ChainSide : std::uint8_t { kOnly, kLeft, kRight, kBoth };

/// Applies one operator to four vectors and calls the next link. The real signature depends on the
/// instruction set.
using ChainFunction = void (*)();

/// The kernels of one link: for an operand with a value per column, and for one with a single value
/// per row. Equal if the link has no other operand. A choice has two more, for its second operand
/// per row: with the first per column, and per row.
struct ChainKernels {
  ChainFunction columns = nullptr, row = nullptr;
  ChainFunction second_row = nullptr, rows = nullptr;
  bool divides = false;  // by the other operand
  bool tests = false;    // leaves flags, which only a choice takes
};

}  // namespace sinter::runtime::cpu
