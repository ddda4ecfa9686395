// SPDX-License-Identifier: Apache-2.0
// What people who know TensorRT's command line type here.
#pragma once

#include <span>
#include <string>

namespace sinter::tools {

/// The command of Sinter that does what `words`, with options of trtexec among them, ask for; empty
/// if there are none.
std::string command_for_trtexec(std::span<const char* const> words);

}  // namespace sinter::tools
