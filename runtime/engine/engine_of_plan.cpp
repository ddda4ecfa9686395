// Engines of plans: what executor they have.
#include <memory>
#include <utility>

#include <sinter/engine.h>

#include "runtime/engine/drafting_executor.h"
#include "runtime/engine/paged_executor.h"
#include "runtime/format_error.h"

namespace sinter {

namespace {

engine::PagedExecutorOptions paged_options(const EngineOptions& options,
                                           const SessionOptions& session) {
  engine::PagedExecutorOptions paged;
  paged.session = session;
  paged.cache_bytes = options.cache_bytes;
  paged.max_sequences = options.max_sequences;
  paged.max_step_tokens = options.max_step_tokens;
  return paged;
}

std::unique_ptr<engine::Executor> executor_of(const Plan& plan, const EngineOptions& options,
                                              const SessionOptions& session) {
  return std::make_unique<engine::PagedExecutor>(plan, paged_options(options, session));
}

std::unique_ptr<engine::Executor> drafting_executor_of(const Plan& plan, const Plan& draft,
                                                       const EngineOptions& options,
                                                       const SessionOptions& session) {
  if (options.draft_tokens == 0)
    throw usage_error("a draft model guesses draft_tokens, and they are 0: say how many");
  return engine::make_drafting_executor(plan, draft, paged_options(options, session));
}

}  // namespace

Engine::Engine(const Plan& plan, EngineOptions options, const SessionOptions& session)
    : Engine(executor_of(plan, options, session), std::move(options)) {}

Engine::Engine(const Plan& plan, const Plan& draft, EngineOptions options,
               const SessionOptions& session)
    : Engine(drafting_executor_of(plan, draft, options, session), std::move(options)) {}

}  // namespace sinter
