// SPDX-License-Identifier: Apache-2.0
// Names of answers.
#pragma once

#include <string>
#include <string_view>

namespace sinter::tools {

/// `prefix` and a number that no other answer has.
std::string new_id(std::string_view prefix);

}  // namespace sinter::tools
