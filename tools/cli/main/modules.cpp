// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/main/modules.h"

#include <filesystem>
#include <string_view>
#include <system_error>

#include <dlfcn.h>
#include <sinter/sinter.h>

#include "runtime/format_error.h"

namespace sinter::tools {

ModuleFunction find_in_module(const ModuleOfCommand& module, const char* symbol) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path command = fs::read_symlink("/proc/self/exe", error);
  const fs::path file =
      (command.parent_path() / SINTER_MODULE_DIR / fmt::format("libsinter_{}.so", module.name))
          .lexically_normal();
  if (!fs::exists(file, error))
    throw device_error(
        "{}'s module is not installed (there is no '{}'): install the package {} of version {}",
        module.what, file.string(), module.package, version());
  void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = ::dlerror();
    throw device_error("{}'s module cannot be loaded: {}; install the package {} of version {}",
                       module.what, reason != nullptr ? reason : file.string(), module.package,
                       version());
  }
  const auto* has = static_cast<const char*>(::dlsym(handle, "sinter_module_version"));
  if (has == nullptr || has != version())
    throw device_error(
        "{}'s module '{}' is of version {}, this command of {}: install the package {} of version "
        "{}",
        module.what, file.string(), has != nullptr ? has : "unknown", version(), module.package,
        version());
  const auto* found = static_cast<const ModuleFunction*>(::dlsym(handle, symbol));
  if (found == nullptr)
    throw internal_error("{}'s module '{}' has no {}", module.what, file.string(), symbol);
  return *found;
}

}  // namespace sinter::tools
