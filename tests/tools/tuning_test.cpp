// SPDX-License-Identifier: Apache-2.0
// compile --tune over a machine that is made up, and --tuning-cache.
#ifdef SINTER_WITH_CUDA
#include "tools/compiler/tuning/tuning.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <sinter/devices.h>
#include <sinter/error.h>

#include "cli_fixture.h"
#include "codegen/targets/cuda/cuda_target.h"
#include "ir/text/text.h"
#include "runtime/libraries/tuning_cache.h"
#include "tools/cli/text/compile_text.h"
#include "tools/compiler/options/shapes.h"

namespace sinter::tests {
namespace {

using namespace tools;
using testing::AllOf;
using testing::HasSubstr;

constexpr int kRuleUs = 100;
// Seconds in which a kernel tries its first few candidates and no more.
constexpr double kBrief = 1e-3;
// Enough for all kernels of a model, also on a machine that does other things.
constexpr double kAmple = 30;

/// Schedules that were opened, in order; that number `favourite` takes `favourite_us`, others 100.
struct FakeGpu {
  std::vector<std::string> opened;
  std::size_t favourite = 2;
  double favourite_us = 50;
  std::string name = "Test GPU", architecture = "sm_90";

  struct Bench : TrialBench {
    explicit Bench(FakeGpu& gpu) : gpu(gpu) {}
    Reading open(const codegen::CompiledPlan& plan, const std::string& schedule) override {
      // The plan has that schedule, and nothing else to run.
      EXPECT_EQ(plan.parts.meta.steps.size(), 1u);
      std::vector<std::string> schedules;
      const auto add = [&](const plan::fb::WorkUnion& work) {
        if (const auto* kernel = work.AsKernelStep())
          for (const auto& variant : kernel->variants) schedules.push_back(variant->schedule);
      };
      const plan::fb::WorkUnion& work = plan.parts.meta.steps[0]->work;
      add(work);
      if (const auto* tactics = work.AsTacticStep())
        for (const auto& tactic : tactics->tactics)
          for (const auto& part : tactic->parts) add(part->work);
      EXPECT_THAT(schedules, testing::Contains(schedule));
      gpu.opened.push_back(schedule);
      const double us = gpu.opened.size() - 1 == gpu.favourite ? gpu.favourite_us : kRuleUs;
      return [us] { return us; };
    }
    FakeGpu& gpu;
  };
  std::function<TuningMachine(int)> machine() {
    return [this](int) {
      return TuningMachine{
          name, architecture, "driver of tests",
          [this](const ir::Graph&, const ir::Bindings&) { return std::make_unique<Bench>(*this); }};
    };
  }
};

class TuningTest : public CliTest {
 protected:
  /// softmax(relu(x + w)), one kernel.
  std::string model() {
    onnx::ModelProto model = small_model();
    auto* graph = model.mutable_graph();
    graph->clear_node();
    graph->mutable_output(0)->mutable_type()->mutable_tensor_type()->clear_shape();
    value(graph->mutable_output(0), "y", {"batch", "8"});
    graph->clear_initializer();
    weights(graph->add_initializer(), "w", {8});
    node(graph, "Add", "bias", {"x", "w"}, "biased");
    node(graph, "Relu", "activation", {"biased"}, "r");
    node(graph, "Softmax", "normalise", {"r"}, "y");
    return save(model);
  }

  /// compile --tune, with `gpu` as the machine.
  BuildResult tune(FakeGpu& gpu, const std::string& plan, double seconds = kBrief,
                   const std::string& target = "cuda:sm_90", const std::string& file = "",
                   const std::string& shapes = "", const std::vector<std::string>& entries = {}) {
    Reporter reporter;
    TuneOptions options;
    options.seconds = seconds;
    options.file = file;
    options.shapes = parse_shapes(shapes);
    BuildOptions build;
    build.model = Model(model());
    build.target = target;
    for (const auto& entry : entries) build.entries.push_back(parse_entry(entry));
    Tuning tuning(options, plan, reporter, gpu.machine());
    build.tune = [&](const auto& graph, const auto& all, const auto& resolved, auto& compile) {
      tuning.choose(target, graph, all, resolved, compile);
    };
    auto result = build_plan(build, reporter);
    plan::write_plan(result.plan.parts, plan);
    table = fmt::format("{}", fmt::join(tuning_text(tuning.finish(result.plan, plan)), "\n"));
    return result;
  }
  static const plan::fb::KernelVariantT& variant(const BuildResult& result) {
    return *result.plan.parts.meta.steps[0]->work.AsKernelStep()->variants[0];
  }
  std::string table;
};

TEST_F(TuningTest, TheFastestIsChosenKeptAndUsedAgain) {
  FakeGpu gpu;
  const auto result = tune(gpu, path("a.plan"));
  ASSERT_GT(gpu.opened.size(), gpu.favourite);
  EXPECT_EQ(variant(result).schedule, gpu.opened[2]);
  EXPECT_EQ(variant(result).chosen_by, "tuning on Test GPU");
  EXPECT_THAT(table, AllOf(HasSubstr("100.00"), HasSubstr(gpu.opened[0]), HasSubstr("50.00"),
                           HasSubstr(gpu.opened[2]), HasSubstr("Test GPU")));

  // The next compilation needs no GPU and makes the same bytes.
  const auto again = sinter({"compile", model(), "-o", path("b.plan"), "--target=cuda:sm_90",
                             "--tuning-cache", path("a.plan.tuning")});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(read(path("a.plan")), read(path("b.plan")));
  EXPECT_THAT(again.err, HasSubstr("schedules of 1 of 1 kernels"));
  EXPECT_EQ(read(path("a.plan.tuning")), read(path("b.plan.tuning")));
  EXPECT_THAT(sinter({"inspect", path("b.plan"), "--kernels"}).out,
              AllOf(HasSubstr(gpu.opened[2]), HasSubstr("tuning on Test GPU")));
  EXPECT_THAT(sinter({"inspect", path("b.plan"), "--source"}).out,
              HasSubstr(gpu.opened[2] + ", by tuning on Test GPU"));
  EXPECT_THAT(
      sinter({"inspect", path("b.plan"), "--tuning"}).out,
      AllOf(HasSubstr("sm_90 Test GPU"), HasSubstr("50.00"), HasSubstr(gpu.opened[2]),
            HasSubstr("rule: " + gpu.opened[0] + ", 100.00 us"), HasSubstr("driver of tests")));

  // Without the file the rule's; tuned again with it nothing is timed.
  EXPECT_EQ(sinter({"compile", model(), "-o", path("c.plan"), "--target=cuda:sm_90"}).code, 0);
  EXPECT_NE(read(path("a.plan")), read(path("c.plan")));
  EXPECT_THAT(sinter({"inspect", path("c.plan"), "--kernels"}).out, HasSubstr("rule"));
  FakeGpu idle;
  tune(idle, path("a.plan"));
  EXPECT_TRUE(idle.opened.empty());
  EXPECT_EQ(read(path("a.plan")), read(path("b.plan")));
}

TEST_F(TuningTest, ALittleFasterIsNotEnough) {
  FakeGpu gpu;
  gpu.favourite_us = kRuleUs * (1 - kTuningMargin / 2);
  const auto result = tune(gpu, path("a.plan"));
  EXPECT_EQ(variant(result).schedule, gpu.opened[0]);
  EXPECT_THAT(table, HasSubstr("the rule's"));
  // It is known that the rule's is best: kept like any other.
  FakeGpu idle;
  tune(idle, path("a.plan"));
  EXPECT_TRUE(idle.opened.empty());
}

TEST_F(TuningTest, VariantsAreTunedAtSizesThatRunThem) {
  FakeGpu few, many;
  tune(few, path("a.plan"), kBrief, "cuda:sm_90", "", "x:1x8");
  const auto result = tune(many, path("a.plan"), kBrief, "cuda:sm_90", "", "x:9999x8");
  ASSERT_GT(many.opened.size(), many.favourite);
  const auto& variants = result.plan.parts.meta.steps[0]->work.AsKernelStep()->variants;
  ASSERT_EQ(variants.size(), 2u);
  EXPECT_EQ(variants[0]->schedule, few.opened[2]);
  EXPECT_EQ(variants[1]->schedule, many.opened[2]);
}

TEST_F(TuningTest, EntryPointsAreTunedAtTheirOwnSizes) {
  const std::vector<std::string> two = {"many:batch=2..4096", "one:batch=1"};
  FakeGpu gpu;
  gpu.favourite_us = kRuleUs;  // none is faster: all are kept as the rule's
  const auto result = tune(gpu, path("a.plan"), kAmple, "cuda:sm_90", "", "", two);
  ASSERT_EQ(result.plan.kernels.size(), 2u);
  EXPECT_EQ(result.plan.kernels[0].entry, 0u);
  EXPECT_EQ(result.plan.kernels[1].entry, 1u);
  EXPECT_FALSE(gpu.opened.empty());
  // Both were, under the names by which the plan finds them.
  const auto again =
      sinter({"compile", model(), "-o", path("b.plan"), "--target=cuda:sm_90", "--entry", two[0],
              "--entry", two[1], "--tuning-cache", path("a.plan.tuning")});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("schedules of 2 of 2 kernels"));
  EXPECT_EQ(read(path("a.plan")), read(path("b.plan")));
  // Shapes are for the entry point that takes them.
  FakeGpu few;
  EXPECT_NO_THROW(tune(few, path("c.plan"), kBrief, "cuda:sm_90", "", "x:7x8", two));
  EXPECT_THROW(tune(few, path("d.plan"), kBrief, "cuda:sm_90", "", "x:5000x8", two), Error);
}

TEST_F(TuningTest, WithoutTimeTheRulesStay) {
  FakeGpu gpu;
  const auto result = tune(gpu, path("a.plan"), 1e-9);
  EXPECT_TRUE(gpu.opened.empty());
  EXPECT_EQ(variant(result).chosen_by, "");
  EXPECT_THAT(table, HasSubstr("no time was left"));
}

TEST_F(TuningTest, OtherGpusAreTunedForThemselves) {
  FakeGpu gpu;
  const auto message = [&](const std::string& target) {
    try {
      tune(gpu, path("a.plan"), 1, target);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kUsage);
      return std::string(error.what());
    }
    ADD_FAILURE() << "no error for " << target;
    return std::string();
  };
  EXPECT_THAT(message("cuda:sm_80"),
              AllOf(HasSubstr("Test GPU"), HasSubstr("sm_90 alone"), HasSubstr("not for sm_80"),
                    HasSubstr("--tuning-cache")));
  EXPECT_THAT(message("cuda:sm_80,sm_90"), HasSubstr("not for sm_80 and sm_90"));
  EXPECT_THAT(message("cpu"), HasSubstr("target cuda"));
}

TEST_F(TuningTest, AFileOfSeveralGpus) {
  const std::string file = path("all.tuning");
  FakeGpu first, second;
  second.name = "Another GPU";
  second.favourite = 3;
  tune(first, path("a.plan"), kBrief, "cuda:sm_90", file);
  tune(second, path("b.plan"), kBrief, "cuda:sm_90", file);
  const auto compile = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"compile", model(), "-o", path("c.plan"), "--tuning-cache", file});
    return sinter(more);
  };
  const auto open = compile({"--target=cuda:sm_90"});
  EXPECT_EQ(open.code, 2);
  EXPECT_THAT(open.err, AllOf(HasSubstr("--tuning-gpu"), HasSubstr("Another GPU, Test GPU")));
  EXPECT_EQ(compile({"--target=cuda:sm_90", "--tuning-gpu=Another GPU"}).code, 0);
  EXPECT_EQ(read(path("c.plan")), read(path("b.plan")));
  EXPECT_EQ(compile({"--target=cuda:sm_90", "--tuning-gpu=Test GPU"}).code, 0);
  EXPECT_EQ(read(path("c.plan")), read(path("a.plan")));
  // No entry for these: the rule's, which is said.
  const auto other = compile({"--target=cuda:sm_80"});
  EXPECT_EQ(other.code, 0) << other.err;
  EXPECT_THAT(other.err, HasSubstr("schedules of 0 of 1 kernels"));
  const auto both = compile({"--target=cuda:sm_80,sm_90"});
  EXPECT_EQ(both.code, 0) << both.err;
  EXPECT_THAT(both.err, HasSubstr("is not used"));
}

TEST_F(TuningTest, SchedulesThatAreNoneAnyMoreAreLeftOut) {
  FakeGpu gpu;
  tune(gpu, path("a.plan"));
  const auto kept = read_schedules(path("a.plan.tuning"));
  ASSERT_EQ(kept.size(), 1u);
  const auto cache = runtime::TuningCache::open(path("old.tuning"), "schedules sm_90 Test GPU");
  cache->store(kept[0].key + " 0 some_name", {{}, 1.0, "row vector=77 | by an older compiler"});
  ASSERT_TRUE(cache->save());
  const auto result = sinter({"compile", model(), "-o", path("b.plan"), "--target=cuda:sm_90",
                              "--tuning-cache", path("old.tuning")});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.err, HasSubstr("has no schedule 'row vector=77' any more"));
}

TEST_F(TuningTest, FilesThatAreNoneAreRefused) {
  const auto compile = [&](const std::string& file, const std::string& target) {
    return sinter(
        {"compile", model(), "-o", path("b.plan"), "--target=" + target, "--tuning-cache", file});
  };
  const auto missing = compile(path("none.tuning"), "cuda:sm_90");
  EXPECT_EQ(missing.code, 2);
  EXPECT_THAT(missing.err, AllOf(HasSubstr("none.tuning"), HasSubstr("cannot be read")));
  const auto foreign = compile(write("foreign.tuning", "hello\n"), "cuda:sm_90");
  EXPECT_EQ(foreign.code, 2);
  EXPECT_THAT(foreign.err, AllOf(HasSubstr("foreign.tuning"), HasSubstr("line 1")));
  FakeGpu gpu;
  tune(gpu, path("a.plan"));
  std::string text = read(path("a.plan.tuning"));
  text.replace(text.find("row "), 3, "raw");
  const auto edited = compile(write("edited.tuning", text), "cuda:sm_90");
  EXPECT_EQ(edited.code, 2);
  EXPECT_THAT(edited.err, AllOf(HasSubstr("edited.tuning', line 2"), HasSubstr("checksum")));
  const auto on_cpu = compile(path("a.plan.tuning"), "cpu");
  EXPECT_EQ(on_cpu.code, 2);
  EXPECT_THAT(on_cpu.err, HasSubstr("target cuda"));
}

TEST_F(TuningTest, NeedsAGpuOfTheTarget) {
  const auto gpus = list_gpus().gpus;
  const std::string here = gpus.empty() ? "" : gpus.front().architecture;
  const std::string another = here == "sm_90" ? "cuda:sm_80" : "cuda:sm_90";
  const auto result =
      sinter({"compile", model(), "-o", path("a.plan"), "--target=" + another, "--tune=5"});
  EXPECT_EQ(result.code, gpus.empty() ? 7 : 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("--tune"), HasSubstr("--tuning-cache")));
}

TEST_F(TuningTest, AlgorithmsAreLeftToSessionsWhereHostOperatorsHaveNoLibrary) {
  // A product, of a library; rows, of a user's; and a kernel, which is timed.
  const std::string graph = write("host.graph", R"(
graph @main(%x: f32[4, 8]) {
  %w = const f32[8, 8] random(1)
  %p = MatMul(%x, %w)
  %h = HostOperator(%p) {operator = "test::Rows"} body (%p) {
    %r = Relu(%p)
    return r = %r
  }
  %y = Softmax(%h) {axis = 1}
  return y = %y
})");
  FakeGpu gpu;
  std::vector<std::string> notes;
  Monitor monitor;
  monitor.on_diagnostic = [&](const Diagnostic& said) { notes.push_back(said.message); };
  Reporter reporter(monitor);
  TuneOptions options;
  options.seconds = kBrief;
  BuildOptions build;
  build.model = Model(graph);
  build.target = "cuda:sm_90";
  Tuning tuning(options, path("a.plan"), reporter, gpu.machine());
  build.tune = [&](const auto& model, const auto& all, const auto& resolved, auto& compile) {
    tuning.choose(build.target, model, all, resolved, compile);
  };
  const BuildResult result = build_plan(build, reporter);
  plan::write_plan(result.plan.parts, path("a.plan"));
  const TuningResult tuned = tuning.finish(result.plan, path("a.plan"));
  EXPECT_FALSE(gpu.opened.empty());
  EXPECT_FALSE(tuned.kernels.empty());
  EXPECT_TRUE(tuned.libraries.empty());
  EXPECT_THAT(notes, testing::Contains(
                         AllOf(HasSubstr("functions of test::Rows"), HasSubstr("--op-library"))));
}

TEST_F(TuningTest, OptionsThatContradict) {
  const auto compile = [&](const std::string& option) {
    return sinter({"compile", model(), "-o", path("a.plan"), "--target=cuda:sm_90", option});
  };
  EXPECT_EQ(compile("--optShapes=x:1x8").code, 2);  // without --tune
  EXPECT_EQ(compile("--tune=0").code, 2);
  const auto forced = sinter({"compile", model(), "-o", path("a.plan"), "--target=cuda:sm_90",
                              "--tune=1", "--schedule=row vector=4"});
  EXPECT_EQ(forced.code, 2);
  EXPECT_THAT(forced.err, HasSubstr("--schedule"));
  const auto unknown = compile("--schedule=nonsense 3");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, AllOf(HasSubstr("nonsense 3"), HasSubstr("pointwise")));
}

TEST(RegionGraph, IsTheNodeWithWhatItReads) {
  const ir::Graph graph = ir::parse_graph(R"(
graph @main(%x: f32[batch, 8], %y: f32[batch, 8]) ranges {batch: 1..64} {
  %w = const f32[8] random(1)
  %a = Fused(%x, %y) {kind = "pointwise"} body (%x, %y) {
    %s = Add(%x, %y)
    return s = %s
  }
  %r = Reshape(%a) {shape = [batch, 2, 4]}
  %t = Reshape(%w) {shape = [2, 4]}
  %b = Fused(%r, %t, %r) {kind = "pointwise"} body (%x, %w, %z) {
    %s = Add(%x, %w)
    %u = Mul(%s, %z)
    return u = %u
  }
  return a = %a, b = %b
})");
  const ir::Graph region = region_graph(graph, graph.nodes().size() - 1, graph.ranges());
  ir::verify(region);
  ASSERT_EQ(region.inputs().size(), 2u);
  EXPECT_EQ(ir::to_string(region.type(region.inputs()[0])), "u8[batch]");
  EXPECT_EQ(ir::to_string(region.type(region.inputs()[1])), "f32[batch, 8]");
  EXPECT_EQ(region.outputs().size(), 1u);
  EXPECT_EQ(region.ranges(), graph.ranges());
  // The kernel is the same one.
  codegen::CompileOptions options;
  options.target = &codegen::cuda_target();
  options.architectures = {"sm_90"};
  EXPECT_EQ(codegen::compile(region, options).kernels.at(0).key,
            codegen::compile(graph, options).kernels.at(1).key);
}

TEST(TypicalSizes, AreAskedForOrTheGreatest) {
  const ir::Graph graph = ir::parse_graph(R"(
graph @main(%x: f32[batch, 2*seq], %y: f32[any]) ranges {batch: 1..64, seq: 4..4096, any: 1..} {
  %a = Exp(%x)
  %b = Exp(%y)
  return a = %a, b = %b
})");
  using Sizes = ir::Bindings;
  EXPECT_EQ(typical_sizes(graph, {}), (Sizes{{"any", 1}, {"batch", 64}, {"seq", 512}}));
  EXPECT_EQ(typical_sizes(graph, {{"x", {3, 20}}}), (Sizes{{"any", 1}, {"batch", 3}, {"seq", 10}}));
  EXPECT_THROW(typical_sizes(graph, {{"z", {3}}}), Error);
  EXPECT_THROW(typical_sizes(graph, {{"x", {3}}}), Error);
  EXPECT_THROW(typical_sizes(graph, {{"x", {3, 21}}}), Error);
  EXPECT_THROW(typical_sizes(graph, {{"x", {65, 20}}}), Error);
}

}  // namespace
}  // namespace sinter::tests
#endif
