// SPDX-License-Identifier: Apache-2.0
// How much of a plan's weights a run reads.
#pragma once

#include <cstdint>

#include <sinter/compiler.h>

namespace sinter::tools {

/// Bytes of the weights that a run with these inputs reads: each once, of tables the rows.
std::uint64_t weight_bytes_read(const Plan& plan, const Shapes& shapes);

}  // namespace sinter::tools
