// SPDX-License-Identifier: Apache-2.0
#include "tools/generate/ask.h"

#include <future>
#include <memory>

#include "runtime/format_error.h"

namespace sinter::tools {

void ask(Engine& engine, GenerationRequest request,
         const std::function<void(const GenerationOutput&)>& take) {
  // The promise lives until its call has returned, which may be after this function has.
  const auto ended = std::make_shared<std::promise<void>>();
  engine.submit(std::move(request), [ended, &take](const GenerationOutput& output) {
    try {
      take(output);
      if (output.finish == FinishReason::kError) throw usage_error("{}", output.error);
    } catch (...) {
      ended->set_exception(std::current_exception());
      throw;
    }
    if (output.finish != FinishReason::kNone) ended->set_value();
  });
  ended->get_future().get();
}

}  // namespace sinter::tools
