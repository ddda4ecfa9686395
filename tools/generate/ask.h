// SPDX-License-Identifier: Apache-2.0
// One text of an engine, waited for.
#pragma once

#include <functional>

#include <sinter/engine.h>

namespace sinter::tools {

/// Returns when the request, of one sample, has ended; `take` hears of it on the engine's thread.
/// Throws as Engine::submit and `take` do, and Error(kUsage) if the text fails.
void ask(Engine& engine, GenerationRequest request,
         const std::function<void(const GenerationOutput&)>& take);

}  // namespace sinter::tools
