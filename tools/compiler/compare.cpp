// SPDX-License-Identifier: Apache-2.0
// Compares variants of one compiled model.
#include <algorithm>

#include "runtime/plan/plan_data.h"
#include "tools/compiler/api.h"
#include "tools/compiler/build/model_source.h"
#include "tools/compiler/run/inputs.h"
#include "tools/compiler/run/measure.h"

namespace sinter::tools {
namespace {

/// A variant to measure.
struct Variant {
  std::string name;
  Plan plan;
  std::uint64_t plan_bytes;
  Session session;
  std::vector<double> compute, wall;
};

/// The variant with the model's own weights, if others are requested.
constexpr const char* kModelWeights = "model-weights";

struct Build {
  std::string name;
  BuildOptions options;
};

std::vector<Build> builds_of(const BuildOptions& options) {
  std::vector<Build> builds{{"unfused", options}, {"fused", options}};
  builds[0].options.fuse = false;
  builds[1].options.fuse = true;
  if (options.weights.bits != 0) {
    builds.push_back(builds[1]);
    builds.back().name = kModelWeights;
    builds.back().options.weights = {};
  }
  return builds;
}

void measure(std::vector<Variant>& variants, const CompareOptions& compare,
             const Reporter& reporter) {
  for (auto& variant : variants)
    for (int i = 0; i < 5; ++i) variant.session.run();
  const auto rounds = static_cast<std::size_t>(std::max(1, compare.rounds));
  double spent = 0;
  for (std::size_t round = 0; round < rounds && (round < 5 || spent < compare.seconds * 1e6);
       ++round) {
    for (auto& variant : variants) {
      variant.compute.push_back(time_compute(variant.session, !compare.hot));
      variant.wall.push_back(time_run(variant.session));
      spent += variant.compute.back() + variant.wall.back();
    }
    reporter.progress("measuring", round + 1, rounds);
  }
}

}  // namespace

CompareResult compare_builds(const BuildOptions& options, const CompareOptions& compare,
                             Reporter& reporter) {
  const auto target = resolve_target(options.target);
  auto model = import_model(options.model, options, reporter);
  const auto inputs = make_inputs(describe_inputs(model.graph), compare.inputs);

  std::vector<Variant> variants;
  for (const Build& build : builds_of(options)) {
    const auto built = build_plan(build.options, model, target, reporter);
    const auto bytes = plan::serialize_plan(built.plan.parts);
    const auto plan = Plan::from_memory(bytes);
    for (const bool graph : {false, true}) {
      // Compares weights only in the default mode of running.
      const bool launches = target.traits().generates_kernels;
      if (graph ? !launches : launches && build.name == kModelWeights) continue;
      auto session = compare.session;
      session.cuda_graphs = graph;
      const std::string name = build.name + (!launches ? "" : graph ? "-graph" : "-stream");
      variants.push_back({name, plan, bytes.size(), Session(plan, session), {}, {}});
      set_inputs(variants.back().session, plan, inputs);
    }
  }
  measure(variants, compare, reporter);

  CompareResult result;
  result.target = target.to_string();
  result.shapes = describe_shapes(variants.front().plan, inputs);
  const auto reference = get_outputs(variants.front().session, variants.front().plan);
  for (auto& variant : variants) {
    const auto outputs = get_outputs(variant.session, variant.plan);
    const bool other_weights = variant.name.starts_with(kModelWeights);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (other_weights)
        result.weights_error =
            std::max(result.weights_error.value_or(0), relative_error(reference[i], outputs[i]));
      else
        result.difference = std::max(result.difference, relative_error(outputs[i], reference[i]));
    }
  }
  const double baseline = statistics_of(variants.front().compute).median;
  for (auto& variant : variants) {
    const auto memory = variant.session.memory();
    CompareVariant& entry = result.variants.emplace_back();
    entry.name = variant.name;
    entry.compute = statistics_of(variant.compute);
    entry.wall = statistics_of(variant.wall);
    entry.speed_up = baseline / entry.compute.median;
    entry.launches = variant.session.launches();
    entry.bytes_moved = variant.session.bytes_moved();
    entry.plan_bytes = variant.plan_bytes;
    entry.weight_bytes = memory.weights;
    entry.memory_bytes = memory.weights + memory.arena + memory.workspace + memory.io;
  }
  return result;
}

}  // namespace sinter::tools
