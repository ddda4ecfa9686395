// SPDX-License-Identifier: Apache-2.0
// Human-readable tables, sizes and times.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace sinter::tools {

using Rows = std::vector<std::vector<std::string>>;
/// Formats rows of cells as aligned columns; the first row is the heading. Numbers (cells that
/// start with a digit, a sign or a dot) are right-aligned. Each cell is one line (ir::shown).
/// `most`: maximum line width, to which cells of wide columns are shortened with "…", names in
/// their middle; 0: unlimited. A table of many columns may exceed it.
std::string format_table(Rows rows, std::size_t most = 0);

/// Formats bytes with decimal multiples: "1.5 MB".
std::string format_bytes(double bytes);
/// Formats microseconds: "12.3 us", "4.56 ms", "1.20 s".
std::string format_time(double microseconds);

}  // namespace sinter::tools
