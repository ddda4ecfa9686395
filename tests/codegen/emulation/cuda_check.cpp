// SPDX-License-Identifier: Apache-2.0
#ifdef SINTER_WITH_CUDA
#include "cuda_check.h"

#include <algorithm>
#include <random>

#include <fmt/format.h>

#include "codegen/families/loops/emit_loops.h"
#include "codegen/families/loops/loops_kernel.h"
#include "codegen/families/loops/scan/scan_chain.h"
#include "compare_buffers.h"

namespace sinter::test {

namespace {

std::vector<std::int64_t> evaluate(codegen::ExprTable exprs, const ir::Bindings& symbols) {
  plan::fb::PlanT plan;
  exprs.write(plan);
  std::vector<std::int64_t> values;
  for (const auto& symbol : plan.symbols) {
    const auto bound = symbols.find(symbol->name);
    values.push_back(bound == symbols.end() ? symbol->min : bound->second);
  }
  return plan::evaluate_expressions(plan, values);
}

double check_tolerance(DType type) {
  switch (type) {
    case DType::kFloat16: return 1.5e-3;
    case DType::kBFloat16: return 1.2e-2;
    case DType::kFloat32: return 2e-5;
    case DType::kFloat64: return 1e-12;
    default: return 0;
  }
}

}  // namespace

void CudaCheck::add(const std::string& name, ProgramBuilder program,
                    std::vector<ir::Bindings> symbols) {
  cases_.push_back({name, std::move(program), std::move(symbols)});
}

std::vector<std::string> CudaCheck::sources() const {
  std::vector<std::string> all;
  for (const auto& kernel : kernels_) all.push_back(kernel.source);
  return all;
}

std::string CudaCheck::run() {
  kernels_.clear();
  for (const Case& test : cases_) {
    codegen::KernelRequest request = test.program.request(test.name);
    const auto records = static_cast<std::uint32_t>(test.program.types.size());
    kernels_.push_back(scan_chain_words(test.program.program, exprs)
                           ? codegen::loops_kernel(test.program.program, {}, records)
                                 ->emit(std::move(request), exprs)
                           : emit_loops(request, exprs));
  }
  const EmulatedKernels library(kernels_);
  std::string problems;
  for (std::size_t c = 0; c < cases_.size(); ++c)
    for (const ir::Bindings& symbols : cases_[c].symbols)
      problems += run_case(cases_[c], kernels_[c], library, symbols);
  return problems;
}

std::string CudaCheck::run_case(const Case& test, const codegen::EmittedKernel& kernel,
                                const EmulatedKernels& library, const ir::Bindings& symbols) {
  const ProgramBuilder& program = test.program;
  const std::vector<std::int64_t> values = evaluate(exprs, symbols);
  std::mt19937_64 random(17);
  Memory memory;
  for (std::size_t b = 0; b < program.types.size(); ++b) {
    const DType type = program.types[b];
    const auto count = static_cast<std::size_t>(program.elements[b].evaluate(symbols));
    std::vector<std::byte> bytes(count * size_of(type));
    std::int64_t low = type == DType::kBool ? 0 : -3, high = type == DType::kBool ? 2 : 3;
    if (const auto range = program.ranges.find(static_cast<std::uint32_t>(b));
        range != program.ranges.end()) {
      low = range->second.low.evaluate(symbols);
      high = range->second.high.evaluate(symbols);
    }
    for (std::size_t i = 0; i < count; ++i) {
      std::byte* p = bytes.data() + i * size_of(type);
      if (is_float(type))
        ir::store_double(type, p, std::uniform_real_distribution<double>(-2, 2)(random));
      else
        ir::store_int(type, p, std::uniform_int_distribution<std::int64_t>(low, high - 1)(random));
    }
    memory.push_back(std::move(bytes));
  }
  Memory expected = memory;
  interpret(program.program, program.types, values, expected);
  const plan::fb::KernelStepT* step = &kernel.step;
  if (const auto words = scan_chain_words(program.program, exprs)) {
    memory.emplace_back(static_cast<std::size_t>(words->evaluate(symbols)) * 8, std::byte{0xa5});
    library.run(*step, 0, values, memory);
    step = &kernel.more.at(0);
  }
  return run_variants(
      test.name, library, *step, values, memory,
      [&](const plan::fb::KernelVariantT& variant, const Memory& actual) {
        ++schedules_run_[variant.schedule];
        std::string problems;
        for (std::size_t b = 0; b < program.types.size(); ++b) {
          const DType type = program.types[b];
          // Cancellation leaves errors in proportion to the values that cancelled.
          const double scale = std::max(largest_magnitude(type, expected[b]), 1.0);
          problems += problem_in(
              variant, b,
              first_difference(type, actual[b], expected[b], {check_tolerance(type), 0.1 * scale}));
        }
        return problems;
      });
}

}  // namespace sinter::test
#endif
