// SPDX-License-Identifier: Apache-2.0
// What belongs to the process: threads, the log, GPUs, and the command line.
#include <nanobind/stl/vector.h>
#include <sinter/devices.h>
#include <sinter/log.h>
#include <sinter/threads.h>
#include <sinter/version.h>

#include "tools/cli/cli.h"
#include "tools/python/src/gil.h"
#include "tools/python/src/plan.h"
#include "tools/python/src/struct.h"
#include "tools/python/src/text.h"
#include "tools/serve/add_embed.h"
#include "tools/serve/add_serve.h"

namespace sinter::python {
namespace {

void log_to(nb::object callback, int least) {
  if (callback.is_none()) {
    GilReleased release;
    set_logger({});
    return;
  }
  // Never destroyed: a thread may be calling the callback when it is replaced.
  auto* target = new nb::object(std::move(callback));
  Logger logger = [target](LogLevel level, std::string_view message) {
    const GilIfOpen acquire;
    if (!acquire) return;
    try {
      (*target)(static_cast<int>(level), text(message));
    } catch (nb::python_error& error) {
      error.discard_as_unraisable("sinter's logger");
    }
  };
  GilReleased release;
  set_logger(std::move(logger), static_cast<LogLevel>(least));
}

nb::tuple gpus() {
  const GpuList found = [] {
    GilReleased release;
    return list_gpus();
  }();
  nb::list list;
  for (const GpuInfo& gpu : found.gpus) {
    nb::dict d;
    SINTER_ITEMS(gpu, index, name, architecture, multiprocessors, memory_bytes, l2_bytes);
    list.append(d);
  }
  return nb::make_tuple(list, found.problem);
}

int run_command(const std::vector<std::string>& words) {
  std::vector<std::string> copies = words;
  std::vector<char*> pointers;
  for (std::string& word : copies) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  // HTTP only: gRPC would load 50 shared libraries at every import.
  constexpr tools::AddVerb kMore[] = {[](tools::Cli& cli) { add_serve(cli, nullptr); },
                                      tools::add_embed};
  GilReleased release;
  return tools::run_cli(static_cast<int>(copies.size()), pointers.data(), kMore);
}

}  // namespace

void bind_runtime(nb::module_& module) {
  module.attr("__version__") = std::string(version());
  module.def(
      "set_threads",
      [](int threads, const std::vector<int>& cpus, int spin_microseconds) {
        GilReleased release;
        set_thread_pool({threads, cpus, spin_microseconds});
      },
      nb::arg("threads"), nb::arg("cpus"), nb::arg("spin_microseconds"));
  module.def("get_threads", [] { return thread_pool_size(); });
  module.def("log_to", &log_to, nb::arg("callback").none(), nb::arg("least"));
  module.def("gpus", &gpus);
  module.def("run_cli", &run_command, nb::arg("words"));
}

}  // namespace sinter::python
