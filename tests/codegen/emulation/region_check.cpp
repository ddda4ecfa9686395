// SPDX-License-Identifier: Apache-2.0
#include "region_check.h"

#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "codegen/families/gemm/library_lowering.h"
#include "codegen/program/loop_lowering.h"
#include "compare_buffers.h"
#include "ir/reference/evaluate.h"
#include "ir/text/text.h"

namespace sinter::test {
namespace {

struct Buffers {
  std::vector<std::uint32_t> inputs, outputs;
  std::vector<DType> types;
};

Buffers number_buffers(const ir::Graph& body) {
  Buffers buffers;
  for (const ir::ValueId value : body.inputs()) {
    buffers.inputs.push_back(static_cast<std::uint32_t>(buffers.types.size()));
    buffers.types.push_back(body.type(value).dtype);
  }
  for (const ir::ValueId value : body.outputs()) {
    buffers.outputs.push_back(static_cast<std::uint32_t>(buffers.types.size()));
    buffers.types.push_back(body.type(value).dtype);
  }
  return buffers;
}

using Step = std::function<void(const Buffers&, codegen::ExprTable&, std::function<void()>&,
                                std::vector<std::int64_t>&, Memory&)>;

std::string check(const ir::Graph& body, const ir::Bindings& symbols, std::uint64_t seed,
                  const Step& lower_step) {
  const std::vector<ir::Tensor> inputs = random_inputs(body, symbols, seed);
  ir::EvaluateOptions wide;
  wide.keep_wide = true;
  const std::vector<ir::Tensor> expected = ir::evaluate(body, inputs, wide);

  const Buffers buffers = number_buffers(body);
  Memory memory;
  for (const ir::Tensor& input : inputs)
    memory.emplace_back(input.bytes().begin(), input.bytes().end());
  // What is not written shows.
  for (const ir::Tensor& output : expected)
    memory.emplace_back(output.bytes().size(), std::byte{0xa5});

  for (const codegen::ScatteredValues& values : codegen::scattered_values(body))
    memory[buffers.outputs[values.result]] = memory[buffers.inputs[values.data]];  // changes a copy

  codegen::ExprTable exprs(body.ranges());
  std::function<void()> run;
  std::vector<std::int64_t> expressions;
  lower_step(buffers, exprs, run, expressions, memory);
  plan::fb::PlanT plan;
  exprs.write(plan);
  std::vector<std::int64_t> values;
  for (const auto& symbol : plan.symbols) values.push_back(symbols.at(symbol->name));
  expressions = plan::evaluate_expressions(plan, values);
  run();

  for (std::size_t k = 0; k < expected.size(); ++k) {
    const DType type = expected[k].dtype();
    const Allowed allowed{size_of(type) == 2 ? 1e-2 : 1e-5, 1};
    const std::string difference =
        first_difference(type, memory[buffers.outputs[k]], expected[k].bytes(), allowed);
    if (!difference.empty()) return body.output_names()[k] + difference;
  }
  return {};
}

}  // namespace

Lowered lower(const ir::Graph& body, codegen::ExprTable& exprs) {
  const Buffers buffers = number_buffers(body);
  Lowered result;
  result.program = codegen::lower_region(body, buffers.inputs, buffers.outputs, exprs);
  result.listing = codegen::print_loop_program(result.program, exprs);
  return result;
}

std::string listing_of_text(const char* text) {
  const ir::Graph body = ir::parse_graph(text);
  codegen::ExprTable exprs(body.ranges());
  return lower(body, exprs).listing;
}

std::string check_region(const ir::Graph& body, const ir::Bindings& symbols, std::uint64_t seed) {
  plan::fb::LoopProgramT program;
  const std::string whole =
      check(body, symbols, seed,
            [&](const Buffers& buffers, codegen::ExprTable& exprs, std::function<void()>& run,
                std::vector<std::int64_t>& expressions, Memory& memory) {
              program = codegen::lower_region(body, buffers.inputs, buffers.outputs, exprs);
              run = [&] { interpret(program, buffers.types, expressions, memory); };
            });
  if (!whole.empty()) return whole;
  std::vector<plan::fb::LoopProgramT> parts;
  const std::string in_parts =
      check(body, symbols, seed,
            [&](const Buffers& buffers, codegen::ExprTable& exprs, std::function<void()>& run,
                std::vector<std::int64_t>& expressions, Memory& memory) {
              parts = codegen::lower_region_parts(body, buffers.inputs, buffers.outputs, exprs);
              run = [&] {
                for (const auto& part : parts) interpret(part, buffers.types, expressions, memory);
              };
            });
  return in_parts.empty() ? "" : fmt::format("in {} parts: {}", parts.size(), in_parts);
}

std::string check_conv_loops(const ir::Graph& body, const ir::Bindings& symbols,
                             std::uint64_t seed) {
  plan::fb::LoopProgramT program;
  return check(body, symbols, seed,
               [&](const Buffers& buffers, codegen::ExprTable& exprs, std::function<void()>& run,
                   std::vector<std::int64_t>& expressions, Memory& memory) {
                 program = codegen::lower_product_loops(body, true, buffers.inputs, buffers.outputs,
                                                        exprs);
                 run = [&] { interpret(program, buffers.types, expressions, memory); };
               });
}

std::string check_matmul(const ir::Graph& body, const ir::Bindings& symbols, std::uint64_t seed) {
  plan::fb::MatmulStepT step;
  return check(body, symbols, seed,
               [&](const Buffers& buffers, codegen::ExprTable& exprs, std::function<void()>& run,
                   std::vector<std::int64_t>& expressions, Memory& memory) {
                 step = codegen::lower_matmul(body, buffers.inputs, buffers.outputs, exprs, false);
                 run = [&] { interpret(step, buffers.types, expressions, memory); };
               });
}

}  // namespace sinter::test
