// SPDX-License-Identifier: Apache-2.0
// Translates command lines of TensorRT's trtexec.
#pragma once

#include <span>
#include <string>

namespace sinter::tools {

/// The Sinter command equivalent to `words`, if these contain options of trtexec; else empty.
std::string command_for_trtexec(std::span<const char* const> words);

}  // namespace sinter::tools
