// SPDX-License-Identifier: Apache-2.0
// Plans that were changed field by field, with right hashes: loaded, bound and run. Whatever they
// say, an Error or a result; an Error(kInternal) is a finding, for a check before it has a gap.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <sinter/sinter.h>

#include "plan_mutator.h"
#include "runtime/plan/extents.h"
#include "runtime/plan_access.h"

namespace sinter::fuzz {
namespace {

void run_with(Session& session, std::int64_t above_min) {
  const Plan& plan = session.plan();
  const fb::PlanT& meta = PlanAccess::data(plan)->meta;
  std::vector<std::int64_t> symbols;
  for (const auto& symbol : meta.symbols)
    symbols.push_back(symbol->max - symbol->min < above_min ? symbol->max
                                                            : symbol->min + above_min);
  plan::bind_extents(meta, symbols);
  const auto values = plan::evaluate_expressions(meta, symbols);
  constexpr double kMostWork = 2e7;
  constexpr std::size_t kMostBytes = 16 << 20;
  if (!(work_of(meta, values) < kMostWork)) return;
  for (std::size_t i = 0; i < plan.inputs().size(); ++i) {
    if (plan.inputs()[i].state) continue;
    TensorView view;
    view.dtype = plan.inputs()[i].dtype;
    for (const auto expression : meta.inputs[i]->shape) view.shape.push_back(values[expression]);
    const std::size_t size = view.byte_count();
    if (size > kMostBytes) return;
    std::vector<unsigned char> bytes(size + 1);
    for (std::size_t b = 0; b < size; ++b)
      bytes[b] =
          view.dtype == DType::kBool ? b % 2 : static_cast<unsigned char>(b % 7 == 0 ? 63 : b % 3);
    view.data = bytes.data();
    session.set_input(i, view);
  }
  session.run();
  for (std::size_t i = 0; i < plan.outputs().size(); ++i) {
    const TensorView& view = session.output(i);
    const auto* bytes = static_cast<const unsigned char*>(view.data);
    unsigned sum = 0;
    for (std::size_t b = 0; b < view.byte_count(); ++b) sum += bytes[b];
    [[maybe_unused]] static volatile unsigned sink;
    sink = sum;
  }
}

void run(std::span<const std::byte> bytes) {
  try {
    const Plan plan = Plan::from_memory(bytes);
    if (plan.target() != "cpu") return;
    SessionOptions options;
    options.threads = 1;
    options.max_iterations = kMostIterations;
    options.allocator = std::make_shared<Bounded>();
    Session session(plan, options);
    run_with(session, 0);
    session.reset_state();
    run_with(session, 3);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInternal) return;
    std::fprintf(stderr, "fuzz_run: %s\n", error.what());
    std::abort();
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
