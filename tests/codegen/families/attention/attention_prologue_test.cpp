// SPDX-License-Identifier: Apache-2.0
// Attention whose blocks make their queries and a cache's new row themselves: on the emulator.
#ifdef SINTER_WITH_CUDA
#include "codegen/families/attention/prologue/attention_prologue.h"

#include <cmath>
#include <numeric>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "codegen/compile.h"
#include "codegen/families/attention/emit_attention.h"
#include "codegen/targets/cuda/cuda_target.h"
#include "ir/reference/evaluate.h"
#include "ir/text/text.h"
#include "runtime/plan/expressions.h"
#include "tests/codegen/emulation/cuda_emulation.h"
#include "tests/codegen/emulation/region_check.h"

namespace sinter::test {
namespace {

using testing::HasSubstr;
using testing::Not;

/// A region: rotated queries of `heads` heads, keys and values of `caches` each, `head` columns.
struct Step {
  const char* name;
  const char* batch;  // samples: a number, or a symbol
  int heads, caches, keys, head, value_head;
  const char* type = "f16";
  const char* schedule = "";
  const char* cache = "";  // of 8 bits: the type of caches, whose rows have scales then
  int block = 0;           // rows of a block of a paged cache, whose sample is one sequence

  bool has_scales() const { return cache[0] != '\0'; }
  std::size_t caches_and_scales() const { return has_scales() ? 4 : 2; }
};

/// What is to be divided by more than %number is, so that the squares of its errors add up to the
/// least: %scale and %number.
std::string best_of_eight() {
  std::string text = R"(
      %n0 = Quotient(%wide, %s0)
      %f0 = const f32[] {1})";
  constexpr double kLargest[] = {448, 416, 384, 352, 320, 288, 256, 240};
  for (int j = 0; j < 8; ++j) {
    const double factor = kLargest[0] / kLargest[j];
    if (j > 0)
      text += fmt::format(R"(
      %p{0} = const f32[] {{{1}}}
      %n{0} = Mul(%n0, %p{0}))",
                          j, static_cast<float>(kLargest[j] / kLargest[0]));
    text += fmt::format(R"(
      %c{0} = Cast(%n{0}) {{to = f8e4m3fn}}
      %r{0} = Cast(%c{0}) {{to = f32}}
      %d{0} = Sub(%r{0}, %n{0})
      %{1}{0} = ReduceSumSquare(%d{0}) {{axes = [3], keepdims = 1}})",
                        j, j == 0 ? "m" : "u");
    if (j > 0)
      text +=
          fmt::format(R"(
      %q{0} = const f32[] {{{2}}}
      %e{0} = Mul(%u{0}, %q{0})
      %l{0} = Less(%e{0}, %m{1})
      %g{0} = const f32[] {{{3}}}
      %f{0} = Where(%l{0}, %g{0}, %f{1})
      %m{0} = Min(%e{0}, %m{1}))",
                      j, j - 1, static_cast<float>(factor * factor), static_cast<float>(factor));
  }
  return text + R"(
      %scale = Mul(%s0, %f7)
      %number = Quotient(%wide, %scale))";
}

/// Rows %u of 8 bits and their scales, as ir::add_scaled_rows makes them.
std::string rounded_rows(const Step& step) {
  const bool is_integer = std::string(step.cache) == "i8";
  return fmt::format(R"(
      %wide = Cast(%u) {{to = f32}}
      %magnitude = Abs(%wide)
      %most = ReduceMax(%magnitude) {{axes = [3], keepdims = 1}}
      %inverse = const f32[] {{{0}}}
      %least = const f32[] {{7.888609e-31}}
      %part = Mul(%most, %inverse){1}
      %row = Cast({2}) {{to = {3}}})",
                     is_integer ? "0.007874016" : "0.0022321429",
                     is_integer ? R"(
      %scale = Max(%part, %least)
      %number = Quotient(%wide, %scale)
      %whole = Round(%number))"
                                : "\n      %s0 = Max(%part, %least)" + best_of_eight(),
                     is_integer ? "%whole" : "%number", step.cache);
}

std::string rotated(const char* value, const Step& step, int heads, int first) {
  return fmt::format(R"(
      %{0}0 = Slice(%x) {{starts = [0, 0, {4}], steps = [1, 1, 1], shape = [{1}, 1, {5}]}}
      %{0}4 = Reshape(%{0}0) {{shape = [{1}, {2}, 1, {3}]}}
      %{0}a = Slice(%{0}4) {{starts = [0, 0, 0, 0], steps = [1, 1, 1, 1], shape = [{1}, {2}, 1, {6}]}}
      %{0}b = Slice(%{0}4) {{starts = [0, 0, 0, {6}], steps = [1, 1, 1, 1], shape = [{1}, {2}, 1, {6}]}}
      %{0}n = Neg(%{0}b)
      %{0}t = Concat(%{0}n, %{0}a) {{axis = 3}}
      %{0}c = Mul(%{0}4, %c)
      %{0}s = Mul(%{0}t, %s)
      %{0}r = Add(%{0}c, %{0}s))",
                     value, step.batch, heads, step.head, first, heads * step.head, step.head / 2);
}

std::string region(const Step& s) {
  const int width = s.heads * s.head + s.caches * (s.head + s.value_head);
  const std::string angles = R"(
      %c = Gather(%cos, %at) {axis = 0}
      %s = Gather(%sin, %at) {axis = 0})";
  const auto scatter = [&](int columns) {
    std::string places = s.block > 0 ? R"(
      %row_of_cache = Cast(%slot) {to = i64}
      %place = Reshape(%row_of_cache) {shape = [1, 1, 1, 1]})"
                                     : R"(
      %place = Reshape(%at) {shape = [1, 1, 1, 1]})";
    places += fmt::format(R"(
      %one = Iota() {{shape = [{0}, 1, 1, 1], axis = 0, dtype = i64}}
      %two = Iota() {{shape = [1, {1}, 1, 1], axis = 1, dtype = i64}}
      %three = Iota() {{shape = [1, 1, 1, {2}], axis = 3, dtype = i64}})",
                          s.batch, s.caches, columns);
    if (!s.has_scales())
      return places + R"(
      %next = Scatter(%cache, %u, %one, %two, %place, %three) {combine = "none"}
      return next = %next
    })";
    return rounded_rows(s) + places + R"(
      %four = Iota() {shape = [1, 1, 1, 1], axis = 3, dtype = i64}
      %next = Scatter(%cache, %row, %one, %two, %place, %three) {combine = "none"}
      %scales_next = Scatter(%scales, %scale, %one, %two, %place, %four) {combine = "none"}
      return next = %next, scales_next = %scales_next
    })";
  };
  std::string text = fmt::format(
      "graph @g(%x: {0}[{1}, 1, {2}], %cos: {0}[{3}, {4}], %sin: {0}[{3}, {4}], %at: i64[1], "
      "%limit: i64[1], %keys: {8}[{1}, {5}, {3}, {4}], %values: {8}[{1}, {5}, {3}, {6}]{9}{10}) "
      "{7} "
      "{{",
      s.type, s.batch, width, s.keys, s.head, s.caches, s.value_head,
      std::string(s.batch) == "batch" ? "ranges {batch: 1..64}" : "",
      s.has_scales() ? s.cache : s.type,
      s.has_scales() ? fmt::format(", %key_scales: f32[{0}, {1}, {2}, 1], %value_scales: f32[{0}, "
                                   "{1}, {2}, 1]",
                                   s.batch, s.caches, s.keys)
                     : "",
      s.block > 0
          ? fmt::format(", %slot: i32[1], %starts: i32[2], %tables: i32[1, {}]", s.keys / s.block)
          : "");
  text +=
      "\n    %q = Fused(%x, %cos, %sin, %at) {kind = \"pointwise\"} body (%x, %cos, %sin, %at) "
      "{" +
      angles + rotated("q", s, s.heads, 0) + "\n      return q = %qr\n    }";
  const std::string value_rows = fmt::format(R"(
      %v0 = Slice(%x) {{starts = [0, 0, {0}], steps = [1, 1, 1], shape = [{1}, 1, {2}]}}
      %u = Reshape(%v0) {{shape = [{1}, {3}, 1, {4}]}})",
                                             (s.heads + s.caches) * s.head, s.batch,
                                             s.caches * s.value_head, s.caches, s.value_head);
  const std::string key_rows = angles + rotated("k", s, s.caches, s.heads * s.head) +
                               fmt::format("\n      %u = Reshape(%kr) {{shape = [{}, {}, 1, {}]}}",
                                           s.batch, s.caches, s.head);
  const char* const of_values = s.has_scales() ? ", %value_scales" : "";
  const char* const of_keys = s.has_scales() ? ", %key_scales" : "";
  const char* const scales_in = s.has_scales() ? ", %scales" : "";
  const char* const slot = s.block > 0 ? ", %slot" : "";
  text += fmt::format(
      "\n    %v{0} = Fused(%x, %values, %at{1}{3}) {{kind = \"scatter\"}} body (%x, %cache, "
      "%at{2}{3}) {{",
      s.has_scales() ? ", %vs" : "", of_values, scales_in, slot);
  text += value_rows + scatter(s.value_head);
  text += fmt::format(
      "\n    %k{0} = Fused(%x, %cos, %sin, %keys, %at{1}{3}) {{kind = \"scatter\"}} body (%x, "
      "%cos, "
      "%sin, %cache, %at{2}{3}) {{",
      s.has_scales() ? ", %ks" : "", of_keys, scales_in, slot);
  text += key_rows + scatter(s.head);
  const auto shared = [&](const char* value, int columns) {
    return fmt::format(R"(
      %{0}5 = Reshape(%{0}) {{shape = [{1}, {2}, 1, {3}, {4}]}}
      %{0}e = Expand(%{0}5) {{shape = [{1}, {2}, {5}, {3}, {4}]}}
      %{0}h = Reshape(%{0}e) {{shape = [{1}, {6}, {3}, {4}]}})",
                       value, s.batch, s.caches, s.keys, columns, s.heads / s.caches, s.heads);
  };
  const std::string scales = s.has_scales() ? ", %ks, %vs" : "";
  const char* const tables = s.block > 0 ? ", %starts, %tables" : "";
  text += fmt::format(
      "\n    %y = Fused(%q, %k, %v, %limit{1}{0}) {{kind = \"attention\"}} body (%q, %k, %v, "
      "%limit{1}{0}) {{",
      scales, tables);
  text += shared("k", s.head) + shared("v", s.value_head);
  if (s.has_scales()) text += shared("ks", 1) + shared("vs", 1);
  text += fmt::format(R"(
      %l = Reshape(%limit) {{shape = [{2}]}}
      %y = Attention(%q, %kh, %vh, %l{3}{0}) {{limited = 1, scale = 0.2{4}}}
      return y = %y
    }}
    return keys_next = %k, values_next = %v{1}, y = %y
  }})",
                      s.has_scales() ? ", %ksh, %vsh" : "",
                      s.has_scales() ? ", key_scales_next = %ks, value_scales_next = %vs" : "",
                      s.block > 0 ? "1, 1" : "1, 1, 1, 1", tables,
                      s.block > 0 ? fmt::format(", guard = 2, paged = {}", s.block) : "");
  return text;
}

constexpr Step kSteps[] = {
    {"shared_keys", "2", 8, 2, 96, 64, 64},
    {"shared_keys_in_clusters", "1", 8, 2, 300, 64, 64, "f16",
     "attention rows=1x16 key_groups=2 keys=16 vector=8 split_kv=4"},
    {"keys_of_each", "2", 3, 3, 70, 32, 24},
    {"bf16", "1", 4, 1, 40, 128, 128, "bf16"},
    {"odd_head", "1", 2, 1, 33, 40, 40},
    {"any_batch", "batch", 4, 2, 64, 16, 16},
    {"rows_of_floats", "2", 8, 2, 96, 64, 32, "f16", "", "f8e4m3fn"},
    {"rows_of_integers", "1", 4, 1, 150, 128, 128, "bf16",
     "attention rows=1x16 key_groups=2 keys=16 vector=16 split_kv=4", "i8"},
    {"rows_of_any_batch", "batch", 4, 2, 64, 16, 48, "f16", "", "i8"},
    {"paged", "1", 8, 2, 96, 64, 64, "f16", "", "", 16},
    {"paged_of_each", "1", 3, 3, 64, 32, 24, "bf16", "", "", 4},
    {"paged_in_clusters", "1", 8, 2, 320, 64, 64, "f16",
     "attention rows=1x16 key_groups=2 keys=16 vector=8 split_kv=4", "", 8},
    {"paged_rows_of_integers", "1", 4, 1, 160, 128, 128, "bf16", "", "i8", 32},
};

struct AttentionFrontEmitted {
  ir::Graph body;
  codegen::ExprTable exprs;
  codegen::AttentionProgram program;
  codegen::EmittedKernel kernel;
};

std::optional<codegen::AttentionProgram> lower_step(const ir::Graph& body,
                                                    codegen::ExprTable& exprs,
                                                    std::string& refusal) {
  // Caches, and their scales if they have any, are changed in place.
  const auto count = static_cast<std::uint32_t>(body.inputs().size());
  std::vector<std::uint32_t> inputs, outputs;
  for (std::uint32_t i = 0; i < count; ++i) inputs.push_back(i);
  for (std::uint32_t i = 0; i + 1 < body.outputs().size(); ++i) outputs.push_back(5 + i);
  outputs.push_back(count);
  return codegen::lower_with_prologue(body, *codegen::attention_parts(body), inputs, outputs, exprs,
                                      refusal);
}

AttentionFrontEmitted emit(const Step& step, bool early, bool still) {
  const ir::Graph body = ir::parse_graph(region(step));
  codegen::ExprTable exprs(body.ranges());
  std::string refusal;
  auto program = lower_step(body, exprs, refusal);
  if (!program) throw Error(ErrorCode::kInternal, refusal);
  program->cached = true;
  program->front->still = still;
  codegen::KernelRequest facts;
  facts.given = early ? std::set<std::uint32_t>{1, 2, 3} : std::set<std::uint32_t>{};
  for (const std::uint32_t buffer : program->buffers)
    facts.buffer_types.push_back(
        buffer == body.inputs().size() ? program->dtype : body.type(body.inputs()[buffer]).dtype);
  auto kernel =
      codegen::emit_attention(*program, step.name, {}, exprs, early, step.schedule, {}, facts);
  return {body, std::move(exprs), std::move(*program), std::move(kernel)};
}

TEST(AttentionPrologue, MeansItsBody) {
  std::vector<AttentionFrontEmitted> emitted;
  std::vector<codegen::EmittedKernel> kernels;
  for (const Step& step : kSteps)
    for (const bool early : {false, true}) {
      SCOPED_TRACE(step.name);
      Step named = step;
      const std::string name = fmt::format("{}_{}", step.name, early);
      named.name = name.c_str();
      emitted.push_back(emit(named, early, early));
      kernels.push_back(emitted.back().kernel);
    }
  const EmulatedKernels library(kernels);
  for (std::size_t e = 0; e < emitted.size(); ++e) {
    const AttentionFrontEmitted& kernel = emitted[e];
    const Step& step = kSteps[e / 2];
    // At the beginning, between, at the end, behind it, from the end; a row that is not seen.
    const int last = step.keys - 1;
    for (const auto& [at, limit] :
         {std::pair(0, 1), std::pair(5, 6), std::pair(17, 18), std::pair(last, last + 1),
          std::pair(last + 1, last + 2), std::pair(-1, last + 1), std::pair(20, 7)}) {
      if (step.block > 0 && limit != at + 1) continue;  // a sequence's new row is its last
      if (step.block > 0 && at > last) continue;
      const ir::Bindings sizes = {{"batch", 3}};
      std::vector<ir::Tensor> inputs = random_inputs(kernel.body, sizes, 7);
      if (step.block > 0) {
        // Blocks from the end of the cache on.
        const std::int64_t blocks = step.keys / step.block;
        std::vector<double> table;
        for (std::int64_t b = 0; b < blocks; ++b)
          table.push_back(static_cast<double>(blocks - 1 - b));
        const std::size_t first = 5 + step.caches_and_scales();
        const double slot =
            table[static_cast<std::size_t>(at / step.block)] * step.block + at % step.block;
        inputs[first] = ir::Tensor::from_doubles(DType::kInt32, {1}, std::vector<double>{slot});
        inputs[first + 1] = ir::Tensor::from_doubles(DType::kInt32, {2}, std::vector<double>{0, 1});
        inputs[first + 2] = ir::Tensor::from_doubles(DType::kInt32, {1, blocks}, table);
      }
      inputs[3] = ir::Tensor::from_doubles(DType::kInt64, {1}, std::vector<double>(1, at));
      inputs[4] = ir::Tensor::from_doubles(DType::kInt64, {1}, std::vector<double>(1, limit));
      const bool is_there = at <= last;
      std::vector<ir::Tensor> reads = inputs;
      if (!is_there)  // nothing is put anywhere, and tables say what they say at 0
        reads[3] = ir::Tensor::from_doubles(DType::kInt64, {1}, std::vector<double>(1, 0));
      std::vector<ir::Tensor> expected = ir::evaluate(kernel.body, reads);
      const std::size_t caches = step.caches_and_scales();
      for (std::size_t i = 0; !is_there && i < caches; ++i) expected[i] = inputs[5 + i];
      Memory memory;
      for (const ir::Tensor& input : inputs)
        memory.emplace_back(input.bytes().begin(), input.bytes().end());
      memory.emplace_back(expected.back().bytes().size(), std::byte{0xa5});
      plan::fb::PlanT plan;
      kernel.exprs.write(plan);
      std::vector<std::int64_t> symbols;
      for (const auto& symbol : plan.symbols) symbols.push_back(sizes.at(symbol->name));
      const auto check = [&](const plan::fb::KernelVariantT& variant, const Memory& found) {
        std::string problems;
        // Where nothing is put the caches are as they were, and the queries of any angle.
        for (std::size_t which = 0; which < caches + (is_there ? 1 : 0); ++which) {
          const ir::Tensor& wanted = expected[which];
          const auto found_in = [&](std::size_t other, std::int64_t n) {
            const DType type = expected[other].dtype();
            const std::size_t buffer = other < caches ? other + 5 : found.size() - 1;
            return ir::load_as_double(
                type, found[buffer].data() + static_cast<std::size_t>(n) * size_of(type));
          };
          // Of rows of floats another scale may be about as good: what they stand for is the same.
          const bool is_floats = std::string(step.cache) == "f8e4m3fn";
          const std::size_t scales = which + 2;
          // Of rows of 8 bits an element may be rounded to the next number: an eighth, or one.
          const double most = wanted.dtype() == DType::kFloat16        ? (is_floats ? 0.06 : 1e-2)
                              : wanted.dtype() == DType::kFloat8E4M3FN ? 0.13
                              : wanted.dtype() == DType::kInt8         ? 1
                              : is_floats                              ? 1
                                                                       : 6e-2;
          for (std::int64_t n = 0; n < wanted.element_count(); ++n) {
            double a = found_in(which, n), b = wanted.at(n);
            double size = wanted.dtype() == DType::kInt8 ? 1 : 1 + std::abs(b);
            if (wanted.dtype() == DType::kFloat8E4M3FN) {
              const std::int64_t row = n / wanted.shape().back();
              a *= found_in(scales, row);
              b *= expected[scales].at(row);
              size = std::abs(b) + std::abs(expected[scales].at(row));
            } else if (is_floats && which >= 2 && which < caches) {
              size = std::abs(b);
            }
            if (std::abs(a - b) <= most * size) continue;
            problems += problem_in(variant, which, fmt::format("[{}] is {}, not {}", n, a, b));
            break;
          }
        }
        return problems;
      };
      EXPECT_EQ(run_variants(kernel.kernel.step.variants[0]->function, library, kernel.kernel.step,
                             plan::evaluate_expressions(plan, symbols), memory, check),
                "")
          << "at " << at << " of " << limit;
    }
  }
}

TEST(AttentionPrologue, IsRefusedWithAReason) {
  const auto refusal = [](std::string text, const std::string& what, const std::string& with) {
    const std::size_t at = text.find(what);
    EXPECT_NE(at, std::string::npos) << what;
    text.replace(at, what.size(), with);
    const ir::Graph body = ir::parse_graph(text);
    codegen::ExprTable exprs(body.ranges());
    std::string reason;
    EXPECT_FALSE(lower_step(body, exprs, reason));
    return reason;
  };
  const Step step = {"step", "1", 4, 2, 32, 16, 16};
  EXPECT_THAT(refusal(region(step), "%place = Reshape(%at) {shape = [1, 1, 1, 1]}",
                      "%later = Add(%at, %at)\n%place = Reshape(%later) {shape = [1, 1, 1, 1]}"),
              HasSubstr("place of the new row is computed"));
  EXPECT_THAT(refusal(region({"many", "1", 32, 1, 32, 16, 16}), "scale", "scale"),
              HasSubstr("more than 16 queries"));
  const Step rows = {"rows", "1", 4, 2, 32, 16, 16, "f16", "", "f8e4m3fn"};
  EXPECT_THAT(refusal(region(rows), "%f3 = Where(%l3, %g3, %f2)", "%f3 = Where(%l3, %g2, %f2)"),
              HasSubstr("rows of 8 bits are made otherwise than the kernel does"));
}

/// The plan of a graph that is a region alone; its caches are states, if it has any.
codegen::CompiledPlan plan_of(const std::string& text) {
  const auto body = std::make_shared<const ir::Graph>(ir::parse_graph(text));
  ir::GraphBuilder builder("main");
  std::vector<ir::ValueId> inputs;
  for (const ir::ValueId input : body->inputs())
    inputs.push_back(builder.input(body->value(input).name, body->type(input)));
  const auto results =
      builder.add_multi("Fused", inputs, {{"kind", std::string("attention")}}, body);
  for (std::size_t i = 0; i < results.size(); ++i)
    builder.output(body->output_names()[i], results[i]);
  if (results.size() > 2) {
    builder.state({5, 0});
    builder.state({6, 1});
  }
  codegen::CompileOptions options;
  options.target = &codegen::cuda_target();
  options.architectures = {"sm_90"};
  return codegen::compile(builder.finish(), options);
}

TEST(AttentionPrologue, IsOneKernelOrPartsOfAStep) {
  const Step step = {"step", "1", 4, 2, 32, 16, 16};
  const auto whole = plan_of(region(step));
  ASSERT_EQ(whole.parts.meta.steps.size(), 1u);
  EXPECT_NE(whole.parts.meta.steps[0]->work.AsKernelStep(), nullptr);
  std::string text = region(step);
  const std::string place = "%place = Reshape(%at)";
  text.replace(text.find(place), place.size(), "%later = Add(%at, %at)\n%place = Reshape(%later)");
  const auto parts = plan_of(text);
  ASSERT_EQ(parts.parts.meta.steps.size(), 1u);
  const auto* choice = parts.parts.meta.steps[0]->work.AsTacticStep();
  ASSERT_NE(choice, nullptr);
  ASSERT_EQ(choice->tactics.size(), 1u);
  EXPECT_EQ(choice->tactics[0]->parts.size(), 4u);
  EXPECT_THAT(choice->tactics[0]->name, HasSubstr("place of the new row is computed"));
  for (const auto* plan : {&whole, &parts}) {
    for (const codegen::StateInfo& state : plan->states) EXPECT_TRUE(state.in_place);
    EXPECT_NO_THROW(plan::parse_plan(plan::serialize_plan(plan->parts)));
  }
}

TEST(AttentionPrologue, StepsOverPagedCachesAreTwoKernels) {
  const auto plan = plan_of(
      R"(graph @g(%q: f16[1, 2, 2, tokens, 64], %k: f16[1, 2, 1, 320, 64], %v: f16[1, 2, 1, 320, 64],
                  %limits: i64[tokens, 1], %starts: i32[sequences + 1], %tables: i32[sequences, 5])
           ranges {tokens: 1..65536, sequences: 1..1023} {
        %y = Attention(%q, %k, %v, %limits, %starts, %tables) {scale = 0.1, limited = 1, guard = 2, paged = 16}
        return y = %y
      })");
  ASSERT_EQ(plan.parts.meta.steps.size(), 1u);
  const auto* choice = plan.parts.meta.steps[0]->work.AsTacticStep();
  ASSERT_NE(choice, nullptr);
  ASSERT_EQ(choice->tactics.size(), 1u);
  ASSERT_EQ(choice->tactics[0]->parts.size(), 2u);
  const auto schedule_of = [&](std::size_t part) {
    return choice->tactics[0]->parts[part]->work.AsKernelStep()->variants.back()->schedule;
  };
  EXPECT_THAT(schedule_of(0), HasSubstr("most_rows=8"));
  EXPECT_THAT(schedule_of(1), HasSubstr("least_rows=9"));
}

TEST(AttentionPrologue, LoadsWhatIsGivenBeforeItWaits) {
  const AttentionFrontEmitted kernel = emit(kSteps[0], true, true);
  const std::string& source = kernel.kernel.source;
  const std::size_t queries = source.find("shared_keys_queries("),
                    table = source.find("load<8>(p", queries),
                    wait = source.find("wait();", queries), x = source.find("load<8>(x0", queries);
  EXPECT_LT(table, wait);
  EXPECT_LT(wait, x);
  EXPECT_THAT(source, HasSubstr("prologue_of<true>"));
  EXPECT_THAT(emit(kSteps[0], false, true).kernel.source, HasSubstr("prologue_of<false>"));
  // What a step may write is read through a pointer that the assembler knows nothing of.
  EXPECT_THAT(source, Not(HasSubstr("place = *after_grid_wait(")));
  EXPECT_THAT(emit(kSteps[0], false, true).kernel.source, HasSubstr("place = *after_grid_wait("));
}

}  // namespace
}  // namespace sinter::test
#endif
