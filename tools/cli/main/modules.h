// SPDX-License-Identifier: Apache-2.0
// Optional parts of the command with large dependencies: shared objects that are loaded on demand.
// A module links its own libraries and uses the command's symbols marked SINTER_API.
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
