// SPDX-License-Identifier: Apache-2.0
// Text around the bodies of kernels.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/plan/expr_table.h"
#include "codegen/targets/compile_kernels.h"

namespace sinter::codegen {

/// Sanitizes a name of the model so that it cannot end the comment.
std::string comment_text(std::string_view text);
/// "// name", and a line for each origin.
std::string kernel_heading(const std::string& name, const std::vector<std::string>& origins);
/// "seq % 8 == 0, seq <= 512".
std::string conditions_text(std::span<const Condition> conditions, const ExprTable& exprs);
/// "name(const f16* __restrict__ x0,\n     ...)", broken at 100 columns.
std::string signature_text(const std::string& name, const std::vector<std::string>& parameters);

/// An integer as a C++ literal of type int, or long long where it needs one; negative ones are in
/// parentheses.
std::string int_literal(std::int64_t value);

}  // namespace sinter::codegen
