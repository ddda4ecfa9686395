// SPDX-License-Identifier: Apache-2.0
// Parts of the command that bring large libraries, each a shared object of its own which is loaded
// when it is used. It has what it links, and takes the rest from the command: what SINTER_API marks
// there.
#pragma once

#include <string>

#include <sinter/export.h>

namespace sinter::tools {

/// What it is cast to says what it is.
using ModuleFunction = void (*)();

/// How a module is asked for: it lies in `folder`, relative to the command's, as
/// libsinter_`name`.so.
struct ModuleOfCommand {
  const char* name;
  const char* what;     // for an error: "gRPC"
  const char* package;  // that has it
};

/// What the module calls `symbol`, a ModuleFunction. Loads the module, for good; it also defines
/// sinter_module_version, of which the command takes its own alone. Throws Error(kDevice) if it is
/// not installed, cannot be loaded or is of another version.
ModuleFunction find_in_module(const ModuleOfCommand& module, const char* symbol);

}  // namespace sinter::tools
