// SPDX-License-Identifier: Apache-2.0
// Reads the files that an operator's definition names; only from its own folder.
#pragma once

#include <string>
#include <string_view>

namespace sinter::frontend {

/// The content of the file `name`, which must be in the folder of the file `definition` or below
/// it, after following links. Throws Error(kUsage) for other locations and unreadable files.
std::string read_beside(const std::string& definition, const std::string& name);

/// Replaces the #include lines of CUDA text by the files' contents, because the compiler would
/// include files from anywhere. Names are relative to the folder of the file `definition`, also in
/// included files; "#pragma once" is respected. `label` names the text in errors. Throws
/// Error(kUsage) for other files, names from macros, and recursive includes.
std::string with_includes(std::string_view text, const std::string& definition,
                          const std::string& label);

}  // namespace sinter::frontend
