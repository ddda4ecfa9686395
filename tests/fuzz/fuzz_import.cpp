// SPDX-License-Identifier: Apache-2.0
// Models from bytes: whatever they are, an Error of the user's kind or a graph that verifies.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>

#include <sinter/error.h>

#include "frontend/import.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto model =
        sinter::frontend::import_model_bytes(std::as_bytes(std::span(data, size)), "");
    sinter::ir::verify(model.graph);
  } catch (const sinter::Error& error) {
    if (error.code() == sinter::ErrorCode::kInternal) {
      std::fprintf(stderr, "%s\n", error.what());
      std::abort();
    }
  }
  return 0;
}
