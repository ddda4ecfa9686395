// SPDX-License-Identifier: Apache-2.0
// The files that a definition of operators names: those of its own folder, and no others.
#pragma once

#include <string>
#include <string_view>

namespace sinter::frontend {

/// The content of `name`, which lies in the folder of the file `definition` or below it. Throws
/// Error(kUsage) for another place, links followed, and for what cannot be read.
std::string read_beside(const std::string& definition, const std::string& name);

/// CUDA text with what it includes in place of its #include lines: the compiler would take files
/// from anywhere. Names are relative to the folder of the file `definition`, also in files that are
/// included; one of them with "#pragma once" comes once. `label` names the text in errors. Throws
/// Error(kUsage) for other files, names that macros make, and files that include each other.
std::string with_includes(std::string_view text, const std::string& definition,
                          const std::string& label);

}  // namespace sinter::frontend
