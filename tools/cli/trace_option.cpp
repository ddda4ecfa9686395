// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/trace_option.h"

#include "runtime/files/output_file.h"

namespace sinter::tools {

void add_trace_option(Command& verb, std::string& path) {
  verb.add_option("--trace FILE", path,
                  "Time every step, and write them into this file as a trace (JSON) that "
                  "ui.perfetto.dev and chrome://tracing show");
}

void write_trace(const std::string& path, const std::string& trace, const Console& console) {
  files::write_file(path, trace, {.what = "the trace", .is_durable = false});
  console.note(fmt::format("{}: open it in ui.perfetto.dev or chrome://tracing", path));
}

}  // namespace sinter::tools
