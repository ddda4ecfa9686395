// SPDX-License-Identifier: Apache-2.0
#include "fusion/patterns/pattern.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fusion/patterns/matcher.h"
#include "ir/text/text.h"
#include "sinter/error.h"
#include "support.h"
#include "tests/support/paths.h"

namespace sinter::fusion::test {
namespace {

using testing::HasSubstr;

std::string parse_error(std::string_view text) {
  try {
    parse_pattern(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInternal);
    return error.what();
  }
  ADD_FAILURE() << "'" << text << "' parses";
  return "";
}

void collect_variables(const Pattern& pattern, std::set<std::string>& names) {
  if (pattern.kind == Pattern::Kind::kVariable) names.insert(pattern.name);
  for (const Pattern& arg : pattern.args) collect_variables(arg, names);
}

/// How often `pattern` matches the graph's only output.
std::size_t matches(std::string_view pattern, const std::string& body) {
  const ir::Graph graph =
      ir::parse_graph("graph @main(%x: f32[4, 8], %w: f32[8]) {\n" + body + "\n  return y = %y\n}");
  MatchFacts facts(graph);
  Matcher matcher(facts, graph.outputs()[0]);
  return matcher.match(parse_pattern(pattern)).size();
}

TEST(Pattern, ErrorsGiveTheColumn) {
  EXPECT_THAT(parse_error("x * "), HasSubstr("the expression ends early"));
  EXPECT_THAT(parse_error("Exp(x"), HasSubstr("column 6: expected ')'"));
  EXPECT_THAT(parse_error("Exp x"), HasSubstr("expected '(' after Exp"));
  EXPECT_THAT(parse_error("x y"), HasSubstr("column 3: unexpected text"));
  EXPECT_THAT(parse_error("x * ?"), HasSubstr("column 5: expected a name"));
}

TEST(Pattern, ConstantsAreCollected) {
  const Pattern product = parse_pattern("x * 3 / 2 * y");
  EXPECT_EQ(product.kind, Pattern::Kind::kProduct);
  EXPECT_EQ(product.number, 1.5);
  EXPECT_EQ(product.args.size(), 2u);
  const Pattern sum = parse_pattern("1 + x + 2");
  EXPECT_EQ(sum.kind, Pattern::Kind::kSum);
  EXPECT_EQ(sum.number, 3);
}

TEST(Pattern, IdiomsAreWellFormed) {
  std::set<std::string_view> names;
  for (const Idiom& idiom : idioms()) {
    SCOPED_TRACE(idiom.name);
    EXPECT_TRUE(names.insert(idiom.name).second) << "twice";
    std::set<std::string> bound, used;
    collect_variables(parse_pattern(idiom.pattern), bound);
    const Pattern replacement = parse_pattern(idiom.replacement);
    collect_variables(replacement, used);
    ASSERT_EQ(replacement.kind, Pattern::Kind::kCall);
    EXPECT_NE(ir::find_op(replacement.name), nullptr);
    EXPECT_TRUE(std::includes(bound.begin(), bound.end(), used.begin(), used.end()));
  }
}

TEST(Matcher, SeesThroughGroupingAndOrder) {
  for (const char* body : {"%a = Mul(%x, %w)\n %c = const f32[] {2}\n %y = Mul(%a, %c)",
                           "%c = const f32[] {2}\n %a = Mul(%c, %w)\n %y = Mul(%a, %x)",
                           "%c = const f32[] {0.5}\n %a = Div(%x, %c)\n %y = Mul(%w, %a)",
                           "%c = const f32[1, 8] splat(2)\n %a = Mul(%w, %c)\n %y = Mul(%x, %a)"})
    EXPECT_GT(matches("2 * x * w", body), 0u) << body;
  EXPECT_EQ(matches("2 * x * w", "%y = Mul(%x, %w)"), 0u);
  EXPECT_EQ(matches("2 * x * x", "%c = const f32[] {2}\n %a = Mul(%x, %w)\n %y = Mul(%a, %c)"), 0u);
}

TEST(Matcher, PowersAreProducts) {
  const std::string three = "%c = const f32[] {3}\n %y = Pow(%x, %c)";
  EXPECT_GT(matches("x * x * x", three), 0u);
  EXPECT_EQ(matches("x * x", three), 0u);
  EXPECT_GT(matches("x * x", "%y = Square(%x)"), 0u);
}

TEST(Matcher, InverseRootsInEverySpelling) {
  const std::string half =
      "%h = const f32[] {0.5}\n %m = const f32[] {-0.5}\n"
      "%one = const f32[] {1}\n";
  for (const char* body :
       {"%r = Rsqrt(%w)\n %y = Mul(%x, %r)", "%s = Sqrt(%w)\n %y = Div(%x, %s)",
        "%s = Sqrt(%w)\n %r = Reciprocal(%s)\n %y = Mul(%r, %x)",
        "%s = Reciprocal(%w)\n %r = Sqrt(%s)\n %y = Mul(%r, %x)",
        "%s = Sqrt(%w)\n %r = Div(%one, %s)\n %y = Mul(%r, %x)",
        "%s = Pow(%w, %h)\n %y = Div(%x, %s)", "%s = Pow(%w, %m)\n %y = Mul(%x, %s)"})
    EXPECT_GT(matches("x * Rsqrt(w)", half + body), 0u) << body;
  EXPECT_EQ(matches("x * Rsqrt(w)", "%s = Sqrt(%w)\n %y = Mul(%x, %s)"), 0u);
  EXPECT_EQ(matches("x * Rsqrt(w)", "%s = Rsqrt(%w)\n %y = Div(%x, %s)"), 0u);
}

TEST(Matcher, TheSameNameIsTheSameElement) {
  const std::string body = R"(%r = Reshape(%x) {shape = [32]}
    %b = Reshape(%r) {shape = [4, 8]}
    %y = Add(%x, %b))";
  EXPECT_GT(matches("x + x", body), 0u);
  const std::string crossed = R"(%r = Reshape(%x) {shape = [8, 4]}
    %t = Transpose(%r) {perm = [1, 0]}
    %y = Add(%x, %t))";
  EXPECT_EQ(matches("x + x", crossed), 0u);
}

/// A product of very many factors is given up in bounded work, not explored in all its groupings.
TEST(Matcher, LongProductsEnd) {
  std::string body = "%a0 = Mul(%x, %w)\n";
  for (int i = 1; i < 60; ++i) {
    const std::string last = "%a" + std::to_string(i - 1);
    body += "%a" + std::to_string(i) + " = Mul(" + last + ", " + (i % 2 != 0 ? last : "%x") + ")\n";
  }
  body += "%y = Mul(%a59, %w)";
  EXPECT_EQ(matches("x * Sigmoid(x) * w * w", body), 0u);
}

/// The order of the operands of commutative operators is the exporter's accident.
TEST(Recognise, OperandOrderDoesNotMatter) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(source_dir()) / "tests/fusion/goldens/recognise";
  int checked = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::ifstream file(entry.path());
    std::string text, line;
    while (std::getline(file, line) && line != "----")
      if (line.rfind("//", 0) != 0) text += line + "\n";
    const ir::Graph graph = ir::parse_graph(text);
    Context context;
    const ir::Graph expected = run_pass("recognise", graph, context);
    if (expected.nodes().size() != 1) continue;
    const ir::Graph swapped = ir::rewrite(
        graph,
        [](ir::GraphBuilder& builder, const ir::Graph&, const ir::Node& node,
           std::span<const ir::ValueId> inputs) -> std::optional<std::vector<ir::ValueId>> {
          if (!node.op->commutative) return std::nullopt;
          return builder.add_multi(node.op->name, {inputs[1], inputs[0]}, node.attrs);
        });
    const ir::Graph found = run_pass("recognise", swapped, context);
    EXPECT_TRUE(ir::structurally_equal(found, expected)) << entry.path() << ir::print(found);
    ++checked;
  }
  EXPECT_GE(checked, 20);
}

}  // namespace
}  // namespace sinter::fusion::test
