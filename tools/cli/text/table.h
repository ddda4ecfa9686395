// SPDX-License-Identifier: Apache-2.0
// Tables, sizes and times for people.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace sinter::tools {

using Rows = std::vector<std::vector<std::string>>;
/// Rows of cells as aligned columns; the first row is the heading. Numbers (cells that start with a
/// digit, a sign or a dot) align right. Cells are one line each (ir::shown). `most`: characters of
/// a line, for which cells of wide columns are shortened with "…", names in their middle; 0: any. A
/// table of many columns may need more all the same.
std::string format_table(Rows rows, std::size_t most = 0);

/// "1.5 MB", with decimal multiples.
std::string format_bytes(double bytes);
/// "12.3 us", "4.56 ms", "1.20 s" from microseconds.
std::string format_time(double microseconds);

}  // namespace sinter::tools
