// SPDX-License-Identifier: Apache-2.0
// Memory that a kernel's blocks meet through, cleared in front of it.
#pragma once

#include <cstdint>
#include <string>

#include "codegen/emit/kernel_request.h"
#include "codegen/plan/expr_table.h"

namespace sinter::codegen {

/// Adds the kernel that clears `words` of `buffer` to the text of `kernel`, as its first launch.
void clear_before(EmittedKernel& kernel, const std::string& name, std::uint32_t buffer,
                  const Dim& words, ExprTable& exprs);

}  // namespace sinter::codegen
