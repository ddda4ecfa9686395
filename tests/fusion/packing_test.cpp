// SPDX-License-Identifier: Apache-2.0
// Packed sequences: what is refused, and what bad masks do.
#include <functional>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sinter/error.h>
#include <sinter/packed_rows.h>

#include "codegen/targets/cpu/cpu_target.h"
#include "ir/reference/evaluate.h"
#include "ir/text/text.h"
#include "support.h"

namespace sinter::fusion::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Two heads of attention over x [batch, seq, 8], with `mask` of its keys, and what follows.
std::string attention(const std::string& mask, const std::string& attributes,
                      const std::string& then) {
  return fmt::format(
      "graph @main(%x: f32[batch, seq, 8], %mask: i64[batch, seq], %table: f32[3, 8])\n"
      "    ranges {{batch: 1..64, seq: 1..64}} {{\n"
      "  %h = Reshape(%x) {{shape = [batch, seq, 2, 4]}}\n"
      "  %q = Transpose(%h) {{perm = [0, 2, 1, 3]}}\n"
      "  %keep = Cast(%mask) {{to = bool}}\n"
      "{}"
      "  %y = Attention(%q, %q, %q, %keys) {{scale = 0.5{}}}\n"
      "  %t = Transpose(%y) {{perm = [0, 2, 1, 3]}}\n"
      "  %z = Reshape(%t) {{shape = [batch, seq, 8]}}\n"
      "{}}}\n",
      mask, attributes, then);
}

const char* const kKeys = "  %keys = Reshape(%keep) {shape = [batch, 1, 1, seq]}\n";
const char* const kAll = "  return z = %z\n";
const char* const kFirst =
    "  %first = Slice(%z) {starts = [0, 0, 0], steps = [1, 1, 1], shape = [batch, 1, 8]}\n"
    "  return first = %first\n";

ir::Graph packed(const std::string& text) {
  Context context;
  context.target = codegen::cpu_target().traits();
  context.packed = true;
  return run_pass("pack_sequences", ir::parse_graph(text), context);
}

std::string refusal(const std::string& text) {
  try {
    packed(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string failure(const std::function<void()>& run) {
  try {
    run();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

struct Refused {
  const char* name;
  std::string text, why;
};

TEST(PackSequences, RefusesByName) {
  const Refused all[] = {
      {"no attention", "graph @main(%x: f32[2, 3]) {\n  %y = Relu(%x)\n  return y = %y\n}\n",
       "no attention was found"},
      {"no mask",
       "graph @main(%x: f32[2, 3, 4]) {\n  %y = Attention(%x, %x, %x) {scale = 1.0}\n  return y = "
       "%y\n}\n",
       "it has no mask"},
      {"causal", attention(kKeys, ", causal = 1", kAll), "(causal)"},
      {"a mask of all pairs",
       attention("  %a = Reshape(%keep) {shape = [batch, 1, 1, seq]}\n"
                 "  %b = Reshape(%keep) {shape = [batch, 1, seq, 1]}\n"
                 "  %keys = And(%a, %b)\n",
                 "", kAll),
       "depends on more than a mask"},
      {"a fill that counts", attention(kKeys, ", fill = -5", kAll), "does not hide the keys"},
      {"the other way round",
       attention("  %gone = Not(%keep)\n"
                 "  %keys = Reshape(%gone) {shape = [batch, 1, 1, seq]}\n",
                 "", kAll),
       "does not hide the keys where 'mask' is 0"},
      {"indices",
       attention(kKeys, "", "  %e = Gather(%table, %mask) {axis = 0}\n  return e = %e, z = %z\n"),
       "'mask', which chooses elements"},
      {"a mean over padding",
       attention(kKeys, "", "  %m = ReduceMean(%z) {axes = [1], keepdims = 0}\n  return m = %m\n"),
       "ReduceMean: it is not computed token by token"},
      {"another position than the first",
       attention(kKeys, "",
                 "  %s = Slice(%z) {starts = [0, 1, 0], steps = [1, 1, 1], shape = [batch, 1, 8]}\n"
                 "  return s = %s\n"),
       "Slice: it is not computed token by token"},
      {"a running sum",
       attention(kKeys, "",
                 "  %s = Scan(%z) {axis = 1, combine = \"sum\", exclusive = 0, reverse = 0}\n"
                 "  return s = %s\n"),
       "Scan: it is not computed token by token"},
  };
  for (const Refused& test : all) {
    const std::string found = refusal(test.text);
    EXPECT_THAT(found, HasSubstr(test.why)) << test.name;
    EXPECT_THAT(found, HasSubstr("compile without --packed")) << test.name;
  }
}

TEST(PackSequences, BatchesOfOtherNamesSayHowToMakeThemOne) {
  const std::string text =
      "graph @main(%x: f32[batch, seq, 8], %mask: bool[rows, seq])\n"
      "    ranges {batch: 1..8, rows: 1..64, seq: 1..64} {\n"
      "  %i = Iota() {shape = [batch, 1, 1], axis = 0, dtype = i64}\n"
      "  %j = Iota() {shape = [1, 1, seq], axis = 2, dtype = i64}\n"
      "  %keys = Take(%mask, %i, %j)\n"
      "  %y = Attention(%x, %x, %x, %keys) {scale = 0.5}\n"
      "  return y = %y\n}\n";
  EXPECT_THAT(refusal(text), HasSubstr("--dim rows=batch"));
}

TEST(PackSequences, AttentionThatIsNoneIsNamed) {
  const std::string text =
      "graph @main(%x: f32[2, 3, 8], %mask: f32[2, 1, 3], %bias: f32[3, 3]) {\n"
      "  %k = Transpose(%x) {perm = [0, 2, 1]}\n"
      "  %s = MatMul(%x, %k)\n"
      "  %a = Add(%s, %bias)\n"
      "  %b = Add(%a, %mask)\n"
      "  %p = Softmax(%b) {axis = 2}\n"
      "  %y = MatMul(%p, %x)\n"
      "  return y = %y, s = %s\n}\n";
  Context context;
  context.target = codegen::cpu_target().traits();
  context.packed = true;
  EXPECT_THAT(failure([&] { run_checked(ir::parse_graph(text), context); }),
              AllOf(HasSubstr("MatMul"), HasSubstr("'MatMul' has other readers"),
                    HasSubstr("compile without --packed")));
}

TEST(PackSequences, IsRefusedWithoutFusing) {
  Context context;
  context.target = codegen::cpu_target().traits();
  context.packed = true;
  context.fuse = false;
  EXPECT_THAT(failure([&] { run_checked(ir::parse_graph(attention(kKeys, "", kAll)), context); }),
              HasSubstr("--fuse=off"));
}

std::vector<ir::Tensor> inputs_of(const std::vector<std::int64_t>& mask) {
  std::vector<double> x;
  for (int i = 0; i < 2 * 3 * 8; ++i) x.push_back((i * 37 % 23) / 11.0 - 1);
  return {ir::Tensor::from_doubles(DType::kFloat32, {2, 3, 8}, x),
          ir::Tensor::from_ints(DType::kInt64, {2, 3}, mask),
          ir::Tensor::from_doubles(DType::kFloat32, {3, 8}, std::vector<double>(24, 1))};
}

TEST(PackSequences, TokensAreThoseOfAPaddedRunAndPaddingIsZero) {
  const std::string text = attention(kKeys, "", kAll);
  const ir::Graph before = ir::parse_graph(text), after = packed(text);
  for (const std::vector<std::int64_t>& mask :
       std::vector<std::vector<std::int64_t>>{{1, 1, 1, 1, 1, 1},
                                              {1, 0, 0, 1, 1, 0},
                                              {0, 1, 1, 1, 0, 1},
                                              {0, 0, 0, 0, 1, 0},
                                              {0, 0, 0, 0, 0, 0}}) {
    const auto inputs = inputs_of(mask);
    const ir::Tensor expected = ir::evaluate(before, inputs)[0],
                     found = ir::evaluate(after, inputs)[0];
    for (std::int64_t i = 0; i < found.element_count(); ++i) {
      const bool exists = mask[static_cast<std::size_t>(i / 8)] == 1;
      EXPECT_NEAR(found.at(i), exists ? expected.at(i) : 0, 1e-6) << i;
    }
  }
}

TEST(PackSequences, MasksOfOtherNumbersAreRefused) {
  const ir::Graph graph = packed(attention(kKeys, "", kAll));
  EXPECT_THAT(failure([&] {
                ir::evaluate(graph, inputs_of({1, 1, 1, 1, 2, 0}));
              }),
              HasSubstr("element [1, 1] of the mask is 2, not 0 or 1"));
}

TEST(PackSequences, FirstPositionsThatAreReadHaveToExist) {
  const std::string text = attention(kKeys, "", kFirst);
  const ir::Graph before = ir::parse_graph(text), after = packed(text);
  const auto inputs = inputs_of({1, 0, 0, 1, 1, 0});
  EXPECT_LT(relative_error(ir::evaluate(after, inputs)[0], ir::evaluate(before, inputs)[0]), 1e-6);
  EXPECT_THAT(failure([&] {
                ir::evaluate(after, inputs_of({1, 1, 1, 0, 1, 1}));
              }),
              HasSubstr("sequence 1 has no token at its first position"));
}

TEST(PackedRows, AreASixteenthMoreThanTokensAtMost) {
  EXPECT_EQ(packed_rows(0, 100), 8);
  EXPECT_EQ(packed_rows(1, 100), 8);
  EXPECT_EQ(packed_rows(9, 100), 16);
  EXPECT_EQ(packed_rows(99, 100), 100);
  EXPECT_EQ(packed_rows(3, 3), 3);
  EXPECT_EQ(packed_rows(8192, 32768), 8192);
  EXPECT_EQ(packed_rows(8193, 32768), 8704);
  for (std::int64_t tokens = 129; tokens < 40000; tokens += 7) {
    const std::int64_t rows = packed_rows(tokens, 65536);
    EXPECT_GE(rows, tokens);
    EXPECT_LE(rows - tokens, tokens / 16);
  }
}

}  // namespace
}  // namespace sinter::fusion::test
