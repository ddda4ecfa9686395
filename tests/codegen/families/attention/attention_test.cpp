// SPDX-License-Identifier: Apache-2.0
// Attention regions: what they are lowered to, and their kernels on the emulator.
#ifdef SINTER_WITH_CUDA
#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>

#include "attention_cases.h"
#include "codegen/families/attention/attention_lowering.h"
#include "codegen/families/attention/emit_attention.h"
#include "codegen/families/attention/schedule/attention_fit.h"
#include "ir/reference/evaluate.h"
#include "ir/text/text.h"
#include "tests/codegen/emulation/compile_all.h"
#include "tests/codegen/emulation/cuda_emulation.h"
#include "tests/codegen/emulation/region_check.h"
#include "tests/support/paths.h"

namespace sinter::test {
namespace {

using testing::HasSubstr;

std::vector<std::uint32_t> numbers(std::size_t first, std::size_t count) {
  std::vector<std::uint32_t> result;
  for (std::size_t i = 0; i < count; ++i) result.push_back(static_cast<std::uint32_t>(first + i));
  return result;
}

codegen::AttentionProgram lower(const ir::Graph& body, codegen::ExprTable& exprs) {
  const std::size_t inputs = body.inputs().size();
  return codegen::lower_attention(body, numbers(0, inputs), numbers(inputs, 1), exprs);
}

/// A kernel with the table that its expressions are in.
struct EmittedAttention {
  ir::Graph body;
  codegen::ExprTable exprs;
  codegen::AttentionProgram program;
  codegen::EmittedKernel kernel;
};
EmittedAttention emit(const AttentionCase& test) {
  const ir::Graph body = ir::parse_graph(test.text);
  codegen::ExprTable exprs(body.ranges());
  codegen::AttentionProgram program = lower(body, exprs);
  // Of caches those that end at a position are fetched early.
  program.cached = program.limits && !program.has_row_limits();
  auto kernel = codegen::emit_attention(program, test.name, {"layer/attention"}, exprs,
                                        program.cached, test.schedule);
  return {body, std::move(exprs), std::move(program), std::move(kernel)};
}

/// Of sequences of about equal parts of `rows`, every third of them empty; a few rows are in none.
ir::Tensor bounds_of(std::int64_t rows, std::int64_t sequences) {
  const std::int64_t first = rows > 20 ? 2 : 0, end = rows > 20 ? rows - 3 : rows;
  std::vector<std::int64_t> bounds{first};
  for (std::int64_t i = 0; i < sequences; ++i) {
    const std::int64_t all = first + (end - first) * (i + 1) / sequences;
    bounds.push_back(i + 1 == sequences ? end : i % 3 == 1 ? bounds.back() : all);
  }
  return ir::Tensor::from_ints(DType::kInt64, {sequences + 1}, bounds);
}

std::vector<ir::Tensor> inputs_of(const ir::Graph& body, const ir::Bindings& sizes) {
  std::vector<ir::Tensor> inputs = random_inputs(body, sizes, 7);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string& name = body.value(body.inputs()[i]).name;
    if (name == "limits") {  // from one key to more than there are
      const std::vector<std::int64_t>& k = inputs[1].shape();
      std::vector<double> values;
      for (std::int64_t e = 0; e < inputs[i].element_count(); ++e)
        values.push_back(static_cast<double>(1 + (e * 131 + 57) % (k[k.size() - 2] + 5)));
      inputs[i] = ir::Tensor::from_doubles(inputs[i].dtype(), inputs[i].shape(), values);
    }
    if (inputs[i].dtype() == DType::kInt8) {  // all values that there are
      std::vector<double> values;
      for (std::int64_t e = 0; e < inputs[i].element_count(); ++e)
        values.push_back(static_cast<double>(e * 97 % 255 - 127));
      inputs[i] = ir::Tensor::from_doubles(DType::kInt8, inputs[i].shape(), values);
    }
    if (name.ends_with("_scales")) {  // such that rows are below 2
      const double largest = inputs[1].dtype() == DType::kInt8 ? 128 : 2;
      std::vector<double> values;
      for (std::int64_t e = 0; e < inputs[i].element_count(); ++e)
        values.push_back((1 + static_cast<double>(e * 37 % 64) / 64) / largest);
      inputs[i] = ir::Tensor::from_doubles(DType::kFloat32, inputs[i].shape(), values);
    }
    if (name == "bounds") inputs[i] = bounds_of(inputs[0].shape()[0], inputs[i].shape()[0] - 1);
    if (name != "none" && name != "low") continue;
    const double value = name == "low" ? -3.4028234e38 : 0;
    const std::vector<double> all(static_cast<std::size_t>(inputs[i].element_count()), value);
    inputs[i] = ir::Tensor::from_doubles(inputs[i].dtype(), inputs[i].shape(), all);
  }
  return inputs;
}

/// Values are below 2. Weights are rounded before the second product, the result is once more: half
/// a unit of 11 (or 8) bits each, of values up to 2.
double attention_tolerance(DType type) { return type == DType::kFloat16 ? 2e-3 : 1.6e-2; }

/// What `expected` may be off by: the tolerance, and of results of 8 bits a step.
double allowed(const codegen::AttentionProgram& program, double expected) {
  if (program.is_float32() && !program.rounding) return 1e-5;
  if (!program.rounding) return attention_tolerance(program.y.dtype);
  if (is_integer(program.y.dtype))
    return 1 + attention_tolerance(program.dtype) / program.rounding->scale;
  const double step = std::abs(expected) / (program.y.dtype == DType::kFloat8E4M3FN ? 8 : 4);
  return std::max(step, 0x1p-9) + attention_tolerance(program.dtype) / program.rounding->scale;
}

std::string difference(const codegen::AttentionProgram& program, const ir::Tensor& expected,
                       const std::vector<std::byte>& found) {
  const std::size_t size = size_of(expected.dtype());
  double others = 0;
  for (std::int64_t i = 0; i < expected.element_count(); ++i) {
    const double a =
        ir::load_as_double(expected.dtype(), found.data() + static_cast<std::size_t>(i) * size);
    const double e = expected.at(i);
    others += a != e;
    if (std::isnan(e) ? !std::isnan(a) : !(std::abs(a - e) <= allowed(program, e)))
      return fmt::format("[{}] is {}, not {}", i, a, e);
  }
  // Steps of 8 bits are large beside what sums differ by.
  if (size == 1 && others > 0.15 * static_cast<double>(expected.element_count()))
    return fmt::format("{} elements are others", others);
  return "";
}

/// The values of the plan's expressions with these sizes.
/// Every kParts-th case from one on: parts run side by side.
constexpr std::size_t kParts = 4;
class AttentionCases : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Parts, AttentionCases, testing::Range(std::size_t{0}, kParts));

TEST_P(AttentionCases, MeanTheirBodies) {
  std::vector<const AttentionCase*> cases;
  std::vector<EmittedAttention> emitted;
  std::vector<codegen::EmittedKernel> kernels;
  for (std::size_t c = GetParam(); c < std::size(kAttentionCases); c += kParts) {
    SCOPED_TRACE(kAttentionCases[c].name);
    cases.push_back(&kAttentionCases[c]);
    emitted.push_back(emit(kAttentionCases[c]));
    kernels.push_back(emitted.back().kernel);
  }
  const EmulatedKernels library(kernels);
  for (std::size_t c = 0; c < emitted.size(); ++c) {
    const EmittedAttention& kernel = emitted[c];
    for (const ir::Bindings& sizes : cases[c]->sizes) {
      const auto inputs = inputs_of(kernel.body, sizes);
      const ir::Tensor expected = ir::evaluate(kernel.body, inputs)[0];
      Memory memory;
      for (const ir::Tensor& input : inputs)
        memory.emplace_back(input.bytes().begin(), input.bytes().end());
      memory.emplace_back(expected.bytes().size(), std::byte{0xa5});
      EXPECT_EQ(run_variants(cases[c]->name, library, kernel.kernel.step,
                             expressions_of(kernel.exprs, sizes), memory,
                             [&](const plan::fb::KernelVariantT& variant, const Memory& found) {
                               return problem_in(
                                   variant, 0, difference(kernel.program, expected, found.back()));
                             }),
                "")
          << to_string(expected.type());
    }
  }
}

/// Steps of a paged cache: single tokens, prompts, sequences of nothing, rows of no sequence.
TEST(AttentionKernels, ShortAndLongSequencesAreTwoKernels) {
  // Blocks of fewer keys than a tile has, of as many, and of more.
  const std::tuple<const char*, const char*, int, const char*> forms[] = {
      {"f16", "scale = 0.1", 16, ""},
      {"f8e4m3fn", "scale = 0.1", 16, ""},
      {"f16", "scale = 0.3, window = 37", 16, kCappedBy2},
      {"f8e4m3fn", "scale = 15", 16, kCappedBy2},
      {"f16", "scale = 0.1", 32, ""},
      {"f8e4m3fn", "scale = 0.1", 64, ""}};
  // More sequences than a warp looks at once, and rows enough for a kernel of long ones.
  std::vector<std::int64_t> many(270, 0);
  for (std::size_t i = 1; i < many.size(); ++i)
    many[i] = many[i - 1] + (i % 3 == 0 ? 0 : i > 225 ? 100 : 1);
  for (const auto& [cache, attributes, block, scores] : forms) {
    const bool has_scales = std::string_view(cache) != "f16";
    const ir::Graph body = ir::parse_graph(fmt::format(
        R"(graph @g(%q: f16[1, 2, 2, tokens, 64], %k: {0}[1, 2, 1, 320, 64], %v: {0}[1, 2, 1, 320, 64],
                    %limits: i64[tokens, 1], %bounds: i32[sequences + 1], %tables: i32[sequences, 5]{1})
             ranges {{tokens: 1..65536, sequences: 1..1023}} {{
          %y = Attention(%q, %k, %v, %limits, %bounds, %tables{2}) {{{3}, limited = 1, guard = 2, paged = {4}}} {5}
          return y = %y
        }})",
        cache, has_scales ? ", %ks: f32[1, 2, 1, 320, 1], %vs: f32[1, 2, 1, 320, 1]" : "",
        has_scales ? ", %ks, %vs" : "", attributes, block, scores));
    codegen::ExprTable exprs(body.ranges());
    codegen::AttentionProgram program = lower(body, exprs);
    codegen::group_rows(program);
    ASSERT_EQ(program.group, 2);
    ASSERT_EQ(codegen::few_rows_of_sequence(program, exprs.ranges()), 8);
    std::vector<codegen::EmittedKernel> kernels;
    for (const auto taken : {codegen::PagedSequences::kShort, codegen::PagedSequences::kLong}) {
      program.taken = taken;
      kernels.push_back(
          codegen::emit_attention(program, fmt::format("attention{}", kernels.size()), {}, exprs));
    }
    const EmulatedKernels library(kernels);
    std::vector<std::vector<std::int64_t>> steps = {
        {1, 2, 3, 3, 60, 62, 100}, {0, 1, 2, 3, 4}, {0, 30}, {0, 1, 100, 200, 201}};
    if (block == 32) steps = {many};
    if (block == 64) steps.resize(1);
    for (const std::vector<std::int64_t>& bounds : steps) {
      const auto sequences = static_cast<std::int64_t>(bounds.size()) - 1;
      const std::int64_t tokens = bounds.back() + (bounds[0] > 0 ? 4 : 0);
      const ir::Bindings sizes = {{"tokens", tokens}, {"sequences", sequences}};
      std::vector<ir::Tensor> inputs = inputs_of(body, sizes);
      std::vector<double> limits, tables;
      for (std::int64_t t = 0; t < tokens; ++t)
        limits.push_back(static_cast<double>((t * 7 + 3) % 80));
      for (std::int64_t i = 0; i < sequences * 5; ++i)
        tables.push_back(static_cast<double>(i * 13 % (320 / block)));
      inputs[3] = ir::Tensor::from_doubles(DType::kInt64, {tokens, 1}, limits);
      inputs[4] = ir::Tensor::from_doubles(DType::kInt32, {sequences + 1},
                                           std::vector<double>(bounds.begin(), bounds.end()));
      inputs[5] = ir::Tensor::from_doubles(DType::kInt32, {sequences, 5}, tables);
      if (has_scales)
        for (const std::size_t i : {6U, 7U})
          inputs[i] = ir::Tensor::from_doubles(
              DType::kFloat32, inputs[i].shape(),
              std::vector<double>(static_cast<std::size_t>(inputs[i].element_count()), 0.01));
      const ir::Tensor expected = ir::evaluate(body, inputs)[0];
      Memory memory;
      for (const ir::Tensor& input : inputs)
        memory.emplace_back(input.bytes().begin(), input.bytes().end());
      memory.emplace_back(expected.bytes().size(), std::byte{0xa5});
      const auto values = expressions_of(exprs, sizes);
      const auto check_both = [&](const plan::fb::KernelVariantT&, const Memory& found) {
        return run_variants("long", library, kernels[1].step, values, found,
                            [&](const plan::fb::KernelVariantT& variant, const Memory& both) {
                              return problem_in(variant, 0,
                                                difference(program, expected, both.back()));
                            });
      };
      EXPECT_EQ(run_variants("short", library, kernels[0].step, values, memory, check_both), "")
          << cache << ' ' << attributes << ' ' << tokens;
    }
  }
}

TEST(AttentionKernels, EveryFormIsSeen) {
  std::set<std::string> schedules;
  for (const AttentionCase& test : kAttentionCases) {
    const EmittedAttention kernel = emit(test);
    for (const ir::Bindings& sizes : test.sizes) {
      const auto values = expressions_of(kernel.exprs, sizes);
      for (const auto& variant : kernel.kernel.step.variants)
        if (may_run(*variant, values)) schedules.insert(variant->schedule);
    }
  }
  for (const char* part :
       {"rows=1x8 key_groups=2", "rows=2x8 key_groups=2", "rows=1x16 key_groups=2", "groups=4",
        "groups=8", "rows=4x16 key_groups=2", "rows=4x16 key_groups=1 keys=64", "rows=4x32",
        "vector=8", "vector=2", "vector=1 single", "groups=4 keys=32 vector=8 split_kv=8",
        "rows=4x16 key_groups=1 keys=128 vector=8 stages=2",
        "rows=8x16 key_groups=1 keys=128 vector=8 stages=2 blocks=132",
        "rows=12x16 key_groups=1 keys=96 vector=8 stages=3"})
    EXPECT_TRUE(std::any_of(schedules.begin(), schedules.end(), [&](const std::string& text) {
      return text.find(part) != text.npos;
    })) << part;
}

/// What instructions of a schedule depend on, but for their number: the types and widths of copies,
/// the shapes of products.
std::set<std::string> instructions_of(const codegen::AttentionProgram& p,
                                      const std::string& schedule) {
  const auto word = [&](const char* name) {
    const std::size_t at = schedule.find(name);
    return at == schedule.npos ? "" : schedule.substr(at, schedule.find(' ', at) - at);
  };
  const std::string type(to_string(p.dtype));
  std::string mask = p.mask ? std::string(to_string(p.mask->dtype)) : "none";
  if (p.scores) mask += fmt::format(", scores of {} instructions", p.scores->instrs.size());
  if (schedule.find("stages=") == schedule.npos)
    return {fmt::format("{} {} {} {} {}", type, word("vector="), word("single"),
                        schedule.find("split_kv=") != schedule.npos,
                        schedule.find("x8 ") != schedule.npos),
            fmt::format("{} values {}", type, p.value_head % 16), "mask " + mask};
  const std::string key_type(to_string(p.k.dtype));
  return {fmt::format("{} {} {} head {}", type, key_type, word("keys="), p.head),
          fmt::format("{} {} {} values {}", type, key_type, word("keys="), p.value_head),
          "by groups, mask " + mask};
}

void compile(std::span<const std::string> texts, const std::vector<std::string>& targets) {
  const auto compiled = codegen::compile_cuda(texts, targets);
  ASSERT_EQ(compiled.size(), texts.size());
  for (const auto& kernel : compiled)
    for (const auto& variant : kernel) EXPECT_GT(variant.code.size(), 1000u);
}

/// The emulator runs all schedules of all cases; what differs on a GPU, instructions, is compiled
/// once each.
TEST(AttentionKernels, CompileTheirInstructions) {
  std::vector<std::string> by_warps, on_sm_90;
  std::set<std::string> seen;
  for (const AttentionCase& test : kAttentionCases) {
    const EmittedAttention kernel = emit(test);
    for (const auto& variant : kernel.kernel.step.variants) {
      const std::size_t before = seen.size();
      seen.merge(instructions_of(kernel.program, variant->schedule));
      if (seen.size() == before) continue;
      AttentionCase alone = test;
      alone.schedule = variant->schedule.c_str();
      const bool for_any =
          variant->cluster == 1 && variant->schedule.find("stages=") == std::string::npos;
      (for_any ? by_warps : on_sm_90).push_back(emit(alone).kernel.source);
    }
  }
  EXPECT_GE(by_warps.size(), 6u);
  EXPECT_GE(on_sm_90.size(), 6u);
  compile(by_warps, {"sm_80"});
  compile(on_sm_90, {"sm_90"});
}

/// The functions of one GPU are left out for others.
TEST(AttentionKernels, CompileForEveryArchitecture) {
  const auto groups = std::find_if(
      std::begin(kAttentionCases), std::end(kAttentionCases),
      [](const AttentionCase& test) { return test.name == std::string("heads_of_64"); });
  ASSERT_NE(groups, std::end(kAttentionCases));
  EmittedAttention early = emit(*groups);
  early.kernel = codegen::emit_attention(early.program, "early", {}, early.exprs, true);
  for (const auto& variant : early.kernel.step.variants) EXPECT_TRUE(variant->programmatic_launch);
  EXPECT_THAT(early.kernel.source, HasSubstr("grid_dependency_wait();"));
  EXPECT_THAT(early.kernel.source, HasSubstr("#ifdef SINTER_WARPGROUPS"));
  compile({&early.kernel.source, 1}, {"sm_80", "sm_90", "sm_100"});
}

/// What only some GPUs run is followed by a form that all run.
TEST(AttentionKernels, EndWithAFormForEveryGpu) {
  for (const AttentionCase& test : kAttentionCases) {
    if (*test.schedule != 0) continue;
    const auto& variants = emit(test).kernel.step.variants;
    const auto& last = *variants.back();
    EXPECT_TRUE(last.conditions.empty()) << test.name;
    EXPECT_EQ(last.cluster, 1u) << test.name;
    EXPECT_EQ(last.schedule.find("stages"), std::string::npos) << test.name;
  }
}

TEST(AttentionKernels, RefuseSchedulesThatDoNotTakeThem) {
  const auto refusal_of = [](const char* schedule) -> std::string {
    const ir::Graph body = ir::parse_graph(kAttentionCases[1].text);
    codegen::ExprTable exprs(body.ranges());
    try {
      codegen::emit_attention(lower(body, exprs), "attention", {}, exprs, false, schedule);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal_of("row vector=8"), HasSubstr("is no schedule of attention"));
  EXPECT_THAT(refusal_of("attention rows=4"), HasSubstr("is no schedule of attention"));
  EXPECT_THAT(refusal_of("attention rows=8x16 key_groups=1 keys=128 vector=8 stages=2"),
              HasSubstr("does not take"));
}

TEST(AttentionKernels, FitIntoSharedMemory) {
  for (const AttentionCase& test : kAttentionCases)
    for (const auto& variant : emit(test).kernel.step.variants) {
      const bool exact = variant->schedule.find("stages") != std::string::npos;
      const bool of_device =
          exact || variant->cluster > 1 || std::string_view(test.name).starts_with("float32");
      EXPECT_LE(variant->shared_bytes, (of_device ? 227u : 96u) * 1024)
          << test.name << " " << variant->schedule;
      EXPECT_LE(variant->block[0], exact ? 512u : 256u);
    }
}

/// Generated text and the strided problem behind it, as in goldens/.
TEST(AttentionKernels, AreReadable) {
  const EmittedAttention kernel = emit(kAttentionCases[0]);
  const std::string text =
      codegen::print_attention(kernel.program, kernel.exprs) + "----\n" + kernel.kernel.source;
  const std::string path = source_dir() + "/tests/codegen/goldens/attention.kernel.cu";
  if (std::getenv("SINTER_UPDATE_GOLDENS") != nullptr) {
    std::ofstream(path) << text;
    return;
  }
  std::ifstream file(path);
  std::ostringstream expected;
  expected << file.rdbuf();
  EXPECT_EQ(text, expected.str()) << "SINTER_UPDATE_GOLDENS=1 rewrites " << path;
}

TEST(AttentionLowering, JoinsBatchAndRows) {
  codegen::ExprTable exprs{ir::Ranges{}};
  const auto program = lower(ir::parse_graph(R"(
    graph @g(%q: f16[2, 3, 5, 16], %k: f16[2, 3, 7, 16], %v: f16[2, 3, 7, 16]) {
      %y = Attention(%q, %k, %v) {scale = 0.25}
      return y = %y
    })"),
                             exprs);
  EXPECT_EQ(program.batch, std::vector<ir::Dim>{6});
  EXPECT_EQ(program.q.batch, std::vector<ir::Dim>{80});
  codegen::ExprTable other{ir::Ranges{}};
  const auto decode = lower(ir::parse_graph(kAttentionCases[10].text), other);
  EXPECT_EQ(decode.rows, ir::Dim(4));
  EXPECT_EQ(decode.q.row, ir::Dim(64));
}

TEST(AttentionLowering, CountsWork) {
  codegen::ExprTable exprs{ir::Ranges{}};
  const auto program = lower(ir::parse_graph(kAttentionCases[10].text), exprs);
  const auto work = codegen::cost_of(program, exprs, [](std::uint32_t) {
    return codegen::BufferSize{ir::Dim(1 << 20), 2};
  });
  const std::int64_t keys = 2 * 2 * 300 * 64 * 2, queries = 2 * 2 * 4 * 64 * 2, mask = 2 * 300;
  EXPECT_EQ(work.bytes_read, ir::Dim(2 * keys + queries + mask));
  EXPECT_EQ(work.bytes_written, ir::Dim(queries));
  EXPECT_EQ(work.flops, ir::Dim(2 * 16 * 300 * 128));
}

std::string refusal(const char* text) {
  const ir::Graph body = ir::parse_graph(text);
  codegen::ExprTable exprs(body.ranges());
  try {
    codegen::emit_attention(lower(body, exprs), "attention", {}, exprs);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    return error.what();
  }
  return "";
}

TEST(AttentionLowering, RefusesByName) {
  EXPECT_THAT(refusal(R"(graph @g(%q: f32[4, 16], %k: f32[4, 16], %v: f32[4, 16]) {
      %y = Attention(%q, %k, %v) {scale = 1}
      return y = %y })"),
              HasSubstr("float32 heads of 16 and 16 are no multiples of 8 and 32"));
  EXPECT_THAT(refusal(R"(graph @g(%q: f16[4, 264], %k: f16[4, 264], %v: f16[4, 16]) {
      %y = Attention(%q, %k, %v) {scale = 1}
      return y = %y })"),
              HasSubstr("head dimension 264 is above 256"));
  EXPECT_THAT(refusal(R"(graph @g(%q: f16[4, 16], %k: f16[16, 4], %v: f16[4, 16]) {
      %t = Transpose(%k) {perm = [1, 0]}
      %y = Attention(%q, %t, %v) {scale = 1}
      return y = %y })"),
              HasSubstr("the columns of k have stride 4"));
}

}  // namespace
}  // namespace sinter::test
#endif
