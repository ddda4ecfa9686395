// SPDX-License-Identifier: Apache-2.0
#ifdef SINTER_WITH_CUDA
#include "gemm_check.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <stdexcept>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "codegen/families/gemm/gemm_schedule.h"
#include "codegen/families/gemm/gemm_tactics.h"
#include "codegen/families/gemm/library_lowering.h"
#include "codegen/families/gemm/weights/weight_pack.h"
#include "codegen/families/loops/emit_loops.h"
#include "codegen/targets/cuda/cuda_target.h"
#include "fusion/pipeline.h"
#include "ir/reference/evaluate.h"
#include "ir/text/text.h"
#include "tests/codegen/emulation/compare_buffers.h"
#include "tests/codegen/emulation/compile_all.h"
#include "tests/codegen/emulation/region_check.h"

namespace sinter::test {
namespace {

/// The body of the one product region that the passes make of a graph.
ir::Graph product_region(const std::string& text) {
  fusion::Context context;
  context.target = codegen::cuda_target().traits();
  const ir::Graph graph = fusion::run_pipeline(ir::parse_graph(text), context).graph;
  for (const ir::Node& node : graph.nodes())
    if (node.op->name == "Fused" && node.attrs.get_string("kind") == "gemm") return *node.body;
  throw std::runtime_error("no product in\n" + ir::print(graph));
}

/// Random numbers of all the values that weights have, in place of random_inputs's few.
ir::Tensor random_weights(const ir::Tensor& like) {
  std::mt19937_64 random(5);
  std::vector<std::byte> bytes(like.bytes().size());
  // Floats are below 2, and numbers all of them.
  const auto kept = is_float8(like.dtype()) ? std::byte{0xbf} : std::byte{0xff};
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random()) & kept;
  return ir::Tensor(like.dtype(), like.shape(), ir::Buffer::take(std::move(bytes)));
}

/// What the region's part in front of its product makes of the region's inputs.
ir::Tensor prologue_rows(const ir::Graph& body, const std::vector<ir::Tensor>& inputs) {
  const ir::Node& prologue = *codegen::gemm_body(body).prologue;
  std::vector<ir::Tensor> operands;
  for (const ir::ValueId input : prologue.inputs) {
    const auto at = std::find(body.inputs().begin(), body.inputs().end(), input);
    operands.push_back(inputs[static_cast<std::size_t>(at - body.inputs().begin())]);
  }
  ir::EvaluateOptions wide;
  wide.keep_wide = true;
  return ir::evaluate(*prologue.body, operands, wide)[0];
}

/// The reference, which rounds rows where they are made, as both kernels do, and otherwise once.
std::vector<ir::Tensor> evaluate_region(const ir::Graph& body,
                                        const std::vector<ir::Tensor>& inputs) {
  ir::EvaluateOptions wide;
  wide.keep_wide = true;
  const ir::Node* prologue = codegen::gemm_body(body).prologue;
  if (!prologue) return ir::evaluate(body, inputs, wide);
  ir::GraphBuilder builder("behind");
  for (const auto& [symbol, range] : body.ranges()) builder.range(symbol, range);
  std::map<ir::ValueId, ir::ValueId> known;
  for (const ir::ValueId input : body.inputs())
    known[input] = builder.input(body.value(input).name, body.type(input));
  known[prologue->outputs[0]] = builder.input("made", body.type(prologue->outputs[0]));
  for (const ir::Node& node : body.nodes()) {
    if (&node == prologue) continue;
    std::vector<ir::ValueId> operands;
    for (const ir::ValueId input : node.inputs) operands.push_back(known.at(input));
    const auto results = builder.add_multi(node.op->name, operands, node.attrs, node.body);
    for (std::size_t i = 0; i < results.size(); ++i) known[node.outputs[i]] = results[i];
  }
  for (std::size_t i = 0; i < body.outputs().size(); ++i)
    builder.output(body.output_names()[i], known.at(body.outputs()[i]));
  std::vector<ir::Tensor> operands = inputs;
  operands.push_back(prologue_rows(body, inputs));
  return ir::evaluate(builder.finish(), operands, wide);
}

/// The weights of a product region, from its inputs.
ir::ScaledTensor weights_in(const codegen::GemmProgram& product, std::int64_t k,
                            const std::vector<ir::Tensor>& inputs) {
  const auto input = [&](std::uint32_t operand) {
    const ir::Tensor& all = inputs[product.program.buffers[operand]];
    if (product.groups == 0) return all;
    return all.reshaped({all.shape()[0] * all.shape()[1], all.shape()[2]});
  };
  std::optional<ir::Tensor> zeros, factors;
  if (product.weights->has_zeros()) zeros = input(product.zeros_buffer());
  if (product.weights->has_factors()) factors = input(product.factors_buffer());
  return {*product.weights->format,  k,
          input(product.b_buffer()), input(product.scales_buffer()),
          std::move(zeros),          std::move(factors)};
}

/// The reference rounds once, like the kernel; the sums' order differs.
Allowed allowed(DType type, bool tf32) {
  if (tf32 && type == DType::kFloat32) return {1.0 / 32, 1};
  if (type == DType::kFloat32) return {1e-5, 2};
  return {type == DType::kFloat16 ? 1.0 / 1024 : type == DType::kBFloat16 ? 1.0 / 128 : 1e-5, 0.25};
}

}  // namespace

void GemmCheck::add(const std::string& name, const std::string& graph, const std::string& schedule,
                    std::vector<ir::Bindings> symbols) {
  add(name, product_region(graph), schedule, std::move(symbols));
}

GemmCheck::Case& GemmCheck::add_case(const std::string& name, ir::Graph body,
                                     std::vector<ir::Bindings> symbols) {
  auto test = std::make_unique<Case>();
  test->name = name;
  test->body = std::make_unique<ir::Graph>(std::move(body));
  test->symbols = std::move(symbols);
  for (const ir::ValueId value : test->body->inputs()) {
    test->inputs.push_back(static_cast<std::uint32_t>(test->types.size()));
    test->types.push_back(test->body->type(value).dtype);
  }
  for (const ir::ValueId value : test->body->outputs()) {
    test->outputs.push_back(static_cast<std::uint32_t>(test->types.size()));
    test->types.push_back(test->body->type(value).dtype);
  }
  cases_.push_back(std::move(test));
  return *cases_.back();
}

void GemmCheck::add(const std::string& name, ir::Graph body, const std::string& schedule,
                    std::vector<ir::Bindings> symbols) {
  Case& test = add_case(name, std::move(body), std::move(symbols));
  std::string refusal;
  if (const ir::Node* prologue = codegen::gemm_body(*test.body).prologue;
      prologue && !with_prologue) {
    test.prologue_rows = static_cast<std::uint32_t>(test.types.size());
    test.types.push_back(test.body->type(prologue->outputs[0]).dtype);
  }
  auto product = codegen::lower_gemm(*test.body, true, test.prologue_rows, test.inputs,
                                     test.outputs, exprs, refusal);
  if (!product) throw std::runtime_error(name + ": " + refusal);
  test.product = std::move(*product);
  test.offsets = offsets;
  test.product.b_is_weight = b_is_weight;
  test.product.tf32 = tf32 && test.product.type == DType::kFloat32;
  test.product.by_warpgroups =
      by_warpgroups || codegen::GemmRequest(schedule).is_warpgroup_schedule();
  if (codegen::GemmProgram& own = test.product; packs_elements) {
    own.weights.emplace();
    test.types[own.program.buffers[own.b_buffer()]] = DType::kUInt8;
  } else if (own.weights) {
    // As pack_weights leaves them.
    const auto& buffers = own.program.buffers;
    own.weights->format->scale = test.types[buffers[own.scales_buffer()]];
    test.types[buffers[own.b_buffer()]] = DType::kUInt8;
    if (own.weights->has_zeros()) {
      DType& zeros = test.types[buffers[own.zeros_buffer()]];
      own.weights->zeros_of_four_bits = zeros == DType::kInt8 && own.is_eight_bit();
      zeros = codegen::multiplied_type(own.type);
    }
  }
  codegen::KernelRequest request;
  set_gemm(request, test.product);
  request.name = "kernel_" + name;
  request.schedule = schedule;
  request.programmatic_launch = programmatic_launch;
  request.device = device;
  for (const std::uint32_t buffer : test.product.program.buffers)
    request.buffer_types.push_back(buffer == codegen::kAccumulatorBuffer ? test.product.result
                                                                         : test.types[buffer]);
  kernels.push_back(codegen::emit_gemm(request, exprs));
}

void GemmCheck::add_loops(const std::string& name, const std::string& graph) {
  add_loops(name, product_region(graph));
}

void GemmCheck::add_loops(const std::string& name, ir::Graph body,
                          std::vector<ir::Bindings> symbols) {
  Case& test = add_case(name, std::move(body), std::move(symbols));
  test.product.program =
      codegen::lower_product_loops(*test.body, true, test.inputs, test.outputs, exprs);
  codegen::KernelRequest request;
  request.program = &test.product.program;
  request.name = "kernel_" + name;
  for (const std::uint32_t buffer : test.product.program.buffers)
    request.buffer_types.push_back(test.types[buffer]);
  kernels.push_back(codegen::emit_loops(request, exprs));
}

Memory GemmCheck::packed(const Case& test, std::vector<ir::Tensor> inputs) const {
  const codegen::GemmProgram& product = test.product;
  if (product.weights && !product.weights->is_quantized()) {
    ir::Tensor& weights = inputs[product.program.buffers[product.b_buffer()]];
    weights = codegen::pack_elements(weights, product.rows_are_k);
  } else if (product.weights) {
    const codegen::PackedWeights weights =
        codegen::pack_weights(weights_in(product, product.k.value(), inputs), product.type);
    const auto& buffers = product.program.buffers;
    inputs[buffers[product.b_buffer()]] = weights.values;
    inputs[buffers[product.scales_buffer()]] = weights.scales;
    if (weights.zeros) inputs[buffers[product.zeros_buffer()]] = *weights.zeros;
    if (weights.factors) inputs[buffers[product.factors_buffer()]] = *weights.factors;
  }
  Memory memory;
  for (const ir::Tensor& input : inputs)
    memory.emplace_back(input.bytes().begin(), input.bytes().end());
  return memory;
}

std::vector<std::vector<codegen::CompiledKernel>> GemmCheck::compile(
    const std::vector<std::string>& architectures) const {
  std::vector<std::string> sources;
  for (const auto& kernel : kernels) sources.push_back(kernel.source);
  return codegen::compile_cuda(sources, architectures);
}

void GemmCheck::expect_code() const {
  for (const auto& compiled : compile())
    for (const auto& code : compiled) EXPECT_GT(code.code.size(), 1000u);
}

std::string GemmCheck::run() {
  const EmulatedKernels library(kernels);
  std::string problems;
  for (std::size_t c = 0; c < cases_.size(); ++c)
    for (const ir::Bindings& symbols : cases_[c]->symbols)
      problems += run_case(*cases_[c], kernels[c], library, symbols);
  return problems;
}

std::string GemmCheck::run_case(const Case& test, const codegen::EmittedKernel& kernel,
                                const EmulatedKernels& library, const ir::Bindings& symbols) const {
  plan::fb::PlanT plan;
  codegen::ExprTable(exprs).write(plan);
  std::vector<std::int64_t> sizes;
  for (const auto& symbol : plan.symbols) {
    const auto bound = symbols.find(symbol->name);
    sizes.push_back(bound == symbols.end() ? std::max<std::int64_t>(symbol->min, 1)
                                           : bound->second);
  }
  const auto values = plan::evaluate_expressions(plan, sizes);
  std::vector<ir::Tensor> inputs = random_inputs(*test.body, symbols, 3);
  if (test.product.weights && test.product.weights->is_quantized()) {
    ir::Tensor& weights = inputs[test.product.program.buffers[test.product.b_buffer()]];
    weights = random_weights(weights);
    const codegen::GemmWeights& packed = *test.product.weights;
    if (packed.has_factors()) {  // all scales from 2^-9 to 240
      ir::Tensor& scales = inputs[test.product.program.buffers[test.product.scales_buffer()]];
      std::vector<std::byte> bytes(scales.bytes().size());
      for (std::size_t i = 0; i < bytes.size(); ++i)
        bytes[i] = static_cast<std::byte>(i * 41 % 119);
      scales = ir::Tensor(scales.dtype(), scales.shape(), ir::Buffer::take(std::move(bytes)));
    } else if (test.product.by_warpgroups && !test.product.is_eight_bit() &&
               (packed.group() != 0 || packed.has_zeros())) {
      // Warpgroups round such weights once they are scaled: powers of two change nothing.
      ir::Tensor& scales = inputs[test.product.program.buffers[test.product.scales_buffer()]];
      std::vector<double> values = scales.to_doubles();
      for (double& value : values) value = std::exp2(std::round(4 * value) - 6);
      scales = ir::Tensor::from_doubles(scales.dtype(), scales.shape(), values);
    }
    if (test.product.weights->has_zeros()) {  // numbers that x's type has
      ir::Tensor& zeros = inputs[test.product.program.buffers[test.product.zeros_buffer()]];
      std::vector<double> values = zeros.to_doubles();
      for (double& value : values) {
        value = std::round(value);
        if (test.product.weights->zeros_of_four_bits) value = std::clamp(3 * value - 1, -8.0, 7.0);
      }
      zeros = ir::Tensor::from_doubles(zeros.dtype(), zeros.shape(), values);
    }
  }
  if (test.product.is_eight_bit())
    for (const std::uint32_t operand : {test.product.a_buffer(), test.product.b_buffer()}) {
      ir::Tensor& values = inputs[test.product.program.buffers[operand]];
      if (is_integer(values.dtype())) values = random_weights(values);
    }
  if (test.product.groups > 0)
    inputs[test.product.program.buffers[test.product.offsets_buffer()]] = ir::Tensor::from_ints(
        DType::kInt32, {static_cast<std::int64_t>(test.offsets.size())}, test.offsets);
  if (test.product.combined) {  // any rows
    ir::Tensor& rows = inputs[test.product.program.buffers[test.product.choices_buffer()]];
    ir::Ints values(static_cast<std::size_t>(rows.shape()[0] * rows.shape()[1]));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<std::int64_t>((i * 5 + 3) % values.size());
    rows = ir::Tensor::from_ints(DType::kInt32, rows.shape(), values);
  }
  const auto expected = evaluate_region(*test.body, inputs);
  Memory memory = packed(test, inputs);
  for (const ir::Tensor& output : expected)
    memory.emplace_back(output.bytes().size(), std::byte{0xa5});
  if (test.prologue_rows) {
    const ir::Tensor rows = prologue_rows(*test.body, inputs);
    memory.emplace_back(rows.bytes().begin(), rows.bytes().end());
  }
  return run_variants(test.name, library, kernel.step, values, memory,
                      [&](const plan::fb::KernelVariantT& variant, const Memory& found) {
                        std::string problems;
                        for (std::size_t k = 0; k < expected.size(); ++k) {
                          const DType type = expected[k].dtype();
                          problems += problem_in(
                              variant, k,
                              first_difference(type, found[inputs.size() + k], expected[k].bytes(),
                                               allowed(type, test.product.tf32)));
                        }
                        return problems;
                      });
}

std::string message_for(const std::string& graph, const std::string& schedule) {
  try {
    GemmCheck check;
    check.add("p", graph, schedule);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace sinter::test
#endif
