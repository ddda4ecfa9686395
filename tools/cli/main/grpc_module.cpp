// SPDX-License-Identifier: Apache-2.0
// libsinter_grpc.so, the command's gRPC module: exports start_grpc_server for find_in_module.
#include <sinter/version.h>

#include "tools/cli/main/modules.h"
#include "tools/serve/grpc/grpc_server.h"

extern "C" SINTER_API const char sinter_module_version[] = SINTER_VERSION;
extern "C" SINTER_API const sinter::tools::ModuleFunction sinter_start_grpc_server =
    reinterpret_cast<sinter::tools::ModuleFunction>(sinter::tools::start_grpc_server);
