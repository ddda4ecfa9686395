// SPDX-License-Identifier: Apache-2.0
// What people who know TensorRT's command line type here.
#pragma once

#include <span>
#include <string>

namespace sinter::tools {

/// The Sinter command equivalent to `words`, if these contain options of trtexec; else empty.
std::string command_for_trtexec(std::span<const char* const> words);

}  // namespace sinter::tools
