// SPDX-License-Identifier: Apache-2.0
// Plans of compile --serve with right hashes, of shapes that the engine does not expect: refused
// where they are read, each by the binding that is wrong.
#include <functional>
#include <string>

#include <gmock/gmock.h>
#include <sinter/engine.h>
#include <sinter/error.h>

#include "runtime/plan/plan_data.h"
#include "runtime/plan/plan_file.h"
#include "runtime/plan/serving.h"
#include "runtime/plan_access.h"
#include "tests/tools/cli_fixture.h"
#include "tests/tools/generate/tiny_decoder.h"

namespace sinter::tests {
namespace {

using testing::HasSubstr;
using namespace plan;
namespace names = serving_names;

class ServingPlanTest : public CliTest {
 protected:
  void SetUp() override {
    const auto result = sinter({"compile", kTinyDecoder, "-o", path("plan"), "--target=cpu",
                                "--serve=block=4,few-tokens=3,positions=46"});
    ASSERT_EQ(result.code, 0) << result.err;
    honest_.emplace(Plan::load(path("plan")));
  }

  /// What the plan is refused for once `change` has been made; "" if it is not.
  std::string refusal(const std::function<void(fb::PlanT&)>& change) const {
    const PlanData& data = *PlanAccess::data(*honest_);
    PlanParts parts;
    parts.meta = data.meta;
    change(parts.meta);
    const auto add = [](std::vector<PlanParts::Piece>& pieces, std::span<const std::byte> bytes) {
      if (!bytes.empty()) pieces.emplace_back(0, bytes, nullptr);
    };
    add(parts.weights, data.weights);
    add(parts.modules, data.modules);
    add(parts.sources, data.sources);
    try {
      const Plan plan = Plan::from_memory(serialize_plan(parts));
      EngineOptions options;
      options.cache_bytes = 1 << 20;
      const Engine engine(plan, options);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidPlan) << error.what();
      return error.what();
    }
    return "";
  }

  std::optional<Plan> honest_;
};

fb::BindingT& input(fb::PlanT& plan, std::string_view name) {
  return **std::ranges::find(plan.inputs, name, [](const auto& each) { return each->name; });
}
fb::BindingT& output(fb::PlanT& plan, std::string_view name) {
  return **std::ranges::find(plan.outputs, name, [](const auto& each) { return each->name; });
}
std::uint32_t constant(fb::PlanT& plan, std::int64_t value) {
  plan.expressions.emplace_back(fb::ExprOp::Constant, 0, 0, value);
  return static_cast<std::uint32_t>(plan.expressions.size() - 1);
}
fb::SymbolT& symbol(fb::PlanT& plan, std::string_view name) {
  return **std::ranges::find(plan.symbols, name, [](const auto& each) { return each->name; });
}

TEST_F(ServingPlanTest, LogitsAreFoundBehindOtherFloats) {
  fb::PlanT meta = PlanAccess::data(*honest_)->meta;
  auto states = std::make_unique<fb::BindingT>(output(meta, names::kLogits));
  states->name = "hidden_states";
  meta.outputs.insert(meta.outputs.begin(), std::move(states));
  const std::size_t found = serving_of(meta).logits;
  EXPECT_EQ(meta.outputs[found]->name, names::kLogits);
}

TEST_F(ServingPlanTest, AnHonestPlanSaysItsSizes) {
  EXPECT_EQ(refusal([](fb::PlanT&) {}), "");
  const ServingPlan plan = serving_of(PlanAccess::data(*honest_)->meta);
  EXPECT_EQ(plan.block_size, 4);
  EXPECT_EQ(plan.table_blocks, 12);
  EXPECT_EQ(plan.sequence_positions, 46);
  EXPECT_EQ(plan.logprobs->most, 20);
  EXPECT_EQ(plan.tokens, 2048);
  EXPECT_EQ(plan.sequences, 256);
}

/// Of each binding another rank, its sizes in another order, and another type.
TEST_F(ServingPlanTest, EachBindingIsChecked) {
  fb::PlanT meta = PlanAccess::data(*honest_)->meta;
  int checked = 0;
  const auto check = [&](auto bindings, const std::string& name, std::size_t rank) {
    const auto at = [&](fb::PlanT& plan) -> fb::BindingT& {
      return **std::ranges::find(plan.*bindings, name, [](const auto& each) { return each->name; });
    };
    const auto wrong = [&](const char* what, const std::function<void(fb::PlanT&)>& change) {
      EXPECT_NE(refusal(change), "") << name << ": " << what;
      ++checked;
    };
    wrong("no rank", [&](fb::PlanT& plan) { at(plan).shape.clear(); });
    wrong("one more", [&](fb::PlanT& plan) { at(plan).shape.push_back(constant(plan, 1)); });
    if (rank > 1) {
      wrong("one less", [&](fb::PlanT& plan) { at(plan).shape.pop_back(); });
      wrong("reversed", [&](fb::PlanT& plan) { std::ranges::reverse(at(plan).shape); });
    }
    for (std::size_t d = 0; d < rank; ++d)
      wrong("a constant", [&](fb::PlanT& plan) { at(plan).shape[d] = constant(plan, 7); });
    wrong("type", [&](fb::PlanT& plan) {
      const auto other = static_cast<std::uint8_t>(DType::kUInt8);
      at(plan).dtype = other;
      plan.buffers[at(plan).buffer]->dtype = other;
    });
  };
  for (const auto& each : meta.inputs) check(&fb::PlanT::inputs, each->name, each->shape.size());
  for (const auto& each : meta.outputs)
    if (meta.buffers[each->buffer]->kind != fb::BufferKind::State)
      check(&fb::PlanT::outputs, each->name, each->shape.size());
  EXPECT_GT(checked, 60);
}

TEST_F(ServingPlanTest, SizesThatAreSharedAreEqual) {
  EXPECT_THAT(refusal([](fb::PlanT& plan) {
                input(plan, names::kPositions).shape = input(plan, names::kSampleRows).shape;
              }),
              HasSubstr("'positions'"));
  EXPECT_THAT(refusal([](fb::PlanT& plan) {
                output(plan, names::kSampledTokens).shape = input(plan, names::kIds).shape;
              }),
              HasSubstr("'sampled_tokens'"));
  EXPECT_THAT(refusal([](fb::PlanT& plan) {
                std::swap(output(plan, names::kLikeliestTokens).shape,
                          output(plan, names::kTokenLogprobs).shape);
              }),
              HasSubstr("'token_logprobs'"));
}

TEST_F(ServingPlanTest, NoSizeIsBeyondWhatIsServed) {
  for (const char* name : {"tokens", "sequences", "samples", "table_blocks"})
    for (const std::int64_t most :
         {std::int64_t{0}, std::int64_t{1} << 31, std::int64_t{INT32_MAX}, INT64_MAX})
      EXPECT_NE(refusal([&](fb::PlanT& plan) {
                  symbol(plan, name).min = std::min(symbol(plan, name).min, most);
                  symbol(plan, name).max = most;
                }),
                "")
          << name << " " << most;
  EXPECT_NE(refusal([](fb::PlanT& plan) { symbol(plan, "samples").min = 2; }), "");
}

TEST_F(ServingPlanTest, BlocksAreThoseOfAttention) {
  const auto with = [](std::string text) {
    return [text](fb::PlanT& plan) {
      for (auto& option : plan.manifest->options)
        if (option->key == "serve") option->value = text;
    };
  };
  for (const char* text : {"block=8", "block=0", "block=-4", "block=2147483647", "block=3", "x"})
    EXPECT_THAT(refusal(with(text)), HasSubstr("manifest")) << text;
  // No more positions than tables have, whatever the manifest says.
  EXPECT_EQ(refusal(with("block=4,positions=99999999")), "");
}

/// An output that a plan has on request: the first row of each expert, for each mixture.
TEST_F(ServingPlanTest, OffsetsOfExpertsAreTwoNumbersOfI32) {
  const auto of = [&](const std::function<void(fb::PlanT&, fb::BindingT&)>& change) {
    fb::PlanT plan = PlanAccess::data(*honest_)->meta;
    auto experts = std::make_unique<fb::BindingT>(output(plan, names::kTokenLogprobs));
    experts->name = names::kExpertOffsets;
    experts->dtype = static_cast<std::uint8_t>(DType::kInt32);
    experts->shape = {constant(plan, 3), constant(plan, 5)};
    change(plan, *experts);
    plan.outputs.push_back(std::move(experts));
    return serving_of(plan).experts;
  };
  const auto honest = of([](fb::PlanT&, fb::BindingT&) {});
  ASSERT_TRUE(honest);
  EXPECT_EQ(honest->mixtures, 3);
  EXPECT_EQ(honest->experts, 4);
  const auto refused = [&](const std::function<void(fb::PlanT&, fb::BindingT&)>& change) {
    try {
      of(change);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidPlan) << error.what();
      EXPECT_THAT(error.what(), HasSubstr("'expert_offsets'"));
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(refused([](fb::PlanT&, fb::BindingT& experts) {
                experts.dtype = static_cast<std::uint8_t>(DType::kFloat32);
              }),
              HasSubstr("not i32"));
  EXPECT_THAT(refused([](fb::PlanT&, fb::BindingT& experts) { experts.shape.pop_back(); }),
              HasSubstr("it has 1 dimensions, not 2"));
  for (const auto& [mixtures, offsets] :
       {std::pair<std::int64_t, std::int64_t>{0, 5}, {3, 1}, {3, 0}, {3, -1}, {1 << 17, 5}})
    EXPECT_NE(refused([mixtures, offsets](fb::PlanT& plan, fb::BindingT& experts) {
                experts.shape = {constant(plan, mixtures), constant(plan, offsets)};
              }),
              "")
        << mixtures << " x " << offsets;
  EXPECT_NE(refused([](fb::PlanT& plan, fb::BindingT& experts) {
              experts.shape[0] = input(plan, names::kIds).shape[0];
            }),
            "");
}

TEST_F(ServingPlanTest, NothingElseIsBound) {
  EXPECT_THAT(refusal([](fb::PlanT& plan) { input(plan, names::kTokenBiases).name = "other"; }),
              HasSubstr("'token_biases'"));
  EXPECT_THAT(refusal([](fb::PlanT& plan) { input(plan, names::kLogprobsWanted).name = "other"; }),
              HasSubstr("'other'"));
  EXPECT_THAT(refusal([](fb::PlanT& plan) {
                for (auto& output : plan.outputs)
                  if (output->name == names::kLikeliestTokens) output->name = "likeliest";
              }),
              HasSubstr("'likeliest_tokens'"));
}

}  // namespace
}  // namespace sinter::tests
