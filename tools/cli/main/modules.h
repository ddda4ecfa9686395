// SPDX-License-Identifier: Apache-2.0
// Parts of the command that bring large libraries, each a shared object of its own which is loaded
// when it is used. It has what it links, and takes the rest from the command: what SINTER_API marks
// there.
#pragma once

#include <string>

#include <sinter/export.h>

namespace sinter::tools {

/// Cast to the function's real type before the call.
using ModuleFunction = void (*)();

/// An optional module of the command: the shared library libsinter_`name`.so in `folder`, relative
/// to the command's folder.
struct ModuleOfCommand {
  const char* name;
  const char* what;     // human-readable name for errors: "gRPC"
  const char* package;  // package that contains it
};

/// Finds the function `symbol` in the module. Loads the module and never unloads it. The module
/// exports sinter_module_version, which must equal the command's version. Throws Error(kDevice) if
/// it is not installed, cannot be loaded or has another version.
ModuleFunction find_in_module(const ModuleOfCommand& module, const char* symbol);

}  // namespace sinter::tools
