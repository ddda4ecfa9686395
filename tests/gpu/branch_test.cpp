// SPDX-License-Identifier: Apache-2.0
// Steps in parallel branches of a graph on a real GPU: results are those of the reference whether
// branches measured faster or not.
#include <filesystem>

#include <gtest/gtest.h>
#include <unistd.h>

#include "ir/text/text.h"
#include "runtime/libraries/tuning_cache.h"
#include "tests/gpu/support.h"

namespace sinter::gpu_test {
namespace {

namespace fs = std::filesystem;

/// Three chains of one input, two of them with products, which meet twice.
ir::Graph branches() {
  return ir::parse_graph(
      "graph @g(%x: f32[3000, 256], %u: f32[256, 256], %v: f32[256, 256]) {\n"
      "  %a0 = MatMul(%x, %u)\n  %a1 = Tanh(%a0)\n  %a2 = MatMul(%a1, %v)\n"
      "  %b0 = MatMul(%x, %v)\n  %b1 = Softmax(%b0) {axis = 1}\n  %b2 = MatMul(%b1, %u)\n"
      "  %c0 = Softmax(%x) {axis = 0}\n  %c1 = Softmax(%c0) {axis = 1}\n"
      "  %d = Add(%a2, %b2)\n  %e = Softmax(%d) {axis = 1}\n  %f = Mul(%e, %c1)\n"
      "  %g0 = MatMul(%f, %u)\n  %h0 = MatMul(%f, %v)\n  %i = Sub(%g0, %h0)\n"
      "  return y = %i, a = %a2, c = %c1\n}\n");
}

TEST(Branches, GiveTheReferencesResults) {
  const ir::Graph graph = branches();
  const Plan plan = compile(graph, true);
  SessionOptions options;
  const fs::path folder =
      fs::temp_directory_path() / ("sinter_branches_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  options.tuning_cache = folder.string();
  const std::string file = (folder / "cublaslt.tuning").string();
  const auto check = [&] {
    Session session(plan, options);
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      const auto inputs = random_inputs(graph, {}, seed);
      expect_reference(graph, inputs, run(session, graph, inputs), 1e-4);
    }
  };
  check();
  // As if the other way had measured faster.
  int found = 0;
  for (const runtime::TunedChoice& choice : runtime::read_tuning_file(file)) {
    if (choice.problem.find("branches of") == std::string::npos) continue;
    ++found;
    const auto cache = runtime::TuningCache::open(file, choice.environment);
    runtime::TunedAlgorithm other = choice.algorithm;
    RecordProperty("chosen", other.note);
    other.blob[0] = 1 - other.blob[0];
    cache->store(choice.problem, other);
    check();
  }
  EXPECT_EQ(found, 1);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace sinter::gpu_test
