// SPDX-License-Identifier: Apache-2.0
// Creates the executor for a plan's engine.
#include <memory>
#include <utility>

#include <sinter/engine.h>

#include "runtime/engine/executors/drafting_executor.h"
#include "runtime/format_error.h"

namespace sinter {

namespace {

std::unique_ptr<engine::Executor> drafting_executor_of(const Plan& plan, const Plan& draft,
                                                       const EngineOptions& options,
                                                       const SessionOptions& session) {
  if (options.draft_tokens == 0) throw usage_error("a draft model needs draft_tokens of 1 or more");
  return engine::make_executor(plan, &draft, options, session).executor;
}

}  // namespace

Engine::Engine(const Plan& plan, EngineOptions options, const SessionOptions& session)
    : Engine(engine::make_executor(plan, nullptr, options, session).executor, std::move(options)) {}

Engine::Engine(const Plan& plan, const Plan& draft, EngineOptions options,
               const SessionOptions& session)
    : Engine(drafting_executor_of(plan, draft, options, session), std::move(options)) {}

}  // namespace sinter
