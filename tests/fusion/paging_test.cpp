// SPDX-License-Identifier: Apache-2.0
// Decoders of many sequences give what the decoder of one gives for each; what cannot be is
// refused.
#include <algorithm>
#include <fstream>
#include <random>
#include <sstream>

#include <gmock/gmock.h>
#include <sinter/error.h>

#include "fusion/passes/passes.h"
#include "ir/reference/evaluate.h"
#include "ir/text/text.h"
#include "tests/support/paths.h"

namespace sinter::fusion::test {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kBlock = 4, kWidth = 4, kHeads = 2, kVocabulary = 32;

/// The graph of a golden case, without its options and what is expected.
std::string golden(const std::string& name) {
  std::ifstream file(source_dir() + "/tests/fusion/goldens/page_caches/" + name + ".txt");
  std::string text, line;
  while (std::getline(file, line) && !line.starts_with("----"))
    if (!line.starts_with("// ")) text += line + "\n";
  return text;
}

Graph paged(const std::string& text) {
  Context context;
  context.paging.emplace();
  context.paging->block_size = kBlock;
  return page_caches(ir::parse_graph(text), context);
}

std::string paging_refusal(const std::string& text) {
  try {
    paged(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    return error.what();
  }
  return "it was taken";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Paging, ExpertsAreCountedOnRequest) {
  const auto counted = [](const std::string& text) {
    Context context;
    context.paging.emplace();
    context.paging->block_size = kBlock;
    context.paging->counts_experts = true;
    return page_caches(ir::parse_graph(text), context);
  };
  const Graph graph = counted(golden("mixture_of_experts"));
  const auto at = std::ranges::find(graph.output_names(), paged_names::kExpertOffsets);
  ASSERT_NE(at, graph.output_names().end());
  const ir::TensorType& type =
      graph.type(graph.outputs()[static_cast<std::size_t>(at - graph.output_names().begin())]);
  EXPECT_EQ(type.dtype, DType::kInt32);
  EXPECT_EQ(type.shape, (Shape{Dim(1), Dim(5)}));
  const Graph plain = paged(golden("mixture_of_experts"));
  EXPECT_EQ(std::ranges::count(plain.output_names(), paged_names::kExpertOffsets), 0);
  try {
    counted(golden("rows_at_their_positions"));
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("no mixture of experts was recognised"));
  }
}

struct Sequence {
  std::int64_t before, tokens;
};
constexpr Sequence kSequences[] = {{5, 3}, {0, 2}, {9, 1}};

std::vector<double> some(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, 0.3);
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) value = normal(random);
  return values;
}

std::vector<double> ids_of(const Sequence& sequence, unsigned seed) {
  std::vector<double> ids;
  for (std::int64_t i = 0; i < sequence.tokens; ++i)
    ids.push_back(static_cast<double>((seed * 7 + static_cast<unsigned>(i) * 5) % kVocabulary));
  return ids;
}

/// Keys, or values, of the tokens before, [1, heads, before, width].
std::vector<double> rows_of(const Sequence& sequence, unsigned seed) {
  return some(kHeads * sequence.before * kWidth, seed);
}

/// Logits of the last token of each sequence by the graph of one.
template <class Inputs>
std::vector<double> one_by_one(const Graph& graph, const Inputs& inputs) {
  std::vector<double> all;
  for (std::size_t s = 0; s < std::size(kSequences); ++s) {
    const auto logits = ir::evaluate(graph, inputs(s))[0].to_doubles();
    all.insert(all.end(), logits.end() - kVocabulary, logits.end());
  }
  return all;
}

/// The same by the graph of many, whose blocks lie in no order.
std::vector<double> at_once(const Graph& graph) {
  constexpr std::int64_t kBlocks = 12, kTable = 3;
  std::vector<double> ids, places, slots, starts{0}, tables, samples;
  std::vector<std::vector<double>> pools(2,
                                         std::vector<double>(kHeads * kBlocks * kBlock * kWidth));
  std::int64_t next = 0;
  for (std::size_t s = 0; s < std::size(kSequences); ++s) {
    const Sequence& own = kSequences[s];
    std::vector<std::int64_t> table;
    for (std::int64_t b = 0; b < kTable; ++b) table.push_back((next++ * 5 + 7) % kBlocks);
    for (const std::int64_t block : table) tables.push_back(static_cast<double>(block));
    const auto slot = [&](std::int64_t position) {
      return table[static_cast<std::size_t>(position / kBlock)] * kBlock + position % kBlock;
    };
    for (std::size_t which = 0; which < 2; ++which) {
      const auto rows = rows_of(own, static_cast<unsigned>(10 * s + which));
      for (std::int64_t h = 0; h < kHeads; ++h)
        for (std::int64_t p = 0; p < own.before; ++p)
          std::copy_n(rows.begin() + (h * own.before + p) * kWidth, kWidth,
                      pools[which].begin() + (h * kBlocks * kBlock + slot(p)) * kWidth);
    }
    const auto tokens = ids_of(own, static_cast<unsigned>(s));
    ids.insert(ids.end(), tokens.begin(), tokens.end());
    for (std::int64_t i = 0; i < own.tokens; ++i) {
      places.push_back(static_cast<double>(own.before + i));
      slots.push_back(static_cast<double>(slot(own.before + i)));
    }
    starts.push_back(static_cast<double>(ids.size()));
    samples.push_back(static_cast<double>(ids.size() - 1));
  }
  const auto integers = [](Ints shape, const std::vector<double>& values) {
    return Tensor::from_doubles(DType::kInt32, std::move(shape), values);
  };
  const auto count = std::ssize(ids), sequences = std::ssize(samples);
  const std::vector<Tensor> inputs = {
      integers({count}, ids),
      integers({count}, places),
      integers({count}, slots),
      integers({sequences + 1}, starts),
      integers({sequences, kTable}, tables),
      integers({sequences}, samples),
      Tensor::from_doubles(DType::kFloat64, {sequences, 4},
                           std::vector<double>(static_cast<std::size_t>(sequences) * 4)),
      Tensor::from_doubles(DType::kInt64, {sequences, 6},
                           std::vector<double>(static_cast<std::size_t>(sequences) * 6, -1)),
      integers({1, 1}, {0}),
      integers({1}, {0}),
      Tensor::from_doubles(DType::kFloat32, {1}, std::vector<double>{0}),
      integers({sequences}, std::vector<double>(static_cast<std::size_t>(sequences), -1)),
      Tensor::from_doubles(DType::kFloat32, {1, kHeads, kBlocks * kBlock, kWidth}, pools[0]),
      Tensor::from_doubles(DType::kFloat32, {1, kHeads, kBlocks * kBlock, kWidth}, pools[1])};
  const std::vector<Tensor> outputs = ir::evaluate(graph, inputs);
  // The tokens, in front of their log probabilities, are greedy without a temperature.
  const Tensor& tokens = outputs[outputs.size() - 3];
  const auto logits = outputs[0].to_doubles();
  for (std::int64_t s = 0; s < sequences; ++s) {
    const auto first = logits.begin() + s * kVocabulary;
    EXPECT_EQ(tokens.at_int(s), std::max_element(first, first + kVocabulary) - first);
  }
  return logits;
}

/// A decoder that puts rows at their positions, of many sequences and with sampled rows alone,
/// gives what it gives for each.
void expect_what_one_gives(const std::string& text) {
  const auto expected = one_by_one(ir::parse_graph(text), [](std::size_t s) {
    constexpr std::int64_t kLength = 16;
    const Sequence& own = kSequences[s];
    std::vector<Tensor> caches;
    for (unsigned which = 0; which < 2; ++which) {
      const auto rows = rows_of(own, static_cast<unsigned>(10 * s) + which);
      std::vector<double> all(kHeads * kLength * kWidth);
      for (std::int64_t h = 0; h < kHeads; ++h)
        std::copy_n(rows.begin() + h * own.before * kWidth, own.before * kWidth,
                    all.begin() + h * kLength * kWidth);
      caches.push_back(Tensor::from_doubles(DType::kFloat32, {1, kHeads, kLength, kWidth}, all));
    }
    return std::vector<Tensor>{
        Tensor::from_doubles(DType::kInt64, {1, own.tokens}, ids_of(own, static_cast<unsigned>(s))),
        Tensor::from_doubles(DType::kInt64, {1},
                             std::vector<double>{static_cast<double>(own.before)}),
        caches[0], caches[1]};
  });
  const Graph many = paged(text);
  EXPECT_THAT(at_once(many), testing::Pointwise(testing::FloatEq(), expected));
  Context context;
  const Graph few = select_rows(many, context);
  EXPECT_THAT(at_once(few), testing::Pointwise(testing::FloatEq(), expected));
}

TEST(Paging, RowsAtTheirPositionsGiveWhatOneSequenceGives) {
  expect_what_one_gives(golden("rows_at_their_positions"));
}

/// The scale of the one block of a row has more dimensions than the row.
TEST(Paging, ProductsOfBlocksOfEightBitsGiveWhatOneSequenceGives) {
  std::string text = golden("rows_at_their_positions");
  text = replaced(text, "%row = Gather(%all, %last)", R"(%size = Abs(%all)
  %scales = ReduceMax(%size) {axes = [2], keepdims = 1}
  %parts = Quotient(%all, %scales)
  %narrow = Cast(%parts) {to = f8e4m3fn}
  %wa = const f8e4m3fn[8, 8] random(3)
  %sa = const f32[1, 1] {0.5}
  %every = MatMul(%narrow, %wa, %scales, %sa) {x = "f8e4m3fn * f32 group 8", w = "f8e4m3fn * f32 block 8x8"}
  %row = Gather(%every, %last))");
  text = replaced(text, "%logits = MatMul(%row, %w)", R"(%blocks = Reshape(%row) {shape = [1, 1, 8]}
  %sizes = Abs(%blocks)
  %scale = ReduceMax(%sizes) {axes = [2], keepdims = 1}
  %part = Quotient(%row, %scale)
  %cast = Cast(%part) {to = f8e4m3fn}
  %codes = Reshape(%cast) {shape = [1, 8]}
  %sx = Reshape(%scale) {shape = [1, 1]}
  %wb = const f8e4m3fn[32, 8] random(4)
  %sb = const f32[4, 1] random(5)
  %logits = MatMul(%codes, %wb, %sx, %sb) {x = "f8e4m3fn * f32 group 8", w = "f8e4m3fn * f32 block 8x8"})");
  expect_what_one_gives(text);
}

TEST(Paging, MixturesOfExpertsGiveWhatOneSequenceGives) {
  const std::string text = golden("mixture_of_experts");
  expect_what_one_gives(text);
  const char* const mixes = "not known to compute token by token";
  // Rows of other tokens, and of other mixtures' order.
  EXPECT_THAT(paging_refusal(replaced(text, "%two = const i32[] {2}", "%two = const i32[] {3}")),
              HasSubstr(mixes));
  EXPECT_THAT(paging_refusal(replaced(text, "Gather(%both, %rows_of)", "Gather(%both, %e)")),
              HasSubstr(mixes));
  // Sums over the rows of an expert are of several tokens.
  EXPECT_THAT(paging_refusal(replaced(text, "%both = Concat(%half, %half) {axis = 1}",
                                      "%most = ReduceMax(%half) {axes = [0], keepdims = 1}\n"
                                      "  %less = Sub(%half, %most)\n"
                                      "  %both = Concat(%less, %half) {axis = 1}")),
              HasSubstr(mixes));
}

TEST(Paging, CachesThatGrowGiveWhatOneSequenceGives) {
  const std::string text = golden("caches_that_grow_seen_through_a_mask");
  const auto expected = one_by_one(ir::parse_graph(text), [](std::size_t s) {
    const Sequence& own = kSequences[s];
    const std::int64_t all = own.before + own.tokens;
    std::vector<Tensor> inputs{
        Tensor::from_doubles(DType::kInt64, {1, own.tokens}, ids_of(own, static_cast<unsigned>(s))),
        Tensor::from_doubles(DType::kInt64, {1, all},
                             std::vector<double>(static_cast<std::size_t>(all), 1))};
    for (unsigned which = 0; which < 2; ++which)
      inputs.push_back(Tensor::from_doubles(DType::kFloat32, {1, kHeads, own.before, kWidth},
                                            rows_of(own, static_cast<unsigned>(10 * s) + which)));
    return inputs;
  });
  EXPECT_THAT(at_once(paged(text)), testing::Pointwise(testing::FloatEq(), expected));
}

/// A sequence is as long as the model's own tables of positions, wherever these are read.
TEST(Paging, TablesOfPositionsSayHowLongASequenceIs) {
  const auto limit_of = [](const std::string& table, std::int64_t asked = 0) {
    std::string text = replaced(golden("rows_at_their_positions"), "%heads = Reshape(%x)",
                                "%heads = Reshape(%moved)");
    // Positions are known before the first product.
    const std::string positions =
        "%n = Iota() {axis = 2, dtype = i64, shape = [1, 1, s, 1]}\n  %i2 = Add(%n, %position)\n";
    text = replaced(text, positions.substr(0, positions.find('\n') + 1), "");
    text = replaced(text, "  %i2 = Add(%n, %position)\n", "");
    text = replaced(text, "  %heads =", "  " + positions + "  " + table + "\n  %heads =");
    Context context;
    context.paging.emplace();
    context.paging->block_size = kBlock;
    context.paging->max_positions = asked;
    const Graph many = page_caches(ir::parse_graph(text), context);
    EXPECT_EQ(many.ranges().find(paged_names::kTableBlocks)->second.max,
              (context.paging->max_positions + kBlock - 1) / kBlock);
    return std::pair(context.paging->max_positions, context.position_table);
  };
  // Learned positions, and rows of them behind two for padding.
  const std::string learned =
      "%rows_of = const f32[22, 8] random(7)\n  %at = Reshape(%i2) {shape = [1, s]}\n  ";
  const std::string added = "Gather(%rows_of, %at) {axis = 0}\n  %moved = Add(%x, %found)";
  auto [most, table] = limit_of(learned + "%found = " + added);
  EXPECT_EQ(most, 22);
  EXPECT_THAT(table, HasSubstr("Gather"));
  EXPECT_EQ(limit_of(learned + "%two = const i64[] {2}\n  %behind = Add(%at, %two)\n  %found = " +
                     replaced(added, "%at", "%behind"))
                .first,
            20);
  // Angles of a fixed number of positions.
  EXPECT_EQ(limit_of("%n40 = Iota() {axis = 0, dtype = f32, shape = [40, 8]}\n"
                     "  %rows_of = Cos(%n40)\n  %at = Reshape(%i2) {shape = [1, s]}\n  %found = " +
                     added)
                .first,
            40);
  // What asks for less gets less, and for more no more.
  EXPECT_EQ(limit_of(learned + "%found = " + added, 9).first, 9);
  EXPECT_EQ(limit_of(learned + "%found = " + added, 23).first, 22);
  // Tokens choose rows of the vocabulary, which is no limit.
  EXPECT_EQ(limit_of("%moved = Abs(%x)").first, 64);
}

TEST(Paging, WhatMixesOrCountsTokensIsRefused) {
  const std::string text = golden("rows_at_their_positions");
  EXPECT_THAT(paging_refusal(replaced(text, "%last = const",
                                      "%mean = ReduceMean(%all) {axes = [1], keepdims = 1}\n"
                                      "  %less = Sub(%all, %mean)\n  %last = const")),
              HasSubstr("it was taken"));  // nothing reads it
  const std::string read = replaced(text, "Gather(%all, %last)", "Gather(%less, %last)");
  EXPECT_THAT(paging_refusal(replaced(read, "%last = const",
                                      "%mean = ReduceMean(%all) {axes = [1], keepdims = 1}\n"
                                      "  %less = Sub(%all, %mean)\n  %last = const")),
              HasSubstr("not known to compute token by token"));
  EXPECT_THAT(paging_refusal(replaced(read, "%last = const",
                                      "%count = Size() {value = [s], dtype = i64}\n"
                                      "  %f = Cast(%count) {to = f32}\n"
                                      "  %less = Mul(%all, %f)\n  %last = const")),
              HasSubstr("how many tokens there are"));
}

TEST(Paging, OtherMasksAndPositionsAreRefused) {
  const std::string text = golden("rows_at_their_positions");
  EXPECT_THAT(paging_refusal(replaced(text, "%one = const i64[] {1}", "%one = const i64[] {0}")),
              HasSubstr("other keys than those up to their own position"));
  EXPECT_THAT(paging_refusal(replaced(text, "%i2 = Add(%n, %position)",
                                      "%two = const i64[] {2}\n  %twice = Mul(%n, %two)\n"
                                      "  %i2 = Add(%twice, %position)")),
              HasSubstr("does not write the rows of tokens at their positions"));
  EXPECT_THAT(paging_refusal(replaced(golden("caches_that_grow_seen_through_a_mask"),
                                      "LessOrEqual(%key, %row)", "GreaterOrEqual(%key, %row)")),
              HasSubstr("its mask is neither"));
  // A window that keeps other rows than the last ones, and one whose mask hides some of them.
  const std::string sliding = golden("sliding_windows_hold_the_last_rows");
  EXPECT_THAT(paging_refusal(replaced(sliding, "%first = Size() {value = [s]}",
                                      "%first = Size() {value = [1]}")),
              HasSubstr("its mask is neither"));
  EXPECT_THAT(paging_refusal(replaced(sliding, "And(%both, %near)", "Or(%both, %near)")),
              HasSubstr("its mask is neither"));
  // Biases that the position decides, not the distance; an encoder's mask that hides some.
  const std::string biased = golden("a_bias_of_the_distance_in_steps");
  EXPECT_THAT(paging_refusal(replaced(biased, "Max(%far, %zero)", "Max(%row, %zero)")),
              HasSubstr("its mask is neither"));
  EXPECT_THAT(paging_refusal(replaced(biased, "Sub(%one, %ones)", "Sub(%ones, %nothing)")),
              HasSubstr("encoder's positions otherwise"));
  EXPECT_THAT(paging_refusal(replaced(golden("tables_that_the_length_chooses"),
                                      "-64*min(max(total, 8), 9) + 576", "floordiv(total, 9)")),
              HasSubstr("minima and maxima"));
  EXPECT_THAT(
      paging_refusal("graph @main(%ids: i64[1, s], %x: f32[1, s, 4]) {\n  return y = %x\n}\n"),
      HasSubstr("no cache was found"));
}

}  // namespace
}  // namespace sinter::fusion::test
