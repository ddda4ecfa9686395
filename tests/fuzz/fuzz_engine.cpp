// SPDX-License-Identifier: Apache-2.0
// Changed plans of compile --serve, with right hashes, under an engine that runs requests: whatever
// they say, an Error or texts. An Error(kInternal) and an engine that has stopped are findings, and
// so is a token that the model does not have.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <vector>

#include <sinter/engine.h>
#include <sinter/sinter.h>

#include "plan_mutator.h"
#include "runtime/plan/extents.h"
#include "runtime/plan/serving.h"
#include "runtime/plan_access.h"

namespace sinter::fuzz {
namespace {

constexpr int kSequences = 3, kStepTokens = 8;
constexpr std::uint64_t kCacheBytes = 64 << 10;

[[noreturn]] void found(std::string_view what) {
  std::fprintf(stderr, "fuzz_engine: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

/// Whether the largest step is little work; a changed plan may ask for any.
bool is_small(const fb::PlanT& meta, const plan::ServingPlan& serving) {
  constexpr double kMostWork = 2e6;
  std::vector<std::int64_t> symbols;
  for (const auto& symbol : meta.symbols) symbols.push_back(symbol->min);
  const auto give = [&](const std::vector<std::uint32_t>& shape, std::int64_t size) {
    for (const std::uint32_t dim : shape)
      if (const fb::ExprNode& node = meta.expressions[dim]; node.op() == fb::ExprOp::Symbol) {
        const fb::SymbolT& symbol = *meta.symbols[node.a()];
        symbols[node.a()] = std::clamp(size, symbol.min, symbol.max);
      }
  };
  for (const std::size_t input : {serving.ids, serving.starts, serving.rows})
    give(meta.inputs[input]->shape, kStepTokens);
  give({meta.inputs[serving.tables]->shape[0]}, kSequences);
  give({meta.inputs[serving.tables]->shape[1]}, serving.table_blocks);
  give(meta.inputs[serving.sets]->shape, 2 * kSequences);
  give(meta.inputs[serving.biased]->shape, kSequences * 512);
  for (const std::size_t cache : serving.caches)
    give(meta.inputs[cache]->shape,
         static_cast<std::int64_t>(kCacheBytes /
                                   std::max<std::uint64_t>(1, serving.position_bytes)));
  plan::bind_extents(meta, symbols);
  const auto values = plan::evaluate_expressions(meta, symbols);
  return work_of(meta, values) < kMostWork &&
         static_cast<std::int64_t>(serving.table_blocks) * kSequences < (1 << 22) &&
         serving.vocabulary <= (1 << 16);
}

std::vector<GenerationRequest> requests_of(int vocabulary) {
  const auto token = [&](int i) { return static_cast<TokenId>(i % vocabulary); };
  GenerationRequest first;
  first.prompt = {token(1),  token(2),  token(3),  token(5), token(7),
                  token(11), token(13), token(17), token(19)};
  first.sampling.max_tokens = 3;
  first.sampling.logprobs = 20;
  GenerationRequest second;
  second.prompt = {token(2)};
  second.sampling.max_tokens = 4;
  second.sampling.samples = 2;
  second.sampling.temperature = 0.8;
  second.sampling.top_p = 0.9;
  second.sampling.repetition_penalty = 1.2;
  second.sampling.logit_bias = {{token(3), 1.5F}};
  second.sampling.logprobs = 2;
  GenerationRequest third;
  third.prompt = {token(4), token(4)};
  third.sampling.max_tokens = 2;
  third.sampling.logprobs = 1000;  // drawn on the host
  return {first, second, third, first};
}

void serve(const Plan& plan, const plan::ServingPlan& serving) {
  EngineOptions options;
  options.cache_bytes = kCacheBytes;
  options.max_sequences = std::min(kSequences, serving.sequences);
  options.max_step_tokens = std::min({kStepTokens, serving.tokens, serving.samples});
  SessionOptions session;
  session.threads = 1;
  session.max_iterations = kMostIterations;
  session.allocator = std::make_shared<Bounded>();
  Engine engine(plan, options, session);
  std::atomic<double> sum = 0;
  std::atomic<bool> is_wrong = false;
  for (GenerationRequest& request : requests_of(serving.vocabulary)) {
    request.sampling.logprobs = std::min(*request.sampling.logprobs, serving.vocabulary);
    try {
      engine.submit(request, [&](const GenerationOutput& output) {
        const auto look_at = [&](TokenId token) {
          if (token < 0 || token >= serving.vocabulary) is_wrong = true;
        };
        for (const TokenId token : output.tokens) look_at(token);
        for (const TokenLogprobs& told : output.logprobs) {
          sum = sum + told.logprob;  // read, so that a sanitizer sees it
          for (const auto& [token, logprob] : told.likeliest) look_at(token), sum = sum + logprob;
        }
      });
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kInternal) found(error.what());
    }
  }
  engine.drain();
  if (const auto failure = engine.failure()) found(*failure);
  if (is_wrong) found("a token that the model does not have");
}

void run(std::span<const std::byte> bytes) {
  try {
    const Plan plan = Plan::from_memory(bytes);
    const fb::PlanT& meta = PlanAccess::data(plan)->meta;
    if (plan.target() != "cpu" || !plan::is_serving(meta)) return;
    const plan::ServingPlan serving = plan::serving_of(meta);
    if (is_small(meta, serving)) serve(plan, serving);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) found(error.what());
  }
}

}  // namespace
}  // namespace sinter::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  sinter::fuzz::run({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned int seed) {
  return sinter::fuzz::mutate_plan(data, size, max_size, seed);
}
